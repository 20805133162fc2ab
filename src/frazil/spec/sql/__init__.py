"""Users' SQL: names, functions, references, and the order of aggregates.

Nothing is executed.
"""
