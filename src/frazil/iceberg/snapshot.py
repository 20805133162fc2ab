"""The newest snapshot of a table as one value, from Java, SQL or a metadata file, and its time by the clock."""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import HistoryChangedError, StorageError
from frazil.spec.amount import counted
from frazil.steps import SparkRuns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import date


_SPARK_NAMES: Final = {"long": "bigint", "timestamptz": "timestamp", "timestamp": "timestamp_ntz", "uuid": "string"}
"""Types with different names in Iceberg and Spark."""

BOOKMARK = "frazil.bookmark"
"""Key of the snapshot summary. One snapshot carries rows and bookmark, so they always agree (ONCE)."""
RUN_ID: Final = "frazil.run-id"
"""Key of the snapshot summary: the run that made it."""
BY_SPARK: Final = "frazil.by-spark"
"""Key of the snapshot summary: why Spark computed the rows in place of the driver, as words with commas between."""
LAKE_FORMAT: Final = 1
"""Version of what the tables of a lake and their bookmarks mean, kept in every bookmark as ``format``.

It grows when an older Frazil would misread a lake. A bookmark without it is of version 1.
"""
RUN_BRANCH: Final = "frazil_run_"
"""Prefix of the branch that a run writes to until it publishes."""


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
        location: address of the table's metadata file; None for a table that does not exist. Ignored by comparisons,
            since a commit does not return it.
        columns: current columns with types as Spark writes them; empty in the result of a commit. Ignored by
            comparisons.
        altered: columns that were renamed or dropped since the newest bookmark: old name -> new name, empty for a
            dropped one. Ignored by comparisons.
        foreign: number of snapshots since the newest bookmark that added or removed rows: another engine made them.
            Ignored by comparisons.
        snapshots: number of readable snapshots; 0 unless read from the metadata file.
        spark_runs: how often Spark computed rows in place of the driver, by these snapshots; likewise.
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
    foreign: int = field(default=0, compare=False)
    snapshots: int = 0
    spark_runs: SparkRuns = field(default_factory=SparkRuns, compare=False)

    @property
    def batch(self) -> int:
        """The newest batch of bronze that the table holds; 0 if it holds none."""
        return int(self.bookmark.get("batch", 0))

    @property
    def own_bookmark(self) -> Mapping[str, Any]:
        """The bookmark; empty if another engine renamed or dropped columns since it was written."""
        return {} if self.altered else self.bookmark

    @property
    def records(self) -> int:
        """Rows in data files, including rows that delete files remove."""
        return self._total("records")

    @property
    def rows(self) -> int:
        """Rows of the table, by the counts of its files alone.

        Frazil's own deletes name each row once, so the count is exact. Deletes of other engines can name a row twice,
        or a file that is gone: the table has more rows then. Equality deletes (Flink's) are not counted: it has fewer.
        """
        return max(0, self.records - self.position_deletes)

    @property
    def position_deletes(self) -> int:
        """Rows that position delete files remove; a row that is removed twice counts twice."""
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


def known_snapshots(metadata: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Return the snapshots of a table by id, as Iceberg writes them to JSON."""
    return {one["snapshot-id"]: one for one in metadata.get("snapshots", ())}


def main_snapshot(metadata: Mapping[str, Any]) -> int | None:
    """Return the id of the newest snapshot of ``main``; None without one."""
    found: int | None = metadata.get("refs", {}).get("main", {}).get("snapshot-id", metadata.get("current-snapshot-id"))
    return found


def current_columns(metadata: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the fields of a table's current schema, in Iceberg's JSON."""
    wanted = metadata.get("current-schema-id")
    return next((schema["fields"] for schema in metadata.get("schemas", ()) if schema["schema-id"] == wanted), ())


def ancestors(newest: int | None, snapshot: Callable[[int], Mapping[str, Any] | None]) -> Iterator[Mapping[str, Any]]:
    """Yield a snapshot and its ancestors, newest first, up to the first one that has expired.

    Args:
        newest: id of the snapshot; None yields nothing.
        snapshot: returns a snapshot by its id, as Iceberg writes it to JSON; None for an expired one.
    """
    while newest is not None and (at := snapshot(newest)) is not None:
        yield at
        newest = at.get("parent-snapshot-id")


def batch_at(newest: int | None, snapshot: Callable[[int], Mapping[str, Any] | None]) -> int:
    """Return the batch in the bookmark of a snapshot or its nearest ancestor; 0 if none has a bookmark.

    Args:
        newest: as for :func:`ancestors`.
        snapshot: likewise.
    """
    texts = (at["summary"][BOOKMARK] for at in ancestors(newest, snapshot) if BOOKMARK in at.get("summary", {}))
    return next((int(read_bookmark(text).get("batch", 0)) for text in texts), 0)


def table_snapshot(
    table: TableSnapshot,
    newest: Mapping[str, Any],
    snapshot: Callable[[int], Mapping[str, Any] | None],
    altered: Callable[[int | None], Mapping[str, str]] = lambda _: {},
) -> TableSnapshot:
    """Build the value for a table with a snapshot.

    Args:
        table: the table's attributes that do not depend on the snapshot.
        newest: the newest snapshot of the main branch, as Iceberg writes it to JSON.
        snapshot: returns an older snapshot by its id in the same form; None for an expired one. Called back to the
            newest bookmark.
        altered: returns the columns that were renamed or dropped since a schema, by the schema's id.

    Returns:
        ``table`` with the attributes of its snapshot.
    """
    foreign, at = 0, None
    for one in chain([newest], ancestors(newest.get("parent-snapshot-id"), snapshot)):
        if BOOKMARK in one.get("summary", {}):
            at = one
            break
        foreign += _changes_rows(one.get("summary", {}))
    return replace(
        table,
        snapshot_id=newest["snapshot-id"],
        bookmark=read_bookmark(at["summary"][BOOKMARK]) if at else {},
        altered=altered(at.get("schema-id")) if at else {},
        foreign=foreign,
        summary=newest.get("summary", {}),
        manifest_list=newest.get("manifest-list"),
        committed_at=datetime.fromtimestamp(newest["timestamp-ms"] / 1000, UTC),
    )


def _changes_rows(summary: Mapping[str, str]) -> bool:
    """Return whether a snapshot adds or removes rows; compaction and an empty commit do not."""
    counts = ("added-records", "deleted-records", "added-delete-files")
    return summary.get("operation") != "replace" and any(int(summary.get(name, 0)) for name in counts)


def metadata_snapshot(
    metadata: Mapping[str, Any], location: str | None = None, snapshot: int | None = None
) -> TableSnapshot:
    """Build the value from a table's metadata.

    Args:
        metadata: as Iceberg's table format has it.
        location: address of the metadata file.
        snapshot: id of the snapshot to describe; None for the newest one of ``main``.
    """
    snapshots, newest = known_snapshots(metadata), snapshot or main_snapshot(metadata)
    schemas = {schema["schema-id"]: schema["fields"] for schema in metadata.get("schemas", ())}
    columns = current_columns(metadata)
    table = TableSnapshot(
        branches=tuple(name for name in metadata.get("refs", {}) if name != "main"),
        location=location,
        columns=spark_columns(columns),
        snapshots=len(snapshots),
        spark_runs=_spark_runs(one.get("summary", {}) for one in snapshots.values()),
    )

    def altered(schema: int | None) -> Mapping[str, str]:
        return altered_columns(schemas.get(schema, ()), columns)

    return table_snapshot(table, snapshots[newest], snapshots.get, altered) if newest in snapshots else table


def _spark_runs(summaries: Iterable[Mapping[str, str]]) -> SparkRuns:
    """Count runs: one may make several snapshots of a table."""
    runs, reasons = set[str](), defaultdict[str, set[str]](set)
    for summary in summaries:
        run = summary.get(RUN_ID)
        if run is not None:
            runs.add(run)
            for reason in summary[BY_SPARK].split(",") if BY_SPARK in summary else ():
                reasons[reason].add(run)
    return SparkRuns(
        runs=len(runs),
        by_spark=len(set().union(*reasons.values())),
        reasons={reason: len(some) for reason, some in reasons.items()},
    )


def altered_columns(then: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Compare two schemas of a table by the ids of their fields.

    Args:
        then: fields of the older one, in Iceberg's JSON.
        now: fields of the newer one.

    Returns:
        Old name -> new name, empty for a dropped field; only fields whose names differ by more than case.
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


def bookmark_text(bookmark: Mapping[str, Any]) -> str:
    """Return a bookmark as JSON for a snapshot's summary, with the version of the lake."""
    # Not sorted: bronze's fields are in the order of their first appearance.
    return json.dumps({**bookmark, "format": LAKE_FORMAT}, separators=(",", ":"))


def read_bookmark(text: str) -> dict[str, Any]:
    """Return the bookmark of a snapshot's summary, without the version of the lake.

    Raises:
        NewerLakeError: a newer Frazil wrote it.
    """
    found: dict[str, Any] = json.loads(text)
    version = found.pop("format", 1)
    if version > LAKE_FORMAT:
        raise NewerLakeError(
            f"the lake has format {version}, and this Frazil knows formats up to {LAKE_FORMAT}",
            hint="pip install --upgrade frazil: a newer version wrote this lake",
        )
    return found


class NewerLakeError(StorageError):
    """A newer version of Frazil wrote the lake, in a format that this one does not know."""

    code = "FZ312"
    retryable = False


class BookmarkLostError(HistoryChangedError):
    """A table has rows, but no snapshot with a bookmark."""

    code = "FZ702"


def verify_bookmark(name: str, found: TableSnapshot, *, table: str, is_bronze: bool = False) -> None:
    """Refuse a table that has rows but no bookmark.

    Args:
        name: name of the lake's table.
        found: its newest snapshot.
        table: the source table it is built from, for the hint.
        is_bronze: the table is built from files, not from other tables.

    Raises:
        BookmarkLostError: the table has rows, and neither its snapshot nor an ancestor carries a bookmark.
    """
    if found.bookmark or found.snapshot_id is None or found.summary.get("total-records") == "0":
        return
    raise BookmarkLostError(
        f"{name} has rows and no bookmark: something else wrote it, or expired its history",
        hint=f"roll it back to a snapshot with a bookmark; or take the files again: frazil drop --select {table}, then "
        "frazil run"
        if is_bronze
        else f"run: frazil run --full-refresh --select {table}, which rebuilds silver and marts from bronze",
    )


_TOLERATED: Final = timedelta(seconds=60)
"""Iceberg accepts a commit that is at most this much older than the one before."""
_TIME: Final = "timestamp-ms"


class ClockError(StorageError):
    """The newest commit of a table is later than this machine's clock."""

    code = "FZ311"
    retryable = True

    def __init__(self, message: str) -> None:
        super().__init__(
            message,
            hint="correct the wrong clock, here or on the machine that made the commit, and run again. Until this "
            "clock has passed the commit's time, the table can be read but not written. If that clock was wrong, "
            "frazil doctor --repair corrects the times of a lake on this machine's disk",
        )


def verify_clock(path: tuple[str, ...], base: TableSnapshot) -> None:
    """Refuse to write to a table if its newest commit is later than this machine's clock.

    Raises:
        ClockError: the commit is later by more than the minute that Iceberg allows.
    """
    if base.committed_at is None:
        return
    now = time_here()
    if base.committed_at - now > _TOLERATED:
        ahead = counted(round((base.committed_at - now).total_seconds()), "second")
        raise ClockError(
            f"{'.'.join(path[1:])}: its newest commit is of {base.committed_at:%Y-%m-%d %H:%M:%S}, {ahead} later than "
            f"it is by the clock of this machine, {now:%Y-%m-%d %H:%M:%S} (UTC); nothing was written"
        )


def time_ahead(metadata: Mapping[str, Any]) -> timedelta:
    """Return how far the newest commit of a table lies in the future of this machine's clock; 0 for not at all.

    Args:
        metadata: the table's, as Iceberg's table format has it.
    """
    newest = max((metadata.get("last-updated-ms", 0), *(one[_TIME] for one in _timed(metadata))))
    ahead = timedelta(milliseconds=newest - _milliseconds(time_here()))
    return ahead if ahead > _TOLERATED else timedelta()


def at_present(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a table with the present time in place of all that lie in the future.

    The order of commits stays, and so does all else: times of commits are nowhere but there.
    """
    now = _milliseconds(time_here())
    made: dict[str, Any] = copy.deepcopy(dict(metadata))
    for one in _timed(made):
        one[_TIME] = min(one[_TIME], now)
    made["last-updated-ms"] = min(made["last-updated-ms"], now)
    return made


def _timed(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of a table's metadata that have a time."""
    return [one for name in ("snapshots", "snapshot-log", "metadata-log") for one in metadata.get(name, ())]


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


def today() -> date:
    """Return the current day in UTC, from which horizons are counted."""
    return time_here().date()


def day_of_horizon(day: date, base: TableSnapshot) -> date:
    """Return the day from which horizons are counted: ``day``, or the day of the newest commit if that is earlier.

    A clock that is ahead therefore folds nothing too early. A table without recent commits is folded one run later.
    """
    return day if base.committed_at is None else min(day, base.committed_at.date())


def time_here() -> datetime:
    """Return the time of this machine's clock."""
    return datetime.now(UTC)
