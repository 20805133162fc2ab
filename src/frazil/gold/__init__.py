"""Aggregates over marts."""

from __future__ import annotations
