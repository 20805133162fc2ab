"""All that is known of a table that has snapshots of one kind and changes of another."""

from __future__ import annotations
