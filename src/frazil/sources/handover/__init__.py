"""A table with snapshots of one kind and changes of another."""

from __future__ import annotations
