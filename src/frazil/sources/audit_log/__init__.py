"""The audit log that triggers write."""
