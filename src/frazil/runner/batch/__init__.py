"""Data that the steps of one batch share: its changes, bounds and lookups, on the driver and in Spark.

Steps themselves belong in `steps`.
"""
