"""Machine services: cores, memory, scratch folders, and the chain of causes of an error.

Must not know of a lake.
"""
