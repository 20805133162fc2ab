"""Corrections of quarantined records: a file to edit, the corrections read from it, and which of them would pass."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from frazil.bronze import record as r
from frazil.bronze.pii import treatment_of
from frazil.bronze.read import Batch, Correction, corrected_rows
from frazil.catalog.trouble import translated
from frazil.duck import connect, duck_literal, identifier
from frazil.errors import ContractError
from frazil.serve.layers import layers
from frazil.serve.tables import tables, verify_manifests
from frazil.silver.arrow import PlainChanges
from frazil.silver.baseline import baseline_of
from frazil.sources.kinds import source_of
from frazil.spec.amount import counted
from frazil.spec.contract import final_names
from frazil.spec.load.project import created
from frazil.spec.sql.select import source_table
from frazil.steps import SPARK_REASONS, NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import duckdb

    from frazil.serve.layers import Layers
    from frazil.spec import Pipeline, Table

Line: TypeAlias = dict[str, Any]
"""A line of a file of corrections."""

_AT_ONCE: Final = 10_000
_SHOWN: Final = 5
_HELP: Final = "frazil quarantine --select TABLE --to FILE writes such a file"
_SAID: Final = "said"


class CorrectionError(ContractError):
    """A file of corrections is not valid."""

    code = "FZ405"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A selection of the records of a quarantine; None selects any.

    Attributes:
        rule, column: the broken rule and its column; both count if ``rule`` is given.
        file, row: place of the record.
    """

    rule: str | None = None
    column: str | None = None
    file: str | None = None
    row: int | None = None

    @property
    def where(self) -> str:
        """The WHERE clause of the quarantine."""
        said = [
            f"{name} = {duck_literal(value)}" for name, value in (("rule", self.rule), (r.FILE, self.file)) if value
        ]
        if self.rule is not None:
            said.append(f'"column" IS NOT DISTINCT FROM {"NULL" if self.column is None else duck_literal(self.column)}')
        if self.row is not None:
            said.append(f"{r.ROW} = {int(self.row)}")
        return f"WHERE {' AND '.join(said)} " if said else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What is known of corrections without a run.

    Attributes:
        corrections: the corrections, in the order of the file.
        doubts: for each correction the columns that only the run can judge; empty if it passes.
        unknown: why no correction can be judged without a run; None if they can.
        rules: rules over several columns, which only the run checks.
    """

    corrections: tuple[Correction, ...]
    doubts: tuple[tuple[str, ...], ...] = ()
    unknown: NeedsSpark | None = None
    rules: tuple[str, ...] = ()

    @property
    def passing(self) -> int:
        """Number of corrections that pass all rules that are checked without a run."""
        return sum(not names for names in self.doubts)

    @property
    def text(self) -> str:
        """Return what is known, as the end of a sentence."""
        if self.unknown is not None:
            return f"only the run can judge them: {SPARK_REASONS[self.unknown.reason]}"
        names = ", ".join(sorted({name for some in self.doubts for name in some}))
        left = f", only the run can judge the others because of {names}" if names else ""
        rules = f"; only the run checks {', '.join(self.rules)}" if self.rules else ""
        return f"{self.passing:,} would pass{left}{rules}"


ALL: Final = Chosen()


def write_corrections(
    pipeline: Pipeline,
    table: str,
    path: Path,
    *,
    chosen: Chosen = ALL,
    edit: Callable[[Line], Line | None] = lambda line: line,
) -> int:
    """Write the quarantined records of a table to a file, so that a person can correct them.

    Args:
        pipeline: the declaration.
        table: a source table, or one of its marts.
        path: file of JSON lines, one a record. ``file`` and ``row`` identify it; ``rule``, ``column`` and ``reason``
            say what is wrong; ``record`` is an object of its fields. ``record`` is null if the fields could not be
            read; ``raw`` then has the text.
        chosen: the records to write; all by default.
        edit: returns a line as it is to be written, or None to leave it out.

    Returns:
        Number of lines.

    Raises:
        UnknownSelectionError: the table does not exist.
        NoLakeError: no table of the lake exists.
        UnwritableFileError: the file cannot be written.

    Cost: one scan of the quarantine; memory of some thousand records.
    """
    declared, count = source_table(pipeline, table), 0
    located = tables(pipeline)
    with translated(pipeline), connect(located) as duck, created(path) as lines:
        here = layers(pipeline, declared, located)
        for one in _quarantined(duck, here, f"{chosen.where}ORDER BY {r.FILE}, {r.ROW}"):
            if (line := edit(_as_written(one))) is not None:
                lines.write(json.dumps(line, ensure_ascii=False) + "\n")
                count += 1
    return count


def quarantined_line(pipeline: Pipeline, table: str, file: str, row: int) -> tuple[Line | None, tuple[str, ...]]:
    """Return one quarantined record as :func:`write_corrections` writes it, and the names of the table's fields.

    Without such a record the line is None.

    Raises:
        UnknownSelectionError: the table does not exist.
    """
    declared = source_table(pipeline, table)
    located = tables(pipeline)
    with translated(pipeline), connect(located) as duck:
        here = layers(pipeline, declared, located)
        found = next(_quarantined(duck, here, Chosen(file=file, row=row).where), None)
    return (None if found is None else _as_written(found)), (*here.fields.values(),)


def judge_corrections(pipeline: Pipeline, table: str, path: Path) -> Judged:
    """Return which corrections would pass, by the checks with which a run takes small batches; changes nothing.

    A correction that these checks do not prove may still pass: a run then checks it with Spark.

    Args:
        pipeline: the declaration.
        table: a source table, or one of its marts.
        path: as for :func:`read_corrections`.

    Raises:
        CorrectionError, UnknownSelectionError: as for :func:`read_corrections`.

    Cost: as for :func:`read_corrections`, and some passes over the corrections in memory.
    """
    declared = source_table(pipeline, table)
    given = read_corrections(pipeline, table, path)
    here = layers(pipeline, declared, tables(pipeline))
    meaning = source_of(declared).meaning({name.lower(): name for name, _ in here.contract.fields}, r.POSITION)
    changes = PlainChanges.of(here.contract, meaning.plain, {}, baseline_of(here.changes.snapshot.bookmark))
    if isinstance(changes, NeedsSpark):
        return Judged(corrections=given, unknown=changes)
    batch = Batch(
        source=source_of(declared),
        columns=(*here.fields.values(),),
        number=here.bronze.snapshot.batch + 1,
        arrived_at=datetime.now(UTC),
    )
    treatment, rows = treatment_of(pipeline, declared), corrected_rows(given, batch)
    rows = rows if treatment is None else treatment.treated(rows, again=True)
    # A run judges a corrected record as it judges a delivered one.
    values = {name: rows[name].combine_chunks() for name in rows.column_names}
    values |= {r.KIND: pa.repeat(pa.scalar(r.RECORD), len(rows))}
    records = pa.RecordBatch.from_pydict(
        {name: values.get(name, pa.nulls(len(rows), pa.string())) for name in changes.reads}
    )
    if changes.may_move(records):
        return Judged(corrections=given, unknown=NeedsSpark("key_change"))
    return Judged(
        corrections=given,
        doubts=(*changes.doubts(records),),
        rules=tuple(rule.name for rule in changes.exprs if rule.on_violation == "quarantine"),
    )


def read_corrections(pipeline: Pipeline, table: str, path: Path) -> tuple[Correction, ...]:
    """Read corrected records, each matched to its record in quarantine.

    Args:
        pipeline: the declaration.
        table: a source table, or one of its marts.
        path: file that :func:`write_corrections` wrote, with corrected fields. Lines with a null or unchanged record
            are skipped. Numbers keep their text. Of a record that could not be parsed, its operation and its place
            are kept if they could be read and the line does not name them.

    Returns:
        The corrections, in the order of the file.

    Raises:
        CorrectionError: a line is not a record, names an unknown field, or matches no record in quarantine.
        UnknownSelectionError: the table does not exist.

    Cost: memory of the file; one scan of the quarantine.
    """
    declared = source_table(pipeline, table)
    given = _given(path)
    located = tables(pipeline)
    with translated(pipeline), connect(located) as duck:
        here = layers(pipeline, declared, located)
        places = pa.table({"file": [file for file, _ in given], "row": pa.array([row for _, row in given], pa.int64())})
        duck.register("given_places", places)
        asked = f"WHERE ({r.FILE}, {r.ROW}) IN (SELECT (file, row) FROM given_places)"
        found = {(one[r.FILE], one[r.ROW]): one for one in _quarantined(duck, here, asked)}
        for place, position in _positions_between(duck, here):
            if place in found:
                found[place][r.POSITION] = position
        said = _said(duck, here)
    missing = [
        f"line {line}: {file} row {row}" for (file, row), (line, _, _) in given.items() if (file, row) not in found
    ]
    if missing:
        more = f" and {len(missing) - _SHOWN:,} more" if missing[_SHOWN:] else ""
        raise CorrectionError(
            f"{path}: {counted(len(missing), 'record is', 'records are')} not in quarantine of table "
            f"{declared.name!r}: {'; '.join(missing[:_SHOWN])}{more}",
            hint=f"a record can be corrected once, while it is in quarantine; {_HELP}",
        )
    return tuple(
        _corrections(
            declared, path, here, given, {place: one | {_SAID: said.get(place, {})} for place, one in found.items()}
        )
    )


def _said(duck: duckdb.DuckDBPyConnection, here: Layers) -> dict[tuple[str, int], dict[str, str | None]]:
    """Return the fields that could be read of each given record that could not be parsed: its key and its place."""
    if here.bronze.location is None:
        return {}
    names = [*here.fields.values()]
    said = duck.execute(
        f"SELECT {r.FILE}, {r.ROW}, {r.KNOWN}, {', '.join(map(identifier, names))} FROM {here.bronze.rows} "
        f"WHERE {r.KIND} = '{r.BAD}' AND {r.KNOWN} IS NOT NULL "
        f"AND ({r.FILE}, {r.ROW}) IN (SELECT (file, row) FROM given_places)"
    ).fetchall()
    return {
        (file, row): {name: value for name, value in zip(names, values, strict=True) if name in known}
        for file, row, known, *values in said
    }


def _positions_between(duck: duckdb.DuckDBPyConnection, here: Layers) -> list[tuple[tuple[str, int], str]]:
    """Return the position of each given record whose place is unknown: that of its neighbour in the file.

    Bronze has the file's position for a record that could not be parsed. If records carry their own places, these do
    not compare with it. The record before it has the same position and a lower row, so the correction comes directly
    after it; without one, the correction comes before the next record.
    """
    names = f"{r.FILE} AS file, {r.ROW} AS row, {r.POSITION} AS position, {r.KIND} AS kind"
    if here.bronze.location is None:
        return []
    verify_manifests(here.bronze.location)
    near = duck.execute(
        f"WITH records AS (SELECT {names} FROM {here.bronze.rows} WHERE {r.FILE} IN (SELECT file FROM given_places)) "
        "SELECT p.file, p.row, coalesce(arg_max(o.position, o.row) FILTER (o.row < p.row), "
        "arg_min(o.position, o.row) FILTER (o.row > p.row)) FROM given_places p "
        f"JOIN records b ON b.file = p.file AND b.row = p.row AND b.kind = '{r.BAD}' "
        f"JOIN records l ON l.file = p.file AND l.kind = '{r.LEDGER_ROW}' AND l.position = b.position "
        f"JOIN records o ON o.file = p.file AND o.kind = '{r.RECORD}' GROUP BY p.file, p.row"
    ).fetchall()
    return [((file, row), position) for file, row, position in near]


def _corrections(
    table: Table,
    path: Path,
    here: Layers,
    given: Mapping[tuple[str, int], tuple[int, dict[str, str | None], str]],
    found: Mapping[tuple[str, int], Mapping[str, Any]],
) -> Iterator[Correction]:
    columns = _columns(table, here)
    for (file, row), (line, record, text) in given.items():
        fields: dict[str, str | None] = {}
        for name, value in record.items():
            if name.lower() not in columns:
                known = ", ".join(here.fields.values())
                raise CorrectionError(
                    f"{path} line {line}: table {table.name!r} has no field {name!r}", hint=f"its fields: {known}"
                )
            fields[columns[name.lower()]] = value
        before = _parsed(found[file, row]) or {}
        fields = {**found[file, row][_SAID], **fields}
        if fields != {columns.get(name.lower(), name): value for name, value in before.items()}:
            yield Correction(file=file, row=row, position=found[file, row][r.POSITION], fields=fields, text=text)


def _columns(table: Table, here: Layers) -> dict[str, str]:
    """Return bronze's column of each field, by the field's name in lower case; renamed fields by both names.

    A record is shown with the current names of its fields, which no file may have delivered yet.
    """
    renamed = {now.lower(): here.fields[old] for old, now in final_names(table).items() if old in here.fields}
    return renamed | dict(here.fields)


def _given(path: Path) -> dict[tuple[str, int], tuple[int, dict[str, str | None], str]]:
    """Read a file: place of a record -> line number, fields, and the line. Lines without a record are skipped."""
    found: dict[tuple[str, int], tuple[int, dict[str, str | None], str]] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CorrectionError(f"{path} cannot be read: {why}", hint=_HELP) from error
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            one = json.loads(text, parse_float=str, parse_int=str, parse_constant=str)
            place, record = (one["file"], int(one["row"])), one["record"]
            fields = None if record is None else {name: _text(value) for name, value in record.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorrectionError(f"{path} line {number} is not a corrected record", hint=_HELP) from error
        if place in found:
            raise CorrectionError(
                f"{path} line {number}: line {found[place][0]} corrects the same record", hint="leave one of them"
            )
        if fields is not None:
            found[place] = (number, fields, text)
    return found


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return f"{value}".lower()
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _quarantined(duck: duckdb.DuckDBPyConnection, here: Layers, rest: str) -> Iterator[dict[str, Any]]:
    layer = here.quarantine
    if layer.damage is not None:
        raise layer.damage
    if layer.location is None or not layer.snapshot.records:
        return
    verify_manifests(layer.location)
    names = (r.FILE, r.ROW, r.POSITION, "rule", "column", "reason", "raw")
    found = duck.execute(f"SELECT {', '.join(map(identifier, names))} FROM {layer.rows} {rest}")
    while some := found.fetchmany(_AT_ONCE):
        yield from (dict(zip(names, row, strict=True)) for row in some)


def _as_written(one: Mapping[str, Any]) -> dict[str, Any]:
    record = _parsed(one)
    raw = {"raw": one["raw"]} if record is None else {}
    return {
        "file": one[r.FILE],
        "row": one[r.ROW],
        "rule": one["rule"],
        "column": one["column"],
        "reason": one["reason"],
        "record": record,
        **raw,
    }


def _parsed(one: Mapping[str, Any]) -> dict[str, str | None] | None:
    """Return the fields of a record; None if they could not be read, or if the record is cut because of its length."""
    try:
        record = json.loads(one["raw"] or "")
    except ValueError:
        return None
    is_flat = isinstance(record, dict) and all(value is None or isinstance(value, str) for value in record.values())
    return record if is_flat else None
