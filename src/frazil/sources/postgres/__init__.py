"""PostgreSQL as a source: logical replication, landed as files, and the files as a source of changes."""
