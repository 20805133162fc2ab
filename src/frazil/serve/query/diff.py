"""Changes of a mart between two points: counts and rows, by key."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - a field's type
from typing import TYPE_CHECKING, Any, Final, Literal

import duckdb

from frazil.bronze import record as r
from frazil.catalog.trouble import translate_error, translated
from frazil.duck import connect, identifier, scan
from frazil.errors import DeclarationError
from frazil.iceberg.metadata import metadata_of
from frazil.iceberg.time_travel import batch_of, cut_names, read_point, snapshot_at
from frazil.serve.query.query import QueryError, rows_of
from frazil.serve.tables import read_snapshot, tables, verify_manifests
from frazil.spec import History
from frazil.spec.sql.select import selected
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from frazil.iceberg.time_travel import Point
    from frazil.spec import Current, Pipeline
    from frazil.spec.tables import LakeTable

_LIMITS: Final = {"memory_limit": "1GB", "threads": f"{min(4, os.cpu_count() or 1)}"}
"""DuckDB's settings; it spills to temporary files beyond this memory."""

_KINDS: Final = {"i": "inserted", "u": "updated", "d": "deleted"}

Change = Literal["inserted", "updated", "deleted"]


class NotAMartError(DeclarationError):
    """The word does not name exactly one mart."""

    code = "FZ184"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One end of a comparison.

    Attributes:
        snapshot: snapshot of the mart.
        batch: its batch.
        committed_at: its commit time.
    """

    snapshot: int
    batch: int
    committed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRow:
    """A row that differs between the two snapshots.

    Attributes:
        change: inserted, updated or deleted.
        key: columns that identify the row: the key, and ``valid_from`` in a history.
        old: values before, by column; None for an inserted row.
        new: values after, by column; None for a deleted row.
    """

    change: Change
    key: Mapping[str, Any]
    old: Mapping[str, Any] | None
    new: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Changes of a mart between two snapshots.

    Attributes:
        mart: name with the namespace.
        begin, end: the two snapshots.
        columns: columns without the key and without bookkeeping; those of the later snapshot first.
        inserted, updated, deleted: numbers of rows.
        rows: the first changed rows, in the order of their keys.
    """

    mart: str
    begin: Side
    end: Side
    columns: tuple[str, ...]
    inserted: int
    updated: int
    deleted: int
    rows: tuple[ChangedRow, ...]

    @property
    def changed(self) -> int:
        """Number of changed rows."""
        return self.inserted + self.updated + self.deleted


def diff(pipeline: Pipeline, mart: str, begin: str, end: str | None = None, *, limit: int | None = None) -> Diff:
    """Compare a mart at two points, by key.

    Args:
        pipeline: the declaration.
        mart: name of a mart.
        begin: a point for :func:`frazil.iceberg.time_travel.read_point`.
        end: another point; None for now. If it is the earlier one, the changes are reversed.
        limit: maximum number of rows to return; None for all. The counts cover all rows.

    Raises:
        NotAMartError: the word names no mart, or several.
        PointError: a text is not a point, or the mart has no snapshot of that point.
        NoLakeError: no table of the lake exists.
        DamagedTableError: a file of the mart is missing or damaged.

    Cost: reads both snapshots once, with 1 GB of memory and temporary files beyond it.
    """
    made = _mart(pipeline, mart)
    located = tables(pipeline)
    if made.key not in located:
        raise NotAMartError(f"{made.full_name} is not in the lake yet", hint="frazil run creates it")
    location = located[made.key]
    metadata = metadata_of(location)
    cuts = cut_names([metadata])
    sides = [
        _side(made.full_name, location, metadata, None if point is None else read_point(point, cuts))
        for point in (begin, end)
    ]
    for side in sides:
        verify_manifests(location, side.snapshot)
    declared = next(table for table in pipeline.tables if table.name == made.made_of)
    keys = (*declared.keys, *_version_keys(made.mart))
    with translated(pipeline), connect({made.key: location}, _LIMITS) as duck:
        try:
            columns = _compare(duck, location, sides, keys)
            counts = dict(duck.execute("SELECT c0, count(*) FROM changed GROUP BY c0").fetchall())
            shown = duck.sql(f"SELECT * FROM changed ORDER BY {_listed('c', len(keys) + 1, 1)}, c0")
            rows = [row for some in rows_of(shown if limit is None else shown.limit(limit), None) for row in some]
        except duckdb.Error as error:
            raise translate_error(error, pipeline) or QueryError(
                f"{made.full_name} cannot be compared: {error}"
            ) from error
    return Diff(
        mart=made.full_name,
        begin=sides[0],
        end=sides[1],
        columns=columns,
        **{name: counts.get(letter, 0) for letter, name in _KINDS.items()},
        rows=tuple(_row(row, keys, columns) for row in rows),
    )


def _version_keys(mart: Current | History | None) -> tuple[str, ...]:
    """Return the columns that distinguish rows of one key."""
    if not isinstance(mart, History):
        return ()
    return ("valid_from", "known_from") if mart.bitemporal else ("valid_from",)


def _mart(pipeline: Pipeline, word: str) -> LakeTable:
    """Return the mart that a word names: with or without the namespace, or by the source table of a single mart."""
    marts = [one for table in pipeline.tables for one in source_tables(pipeline, table).marts]
    found = [one for one in marts if word in (one.name, one.full_name)]
    if not found:
        names = selected(pipeline, [word]).tables
        found = [one for one in marts if one.made_of in names]
    if len(found) != 1:
        several = ", ".join(one.name for one in found)
        raise NotAMartError(f"'{word}' is {several or 'no mart'}", hint="name one mart")
    return found[0]


def _side(table: str, location: str, metadata: Mapping[str, Any], point: Point | None) -> Side:
    newest = metadata.get("refs", {}).get("main", {}).get("snapshot-id")
    if point is None and newest is None:
        raise NotAMartError(f"{table} has no rows yet", hint="frazil run writes it")
    snapshot = newest if point is None else snapshot_at(table, metadata, point)
    committed_at = read_snapshot(location, snapshot).committed_at
    return Side(snapshot=snapshot, batch=batch_of(metadata, snapshot), committed_at=committed_at)


def _compare(
    duck: duckdb.DuckDBPyConnection, location: str, sides: Sequence[Side], keys: tuple[str, ...]
) -> tuple[str, ...]:
    """Create the temporary table ``changed`` of rows that differ; return the compared columns.

    Its columns are ``c0`` with the letter of the change, the key, the old values and the new values.
    """
    begin, end = (duck.sql(f"SELECT * FROM {scan(location, side.snapshot)}") for side in sides)
    types = [{name: f"{kind}" for name, kind in zip(one.columns, one.types, strict=True)} for one in (end, begin)]
    columns = tuple(dict.fromkeys(name for one in types for name in one if _is_compared(name, keys)))
    froms = [
        _selected(location, side, keys, columns, kinds) for side, kinds in zip(sides, reversed(types), strict=True)
    ]
    same_key = " AND ".join(
        f"o.{identifier(key)} IS NOT DISTINCT FROM n.{identifier(key)}" for key in (*keys, *_nth(keys))
    )
    differs = " OR ".join(_differs(name, types) for name in columns) or "false"
    names = ", ".join(f"coalesce(n.{identifier(key)}, o.{identifier(key)})" for key in keys)
    values = "".join(f", {side}.{identifier(name)}" for side in "on" for name in columns)
    places = _listed("c", 1 + len(keys) + 2 * len(columns))
    # One pass joins both rows of a key, and drops equal rows at once.
    duck.execute(
        f"CREATE TEMP TABLE changed AS SELECT * FROM (SELECT CASE WHEN o.there IS NULL THEN 'i' "
        f"WHEN n.there IS NULL THEN 'd' WHEN {differs} THEN 'u' END, {names}{values} "
        f"FROM ({froms[0]}) o FULL JOIN ({froms[1]}) n ON {same_key}) t({places}) WHERE c0 IS NOT NULL"
    )
    return columns


def _is_compared(name: str, keys: Sequence[str]) -> bool:
    return not name.startswith(r.PREFIX) and name.lower() not in {key.lower() for key in keys}


def _selected(location: str, side: Side, keys: Iterable[str], columns: Iterable[str], kinds: Mapping[str, str]) -> str:
    """Return the SELECT of one side; missing columns are NULL."""
    names = ", ".join(map(identifier, keys))
    others = "".join(f", {identifier(name) if name in kinds else f'NULL AS {identifier(name)}'}" for name in columns)
    # Empty versions, which deletes leave, begin at the same time as the next one.
    order = f"valid_to NULLS LAST, {r.POSITION}, {r.ROW}"
    others += "".join(f", row_number() OVER (PARTITION BY {names} ORDER BY {order}) AS {name}" for name in _nth(keys))
    return f"SELECT true AS there, {names}{others} FROM {scan(location, side.snapshot)}"


def _nth(keys: Iterable[str]) -> tuple[str, ...]:
    """Return the column that distinguishes versions with the same begin; empty for marts without versions."""
    return ("_cdc_nth",) if "valid_from" in keys else ()


def _differs(name: str, types: Sequence[Mapping[str, str]]) -> str:
    """Return the condition that values of a column differ; they compare as text if the types do not fit."""
    kinds = {one[name] for one in types if name in one}
    sides = [f"{side}.{identifier(name)}" for side in "on"]
    if len(kinds) > 1 and any(
        not kind.startswith(("DECIMAL", "INTEGER", "BIGINT", "FLOAT", "DOUBLE")) for kind in kinds
    ):
        sides = [f"CAST({side} AS VARCHAR)" for side in sides]
    return " IS DISTINCT FROM ".join(sides)


def _listed(letter: str, count: int, first: int = 0) -> str:
    return ", ".join(f"{letter}{number}" for number in range(first, count))


def _row(row: Sequence[Any], keys: Sequence[str], columns: Sequence[str]) -> ChangedRow:
    change: Any = _KINDS[row[0]]
    values = row[1 + len(keys) :]
    old, new = (dict(zip(columns, part, strict=True)) for part in (values[: len(columns)], values[len(columns) :]))
    return ChangedRow(
        change=change,
        key=dict(zip(keys, row[1:], strict=False)),
        old=None if change == "inserted" else old,
        new=None if change == "deleted" else new,
    )
