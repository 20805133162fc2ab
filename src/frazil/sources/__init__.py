"""Sources of changes. A kind of source is one class (:mod:`frazil.sources.base`) and one line in ``KINDS``."""

from __future__ import annotations
