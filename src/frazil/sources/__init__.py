"""The left edge: what is new at a source, and its records as text."""

from __future__ import annotations
