"""Look at tables, runs, lineage and quarantined records, cheaply: what the page shows; no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.api.declaring import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from frazil.api.declaring import Declaration
    from frazil.bronze.read import Correction
    from frazil.interop.lineage import Lineage
    from frazil.serve.corrections import Chosen, Judged, Line
    from frazil.serve.late import LateCell
    from frazil.serve.overview import ListedTable, Overview, TableBatch
    from frazil.serve.quarantine import Quarantine
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


def quarantine(
    declaration: Declaration,
    table: str | None = None,
    *,
    limit: int = 20,
    rule: str | None = None,
    after: tuple[int, str, int] | None = None,
) -> Quarantine:
    """Return the contents of the quarantine, see :func:`frazil.serve.quarantine.quarantine`; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, for its rules and records; None for the broken rules of all tables.
        limit: maximum number of records.
        rule: only records that break this rule; None for all.
        after: batch, file and row of the last record of the page before; None for the first page.

    Raises:
        UnknownSelectionError: the source table does not exist.
        NoLakeError: no table of the lake exists.
    """
    from frazil.serve.quarantine import quarantine as look

    return look(load(declaration), table, limit=limit, rule=rule, after=after)


def quarantine_to(
    declaration: Declaration,
    table: str,
    path: Path,
    *,
    chosen: Chosen | None = None,
    edit: Callable[[Line], Line | None] = lambda line: line,
) -> int:
    """Write the quarantined records of a table to a file for correction, and return their number; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
        path: file of JSON lines, see :func:`frazil.serve.corrections.write_corrections`.
        chosen: the records to write; None for all.
        edit: returns a line as it is to be written, or None to leave it out.
    """
    from frazil.serve.corrections import ALL, write_corrections

    return write_corrections(load(declaration), table, path, chosen=chosen or ALL, edit=edit)


def read_corrections(declaration: Declaration, table: str, path: Path) -> tuple[Correction, ...]:
    """Read corrections of a table's quarantined records from a file; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
        path: the file that :func:`quarantine_to` wrote, with corrected records.

    Raises:
        CorrectionError: the file is not valid, see :func:`frazil.serve.corrections.read_corrections`.
    """
    from frazil.serve.corrections import read_corrections as read

    return read(load(declaration), table, path)


def judge_corrections(declaration: Declaration, table: str, path: Path) -> Judged:
    """Return which corrections of a table's quarantined records would pass; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
        path: as for :func:`read_corrections`.

    Raises:
        CorrectionError: as for :func:`read_corrections`.
    """
    from frazil.serve.corrections import judge_corrections as judge

    return judge(load(declaration), table, path)


def quarantined_line(
    declaration: Declaration, table: str, file: str, row: int
) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Return one quarantined record as :func:`quarantine_to` writes it, and the table's fields; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.
        file: file of the record.
        row: its row there. Without such a record in quarantine the line is None.
    """
    from frazil.serve.corrections import quarantined_line as find

    return find(load(declaration), table, file, row)
