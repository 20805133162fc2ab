"""Proofs that tables say what the changes say, by DuckDB, written apart from what builds the tables."""
