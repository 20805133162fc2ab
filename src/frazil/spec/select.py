"""``--select``: which tables a command works on."""

from __future__ import annotations

from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from frazil.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.spec.pipeline import Pipeline


class UnknownSelectionError(DeclarationError):
    """``--select`` names nothing of the declaration."""

    code = "FZ103"


def selected(pipeline: Pipeline, select: Sequence[str]) -> tuple[str, ...]:
    """Names of the source tables that a selection means, in the order of the declaration.

    A word may name a table or one of its marts, with or without the layer before it (``marts.hosts``), or
    be a pattern with ``*``. A layer alone means everything. No words mean everything.

    Raises:
        UnknownSelectionError: a word matches nothing.
    """
    names = {table.name: {table.name, *(table.mart_name(mart) for mart in table.marts)} for table in pipeline.tables}
    chosen: set[str] = set()
    for word in select:
        bare = word.rpartition(".")[2]
        layer = bare in ("bronze", "silver", "marts", "gold")
        matched = {table for table, known in names.items() if layer or any(fnmatchcase(name, bare) for name in known)}
        if not matched:
            near = get_close_matches(bare, [name for known in names.values() for name in known], n=1)
            raise UnknownSelectionError(
                f"nothing is called {word!r}",
                hint=f"did you mean {near[0]!r}?" if near else f"the tables are {', '.join(names)}",
            )
        chosen |= matched
    return tuple(table for table in names if not select or table in chosen)
