"""Raw records exactly as delivered, and the ledger of files."""

from __future__ import annotations
