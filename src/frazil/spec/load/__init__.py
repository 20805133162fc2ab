"""Reads declarations and reports problems by line; writes the JSON schema and the first declaration."""
