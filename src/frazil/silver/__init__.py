"""Typed changes: one shape for every source."""

from __future__ import annotations
