"""Users' SQL: names, functions, references, and the order in which aggregates follow from it.

Nothing is executed.
"""
