"""Whole dumps of a table, compared with each other."""

from __future__ import annotations
