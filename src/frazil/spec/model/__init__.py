"""The declared values: pipelines, tables, columns, marts, rules, stores.

Values only, without rules over several of them.
"""
