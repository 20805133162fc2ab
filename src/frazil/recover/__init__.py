"""Finds what is wrong with a machine, a catalog or a table, and sets tables back to versions that are whole."""
