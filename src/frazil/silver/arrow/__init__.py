"""Changes of small batches, typed by Arrow in the memory of the driver; the rows are those of Spark."""
