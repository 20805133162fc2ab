"""Checks on a batch before it is published: rules and limits.

They stop the batch or count violations; they do not change rows.
"""
