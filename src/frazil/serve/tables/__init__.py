"""The tables of a lake and their state, read from the catalog and the metadata files."""
