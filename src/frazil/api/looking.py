"""Look at tables, runs and lineage, cheaply: what the page in the browser shows; no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.api.declaring import load

if TYPE_CHECKING:
    from frazil.api.declaring import Declaration
    from frazil.interop.lineage import Lineage
    from frazil.serve.late import LateCell
    from frazil.serve.overview import ListedTable, Overview, TableBatch
    from frazil.serve.query.rows import MartRows
    from frazil.serve.query.stop import Stop
    from frazil.serve.runs import PastRun
    from frazil.spec.sql.select import Words


def overview(declaration: Declaration, names: Words | None = None) -> Overview:
    """Return a cheap look at source tables and aggregates, without rows and sources; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        names: source tables, and aggregates as ``gold.<name>``; None for all.
    """
    from frazil.serve.overview import overview as look
    from frazil.spec.sql.select import words

    pipeline = load(declaration)
    every = [*(table.name for table in pipeline.tables), *(f"gold.{gold.name}" for gold in pipeline.gold)]
    return look(pipeline, frozenset(every if names is None else words(names)))


def rows(
    declaration: Declaration, mart: str, *, after: str | None = None, limit: int = 25, stop: Stop | None = None
) -> MartRows:
    """Return a page of a mart's rows in the order of the key, see :func:`frazil.serve.query.rows.mart_rows`.

    Args:
        declaration: a pipeline, or the path of its declaration.
        mart: name of the mart, without its namespace.
        after: ``next`` of the page before; None for the first page.
        limit: rows of a page.
        stop: as for :func:`query`.
    """
    from frazil.serve.query.rows import mart_rows

    return mart_rows(load(declaration), mart, after=after, limit=limit, stop=stop)


def batches(declaration: Declaration, table: str, *, limit: int = 20) -> tuple[TableBatch, ...]:
    """Return what the newest runs wrote of a source table, see :func:`frazil.serve.overview.batches`.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
        limit: maximum number of runs to return.

    Raises:
        UnknownSelectionError: the source table does not exist.
    """
    from frazil.serve.overview import batches as look
    from frazil.spec.sql.select import source_table

    pipeline = load(declaration)
    return look(pipeline, source_table(pipeline, table).name, limit=limit)


def late_changes(declaration: Declaration, table: str) -> tuple[LateCell, ...]:
    """Return the changes of a table by day of event and day of arrival, see :func:`frazil.serve.late.late_changes`.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
    """
    from frazil.serve.late import late_changes as look

    return look(load(declaration), table)


def runs(declaration: Declaration, *, limit: int | None = 20) -> tuple[PastRun, ...]:
    """Return the recorded runs, newest first, without their commits; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        limit: maximum number of runs; None for all that are kept, which are the newest thousand.
    """
    from frazil.serve.runs import runs as look

    return tuple(look(load(declaration), limit=limit))


def past_run(declaration: Declaration, run: str = "latest") -> PastRun:
    """Return one run with its commits, see :func:`frazil.serve.runs.past_run`; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        run: its id or the end of it, or ``latest``.

    Raises:
        UnknownRunError: no record of such a run is kept, or several match.
    """
    from frazil.serve.runs import past_run as look

    return look(load(declaration), run)


def lineage(declaration: Declaration, table: str | None = None) -> Lineage:
    """Return what a table is made of and what is made of it, from source to gold; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, mart or aggregate; None for all.

    Raises:
        UnknownSelectionError: no such table, or several.
    """
    from frazil.interop.lineage import lineage as look

    return look(load(declaration), table)


def ls(declaration: Declaration) -> tuple[ListedTable, ...]:
    """Return every table of the lake with its kind, size and newest commit; starts no JVM.

    Raises:
        NoLakeError: no table of the lake exists.
    """
    from frazil.serve.overview import listing

    return tuple(listing(load(declaration)))
