"""Java and Spark: finding Java, the jars, the session, and the gateway to Iceberg's Java API.

Must not know of batches or marts.
"""
