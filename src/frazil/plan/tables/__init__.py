"""Layouts of tables, and their changes: columns and layouts to alter, and tables to rebuild."""
