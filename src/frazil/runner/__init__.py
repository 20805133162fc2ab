"""Execute a plan: tables in parallel, the steps of each table in order.

Decisions belong in `plan`.
"""
