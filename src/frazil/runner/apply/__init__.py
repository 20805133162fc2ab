"""Apply a batch to one mart: Spark and Arrow compute its delta by one interface, one transaction writes it."""

from __future__ import annotations
