"""Amazon DMS: full load and change files, and transaction files of many tables."""

from __future__ import annotations
