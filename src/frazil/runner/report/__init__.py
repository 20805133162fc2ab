"""Results and failures of a run, as values and as records on disk.

Nothing here changes a table.
"""
