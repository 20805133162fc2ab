"""All that touches Java: which one, the jars, the session, and the gateway to Iceberg.

Nothing of a batch or a mart.
"""
