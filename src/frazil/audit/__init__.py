"""What runs leave for auditors: run files, certificates and the hashes in them.

Nothing here changes a table.
"""
