"""The declared values: pipelines, tables, columns, marts, rules, stores.

Values only; rules over several of them are in ``spec.check``.
"""
