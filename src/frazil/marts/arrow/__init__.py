"""Marts of small batches, computed by Arrow in the memory of the driver; the rows are those of Spark."""
