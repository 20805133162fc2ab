"""Audit logs that triggers write."""
