"""Iceberg's table format, read as files: metadata, snapshots, manifests, damage.

No Spark, no catalog, no pipeline's rules.
"""
