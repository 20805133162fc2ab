"""Marts of small batches, computed by Arrow in the driver's memory; rows are the same as Spark's."""
