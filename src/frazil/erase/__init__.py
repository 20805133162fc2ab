"""Erases subjects and replaces personal data in every layer, and proves it.

Nothing of a normal run.
"""
