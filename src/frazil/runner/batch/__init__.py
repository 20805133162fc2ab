"""What the steps of one batch share: its changes, bounds and lookups, on the driver and in Spark.

No step stands here.
"""
