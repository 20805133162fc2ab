"""Does a plan: tables side by side, the steps of each in order.

What to do is decided in `plan`.
"""
