"""Look at quarantined records, and at corrections of them, without a JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.api.declaring import load

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from frazil.api.declaring import Declaration
    from frazil.bronze.read import Correction
    from frazil.serve.corrections import Chosen, Judged, Line
    from frazil.serve.quarantine import Quarantine


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
