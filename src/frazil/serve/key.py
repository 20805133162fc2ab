"""``frazil key``: everything that the lake holds of one key, in order."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import duckdb

from frazil.bronze import record as r
from frazil.catalog.trouble import translated
from frazil.duck import cursor, duck_literal, identifier
from frazil.serve.check.fold import TIME, in_order, time_of
from frazil.serve.layers import layers
from frazil.serve.query.query import QueryError, result_of
from frazil.serve.tables import tables, verify_manifests
from frazil.silver.baseline import baseline_of
from frazil.spec.amount import html_lines, html_table
from frazil.spec.pii import stored_keys
from frazil.spec.sql.select import source_table
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frazil.serve.layers import Layers
    from frazil.spec import Pipeline, Table

Mark: TypeAlias = Literal["winner", "superseded", "late", "repeated", "delete"]
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A raw record of the key.

    Attributes:
        file, row: its place.
        batch: batch in which it arrived.
        op: text of the op column.
        fields: its fields, as text.
        quarantine: rule, reason, column and raw text, if it is in quarantine.
        is_correction: a person's correction of the record at the same file and row.
        arrived_at: when Frazil ingested it, in UTC.
    """

    file: str
    row: int
    batch: int
    op: str | None
    fields: Row
    quarantine: Row | None
    is_correction: bool = False
    arrived_at: dt.datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyChange:
    """A typed change of the key.

    Attributes:
        kind: ``upsert`` or ``delete``.
        file, row, position: its place, which decides the order after the sequence.
        batch: batch in which it arrived.
        values: columns of the contract that the change carries.
        marks: ``winner``, the last in order, or ``superseded``; ``delete``; ``late`` if a newer change came
            in an earlier batch; ``repeated`` if an older change has the same kind, sequence and values.
        at: its event time, else the time that the source gives it; None if it has neither.
    """

    kind: str
    file: str
    row: int
    position: str
    batch: int
    values: Row
    marks: tuple[Mark, ...]
    at: dt.datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStory:
    """All that the lake holds of one key.

    Attributes:
        table: the source table.
        key: typed values of the key.
        records: records in bronze, by position and row.
        changes: changes in silver, oldest first in ORDER.
        marts: rows of each mart; versions by their begin.
        notes: remarks for the reader, such as marts that are behind.
    """

    table: str
    key: Row
    records: tuple[KeyRecord, ...]
    changes: tuple[KeyChange, ...]
    marts: Mapping[str, tuple[Row, ...]]
    notes: tuple[str, ...]

    @property
    def is_known(self) -> bool:
        """Whether the lake holds any record, change or row of the key."""
        return bool(self.records or self.changes or any(self.marts.values()))

    def _repr_html_(self) -> str:
        fields = [*dict.fromkeys(name for record in self.records for name in record.fields)]
        columns = [*dict.fromkeys(name for change in self.changes for name in change.values)]
        records = [
            (one.file, one.row, one.batch, one.op, *map(one.fields.get, fields), _why(one)) for one in self.records
        ]
        changes = [
            (", ".join(one.marks) or one.kind, one.batch, one.file, one.row, *(one.values.get(c, "·") for c in columns))
            for one in self.changes
        ]
        key = ", ".join(f"{name} = {value}" for name, value in self.key.items())
        parts = [
            html_lines([f"{self.table} where {key}"]),
            html_table(("file", "row", "batch", "op", *fields, "quarantined"), records, title="records (bronze)"),
            html_table(("change", "batch", "file", "row", *columns), changes, title="changes in order (silver)"),
        ]
        for name, rows in self.marts.items():
            if rows:
                parts.append(html_table([*rows[0]], [[*row.values()] for row in rows], title=name))
        return "".join((*parts, html_lines(self.notes)))


def _why(record: KeyRecord) -> str:
    return f"{record.quarantine['reason']}" if record.quarantine else "a correction" if record.is_correction else ""


def explain_key(pipeline: Pipeline, table: str, key_values: Mapping[str, str] | Sequence[str]) -> KeyStory:
    """Return all that the lake holds of one key.

    Args:
        pipeline: the declaration.
        table: the source table, or one of its marts.
        key_values: text of each key column by name, or in the order of ``keys``. Compared as typed values,
            so ``007`` finds the number 7; a timestamp without zone is in UTC, binary is hexadecimal.

    Raises:
        QueryError: the key has other columns, a text does not fit its column's type, or the table has no changes yet.
        UnknownSelectionError: the table does not exist, or the word means several.
        NoLakeError: no table of the lake exists.
        DamagedTableError: a file of one of the tables is missing or damaged.

    Cost: one scan of the key columns in bronze, silver and each mart.
    """
    declared = source_table(pipeline, table)
    [texts] = stored_keys(pipeline, declared, [_texts(declared, key_values)])
    own = source_tables(pipeline, declared)
    located = tables(pipeline, only={own.bronze.key, *(made.key for made in own.computed)})
    with translated(pipeline), cursor(located, {}) as connection:
        here = layers(pipeline, declared, located)
        if not here.changes.exists:
            raise QueryError(f"table {declared.name!r} has no changes yet", hint="frazil run")
        for layer in (here.bronze, here.changes, here.quarantine, *(mart for _, mart in here.marts)):
            if layer.location is not None:
                verify_manifests(layer.location)
        return _Teller(connection, here, texts).story()


def _texts(table: Table, given: Mapping[str, str] | Sequence[str]) -> list[str]:
    if not hasattr(given, "items"):
        texts = [given] if isinstance(given, str) else list(given)
        if len(texts) == len(table.keys):
            return texts
    else:
        by_name = {name.lower(): text for name, text in given.items()}
        if by_name.keys() == {key.lower() for key in table.keys}:
            return [by_name[key.lower()] for key in table.keys]
    raise QueryError(f"the key of table {table.name!r} is {', '.join(table.keys)}", hint="give a value for each")


class _Teller:
    """Asks the tables about one key."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, here: Layers, texts: Sequence[str]) -> None:
        self._connection, self._here, self._texts = connection, here, texts
        keys = ", ".join(map(identifier, here.table.keys))
        typed = connection.sql(f"SELECT {keys} FROM {here.changes.rows} LIMIT 0")
        self._types = [f"{kind}" for kind in typed.types]

    def story(self) -> KeyStory:
        here = self._here
        return KeyStory(
            table=here.table.name,
            key=self._key(),
            records=tuple(self._records()),
            changes=tuple(self._changes()),
            marts={layer.name: tuple(self._mart_rows(layer.rows)) for _, layer in here.marts if layer.exists},
            notes=tuple(self._notes()),
        )

    def _key(self) -> Row:
        key: Row = {}
        for name, kind, text in zip(self._here.table.keys, self._types, self._texts, strict=True):
            try:
                key |= self._rows(f"SELECT {_value(duck_literal(text), kind)} AS {identifier(name)}")[0]
            except duckdb.Error:
                raise QueryError(f"{name}: {text!r} is no {kind.lower()}") from None
        return key

    def _rows(self, sql: str) -> list[Row]:
        found = result_of(self._connection.sql(sql))
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]

    @property
    def _is_key(self) -> str:
        # Literals, not parameters: for a parameter DuckDB imports pandas, which takes a second.
        named = zip(self._here.table.keys, self._types, self._texts, strict=True)
        return " AND ".join(f"{identifier(name)} = {_value(duck_literal(text), kind)}" for name, kind, text in named)

    @property
    def _raw_keys(self) -> list[str] | None:
        """Bronze's columns with the key's text; None where an expression makes the key."""
        declared = {column.name: column for column in self._here.table.columns or ()}
        made = any(key in declared and declared[key].expr for key in self._here.table.keys)
        found = [self._here.fields.get(key.lower()) for key in self._here.table.keys]
        return None if made or not all(found) else [name for name in found if name]

    @property
    def _is_raw_key(self) -> str:
        """The condition for a record whose text is the key; never true where an expression makes the key."""
        raw = zip(self._raw_keys or (), self._types, self._texts, strict=False)
        parts = [
            f"{_value(identifier(name), kind, tried=True)} = {_value(duck_literal(text), kind)}"
            for name, kind, text in raw
        ]
        return " AND ".join(parts) or "false"

    def _bronze(self) -> list[Row]:
        """Return the records of bronze: their places first, from few columns, then whole records of these places."""
        here = self._here
        is_record = f"{r.KIND} IN ('{r.RECORD}', '{r.CORRECTED}')"
        changed = self._places(f"{here.changes.rows} WHERE {self._is_key}")
        raw = self._places(f"{here.bronze.rows} WHERE {is_record} AND {self._is_raw_key}")
        if not changed | raw:
            return []
        files, rows = sorted({file for file, _ in changed | raw}), sorted({row for _, row in changed | raw})
        # The pair of NULLs is no place: a list must have an entry.
        listed = ", ".join(["(NULL, NULL)", *(f"({duck_literal(file)}, {row})" for file, row in sorted(changed))])
        return self._rows(
            f"SELECT * FROM {here.bronze.rows} WHERE {r.FILE} IN ({', '.join(map(duck_literal, files))}) "
            f"AND {r.ROW} IN ({', '.join(map(str, rows))}) "
            f"AND {is_record} AND (({r.FILE}, {r.ROW}) IN ({listed}) OR {self._is_raw_key}) "
            f"ORDER BY {r.POSITION}, {r.ROW}, {r.BATCH}"
        )

    def _places(self, of: str) -> set[tuple[str, int]]:
        sql = f"SELECT DISTINCT {r.FILE}, {r.ROW} FROM {of}"
        return {(file, row) for file, row in self._connection.execute(sql).fetchall()}

    def _records(self) -> list[KeyRecord]:
        here = self._here
        records = self._bronze()
        quarantined = self._quarantined(records)
        op = here.fields.get((here.table.source.operation_field or "").lower())
        return [
            KeyRecord(
                file=record[r.FILE],
                row=record[r.ROW],
                batch=record[r.BATCH],
                op=record[op] if op else None,
                is_correction=record[r.KIND] == r.CORRECTED,
                arrived_at=record[r.ARRIVED_AT],
                fields={
                    name: text
                    for name, text in record.items()
                    if name not in r.BRONZE_COLUMNS
                    and name != op
                    and (record[r.KNOWN] is None or name in record[r.KNOWN])
                },
                quarantine=quarantined.get((record[r.FILE], record[r.ROW])),
            )
            for record in records
        ]

    def _quarantined(self, records: Sequence[Row]) -> dict[tuple[str, int], Row]:
        if not records or not self._here.quarantine.exists:
            return {}
        found = self._connection.execute(
            f'SELECT {r.FILE}, {r.ROW}, rule, reason, "column", raw FROM {self._here.quarantine.rows} '
            f"WHERE {r.FILE} IN ({', '.join(map(duck_literal, sorted({record[r.FILE] for record in records})))})"
        ).fetchall()
        return {
            (file, row): {"rule": rule, "reason": reason, "column": column, "raw": raw}
            for file, row, rule, reason, column, raw in found
        }

    def _changes(self) -> list[KeyChange]:
        here = self._here
        order = in_order(here.table.sequence_by)
        source = [r.SOURCE_TIME] if r.SOURCE_TIME in here.changes.snapshot.columns else []
        time = f"coalesce({', '.join([time_of(here), *source])})"
        sql = f"SELECT *, {time} AS {TIME} FROM {here.changes.rows} WHERE {self._is_key} ORDER BY {order}"
        found = self._rows(sql)
        seen: list[tuple[Row, Any]] = []
        changes = []
        for place, change in enumerate(found):
            content = ({name: change[name] for name in here.columns}, (change[r.CLASS], change[r.KNOWN]))
            newer = found[place + 1 :]
            marks: list[Mark] = ["superseded" if newer else "winner"]
            if change[r.CLASS] == r.DELETE:
                marks.append("delete")
            if any(other[r.BATCH] < change[r.BATCH] for other in newer):
                marks.append("late")
            if content in seen:
                marks.append("repeated")
            seen.append(content)
            known = change[r.KNOWN]
            changes.append(
                KeyChange(
                    kind=change[r.CLASS],
                    file=change[r.FILE],
                    row=change[r.ROW],
                    position=change[r.POSITION],
                    batch=change[r.BATCH],
                    values={name: value for name, value in content[0].items() if known is None or name in known},
                    marks=tuple(marks),
                    at=change[TIME] if isinstance(change[TIME], dt.datetime) else None,
                )
            )
        return changes

    def _mart_rows(self, rows: str) -> list[Row]:
        found = self._rows(f"SELECT * FROM {rows} WHERE {self._is_key}")
        times = ("valid_from", "known_from")
        # An empty version comes before the version that begins at the same time.
        found.sort(key=lambda row: (row.get("valid_to") is None, row.get("valid_to")))
        return sorted(found, key=lambda row: [(row.get(time) is not None, row.get(time)) for time in times])

    def _notes(self) -> list[str]:
        here = self._here
        newest = here.bronze.snapshot.batch
        held = {layer.name: layer.snapshot.batch for layer in (here.changes, *here.of_marts)}
        notes = [
            f"{name} holds batch {batch}, bronze {newest}: frazil run brings them to the same batch"
            for name, batch in held.items()
            if batch < newest
        ]
        if (baseline := baseline_of(here.changes.snapshot.bookmark)) is not None:
            notes.append(f"changes before {baseline.before[:10]} are folded into the baseline")
        if not self._raw_keys:
            notes.append("the key is an expression: its quarantined records cannot be found")
        return notes


def _value(text: str, kind: str, *, tried: bool = False) -> str:
    """Return SQL that casts a text to a type; with ``tried``, NULL if the text does not fit."""
    if kind == "BLOB":
        hexadecimal = f"CASE WHEN regexp_full_match({text}, '([0-9A-Fa-f]{{2}})*') THEN unhex({text}) END"
        return hexadecimal if tried else f"unhex({text})"
    return f"{'TRY_CAST' if tried else 'CAST'}({text} AS {kind})"
