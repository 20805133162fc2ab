"""Notice two declarations that take turns: each turn rebuilds tables, and columns come and go for readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.runner.table_run import TableRun

_BEFORE: Final = "declared_before"
_SAYS: Final = (
    "this declaration built the table before, then another one did, and now this one does again: if two hosts or "
    "branches run the pipeline, give them the same declaration, because each turn rebuilds tables"
)


def declared_bookmark(context: TableRun, base: Mapping[str, Any], declared: str) -> dict[str, str]:
    """Return the entries of a bookmark that name a table's declaration and the one before it.

    If ``declared`` is the declaration before the last change, the report gets one warning.

    Args:
        context: the table's part of the run.
        base: the bookmark that the new one follows; empty for a new table.
        declared: hash of the declaration.
    """
    was, before = base.get("declared", declared), base.get(_BEFORE)
    if declared != was:
        if declared == before and _SAYS not in context.report.warnings:
            context.report.warnings.append(_SAYS)
        before = was
    return {"declared": declared} | ({_BEFORE: before} if before else {})
