"""Records for auditors: run files, certificates, and the hashes in them.

Must not change a table.
"""
