"""What this machine gives a process: cores and memory, scratch folders, the causes of an error.

Nothing of a lake.
"""
