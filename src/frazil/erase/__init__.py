"""Erase subjects and replace personal data in every layer, with proof.

Nothing here is part of a normal run.
"""
