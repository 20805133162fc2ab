"""The kinds of sources there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.sources.dms.source import DmsSource
from frazil.spec.pipeline import add_kind

if TYPE_CHECKING:
    from frazil.sources.base import Source
    from frazil.spec import Table
    from frazil.spec.source import SourceSpec

KINDS: Final[dict[str, type[Source]]] = {"dms": DmsSource}
"""``kind`` of a declaration -> the class that reads it."""


def source_of(table: Table) -> Source:
    """Return the source of a table."""
    return KINDS[table.source.kind](table)


def add_source(spec: type[SourceSpec], source: type[Source]) -> None:
    """Add a kind of source.

    Args:
        spec: its part of a declaration; the default of its ``kind`` is the name.
        source: reads it.
    """
    KINDS[spec.model_fields["kind"].default] = source
    add_kind(spec)
