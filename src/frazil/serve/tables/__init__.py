"""Which tables a lake has and where each of them is, read from the catalog and its files."""
