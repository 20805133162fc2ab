"""Changes of small batches, typed by Arrow in the driver's memory; rows are the same as Spark's."""
