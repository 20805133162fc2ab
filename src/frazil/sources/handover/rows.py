"""The table that a handover is of, to be compared with a mart."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from frazil.sources.audit_log.rows import log_rows
from frazil.sources.handover.capture import snapshots_table
from frazil.sources.postgres.errors import require_driver
from frazil.spec.check.kinds.handover import changes_table
from frazil.spec.model.kinds.audit_log import AuditLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from frazil.sources.comparison import SourceRows
    from frazil.spec import Pipeline, Table


def compared_table(table: Table) -> Table | None:
    """Return the part of a handover that says where its table is: its log, else its snapshots; None for files alone."""
    changes = changes_table(table)
    if changes is None:
        return None
    if isinstance(changes.source, AuditLog) and changes.source.url is not None:
        return changes
    snapshots = snapshots_table(table)
    return None if snapshots.source.url is None else snapshots


@contextmanager
def handover_rows(pipeline: Pipeline, table: Table) -> Iterator[SourceRows]:
    """Open the table that the log is of, or that snapshots are taken of."""
    part = compared_table(table)
    assert part is not None  # noqa: S101 - others are not opened
    if part.source.kind == AuditLog.model_fields["kind"].default:
        with log_rows(pipeline, part) as rows:
            yield rows
        return
    require_driver()
    from frazil.sources.snapshot.database import database_rows  # noqa: PLC0415 - needs the driver

    with database_rows(pipeline, part, _unknown) as rows:
        yield rows


def _unknown(into: Path, position: int) -> str:
    del into, position
    return "what changes are on their way is known to the sender"
