"""Where a lake is kept: its catalog, object store, warehouse folder and lock, reached without Spark.

No table is read or written here.
"""
