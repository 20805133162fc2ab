"""All that is known of whole dumps."""

from __future__ import annotations
