"""Bytes to records: CSV, JSON lines, Parquet; no source is known here."""

from __future__ import annotations
