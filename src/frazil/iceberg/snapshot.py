"""Where a table stands: one value, whether Java, SQL or a metadata file was asked."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import HistoryChangedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_SPARK_NAMES: Final = {"long": "bigint", "timestamptz": "timestamp", "timestamp": "timestamp_ntz", "uuid": "string"}
"""Types that Iceberg and Spark call otherwise."""

BOOKMARK = "frazil.bookmark"
"""Key of the snapshot summary. One snapshot carries rows and bookmark, so they cannot part (ONCE)."""
RUN_BRANCH: Final = "frazil_run_"
"""How the name begins of a branch that a run writes on until it publishes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSnapshot:
    """The newest snapshot of a table's main branch.

    Attributes:
        snapshot_id: None for a table without a snapshot, and for one that does not exist.
        bookmark: the newest bookmark in the snapshot's ancestry; empty for none.
        summary: the snapshot's own summary, numbers as text.
        manifest_list: address of the file that lists the snapshot's manifests.
        committed_at: time of the snapshot.
        branches: names of all other branches.
        location: address of the table's metadata file; None for a table that does not exist, and where SQL was asked.
            It and the columns do not count when two are compared: a commit knows neither of what it made.
        columns: names of the table's columns now, with types as Spark writes them; empty in what a commit returns.
        altered: columns that the table had at its newest bookmark and that are called otherwise now: name then -> name
            now, empty for one that is gone. They do not count when two are compared, and SQL does not tell them.
        snapshots: how many snapshots can still be read; 0 unless the metadata file was asked.
    """

    snapshot_id: int | None = None
    bookmark: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, str] = field(default_factory=dict)
    manifest_list: str | None = None
    committed_at: datetime | None = None
    branches: tuple[str, ...] = ()
    location: str | None = field(default=None, compare=False)
    columns: Mapping[str, str] = field(default_factory=dict, compare=False)
    altered: Mapping[str, str] = field(default_factory=dict, compare=False)
    snapshots: int = 0

    @property
    def batch(self) -> int:
        """The batch of bronze the table stands at; 0 for none."""
        return int(self.bookmark.get("batch", 0))

    @property
    def records(self) -> int:
        """Rows in data files, those that delete files take away included."""
        return self._total("records")

    @property
    def position_deletes(self) -> int:
        """Rows that delete files take away; a row taken away twice counts twice."""
        return self._total("position-deletes")

    @property
    def data_files(self) -> int:
        """Number of data files."""
        return self._total("data-files")

    @property
    def delete_files(self) -> int:
        """Number of delete files."""
        return self._total("delete-files")

    @property
    def size_bytes(self) -> int:
        """Size of data and delete files."""
        return self._total("files-size")

    def _total(self, what: str) -> int:
        return int(self.summary.get(f"total-{what}", 0))


def table_snapshot(
    table: TableSnapshot,
    newest: Mapping[str, Any],
    snapshot: Callable[[int], Mapping[str, Any] | None],
    altered: Callable[[int | None], Mapping[str, str]] = lambda _: {},
) -> TableSnapshot:
    """Build the value for a table with a snapshot.

    Args:
        table: what is known of the table beside its snapshot.
        newest: the newest snapshot of the main branch, as Iceberg writes it to JSON.
        snapshot: returns an older snapshot by its id in the same form; None for one that expired. It is asked only as
            far as the newest bookmark.
        altered: returns which columns are called otherwise than in a schema, by its id.

    Returns:
        ``table`` with the attributes of its snapshot.
    """
    at: Mapping[str, Any] | None = newest
    while at is not None and BOOKMARK not in at.get("summary", {}):
        parent = at.get("parent-snapshot-id")
        at = None if parent is None else snapshot(parent)
    return replace(
        table,
        snapshot_id=newest["snapshot-id"],
        bookmark=json.loads(at["summary"][BOOKMARK]) if at else {},
        altered=altered(at.get("schema-id")) if at else {},
        summary=newest.get("summary", {}),
        manifest_list=newest.get("manifest-list"),
        committed_at=datetime.fromtimestamp(newest["timestamp-ms"] / 1000, UTC),
    )


def metadata_snapshot(
    metadata: Mapping[str, Any], location: str | None = None, snapshot: int | None = None
) -> TableSnapshot:
    """Build the value from a table's metadata, as Iceberg's table format has it, and the address of its file.

    It is of the newest snapshot of main, or of one that ``snapshot`` names.
    """
    snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots", ())}
    refs = metadata.get("refs", {})
    newest = snapshot or refs.get("main", {}).get("snapshot-id", metadata.get("current-snapshot-id"))
    schemas = {schema["schema-id"]: schema["fields"] for schema in metadata.get("schemas", ())}
    columns = schemas.get(metadata.get("current-schema-id"), ())
    table = TableSnapshot(
        branches=tuple(name for name in refs if name != "main"),
        location=location,
        columns=spark_columns(columns),
        snapshots=len(snapshots),
    )

    def altered(schema: int | None) -> Mapping[str, str]:
        return altered_columns(schemas.get(schema, ()), columns)

    return table_snapshot(table, snapshots[newest], snapshots.get, altered) if newest in snapshots else table


def altered_columns(then: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Compare two schemas of a table by the ids of their fields.

    Args:
        then: fields of the older one, in Iceberg's JSON.
        now: fields of the newer one.

    Returns:
        Name then -> name now, empty for a field that is gone; only fields for which they differ by more than case.
    """
    names = {field["id"]: field["name"] for field in now}
    found = {field["name"]: names.get(field["id"], "") for field in then}
    return {old: new for old, new in found.items() if old.lower() != new.lower()}


def spark_columns(fields: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the columns of a schema with types as Spark writes them, from its fields in Iceberg's JSON."""
    return {field["name"]: _spark_type(field["type"]) for field in fields}


def _spark_type(kind: str | Mapping[str, Any]) -> str:
    if isinstance(kind, str):
        return _SPARK_NAMES.get(kind, kind.replace(" ", ""))
    if kind["type"] == "list":
        return f"array<{_spark_type(kind['element'])}>"
    if kind["type"] == "map":
        return f"map<{_spark_type(kind['key'])},{_spark_type(kind['value'])}>"
    return f"struct<{','.join(f'{name}:{inner}' for name, inner in spark_columns(kind['fields']).items())}>"


class BookmarkLostError(HistoryChangedError):
    """A table has rows and no snapshot that says which changes they hold."""

    code = "FZ702"


def verify_bookmark(name: str, found: TableSnapshot, *, table: str, is_bronze: bool = False) -> None:
    """Refuse a table that has rows and does not say which changes they hold.

    Args:
        name: of the table of the lake.
        found: where it stands.
        table: the source table that it is made of, for the way out.
        is_bronze: it is made of files, not of other tables.

    Raises:
        BookmarkLostError: the table has a snapshot, and no ancestor of it carries a bookmark.
    """
    if found.bookmark or found.snapshot_id is None or found.summary.get("total-records") == "0":
        return
    raise BookmarkLostError(
        f"{name} has rows and no bookmark: something else wrote it, or expired its history",
        hint=f"roll it back to a snapshot with a bookmark; or take the files again: frazil drop --select {table}, then "
        "frazil run"
        if is_bronze
        else f"run: frazil rebuild --select {table}, which rebuilds silver and marts from bronze",
    )
