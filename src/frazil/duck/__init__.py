"""DuckDB over the tables of a lake.

No question that a command asks stands here.
"""
