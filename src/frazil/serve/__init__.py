"""Looks at the lake without a JVM: query, status, key, check."""

from __future__ import annotations
