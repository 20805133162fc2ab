"""Does the steps of a plan, once, in order."""

from __future__ import annotations
