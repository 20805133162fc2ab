"""The table that an audit log is of, to be compared with a mart."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from frazil.errors import SourceError
from frazil.sources.audit_log.capture import log_captures
from frazil.spec.secrets import redacted, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from frazil.sources.comparison import SourceRows
    from frazil.spec import Pipeline, Table


@contextmanager
def log_rows(pipeline: Pipeline, table: Table) -> Iterator[SourceRows]:
    """Open the table whose changes the log has; the log is in the same database."""
    from frazil.sources.postgres.rows import table_rows  # noqa: PLC0415 - needs the driver

    source, folder = table.source, pipeline.folder
    # A shard is no table of the declaration; it has its records looked at alone.
    logged = _logged(pipeline) if table in pipeline.tables else [table]
    [capture] = [one for one in log_captures(pipeline, logged) if table.name in one.tables]

    def find_uncaptured(into: Path, _: int) -> str | None:
        try:
            capture.preview(folder, into)
        except SourceError as error:
            return error.message
        return None

    url = resolve(source.url, setting=f"url of the source of table '{table.name}'", folder=folder)
    with table_rows(url, source.schema_and_table, redacted(source.url), find_uncaptured) as rows:
        yield rows


def _logged(pipeline: Pipeline) -> list[Table]:
    return [table for table in pipeline.tables if table.source.kind == "audit_log"]
