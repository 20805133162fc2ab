"""Raw records as they came, and the ledger of files."""

from __future__ import annotations
