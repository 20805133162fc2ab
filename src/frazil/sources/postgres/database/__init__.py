"""What a PostgreSQL server says: its catalog, keys, rights and rules.

Nothing is landed here.
"""
