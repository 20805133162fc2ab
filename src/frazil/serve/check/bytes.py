"""Proof of NOTHING-LOST to the byte: each file is rebuilt from bronze, and its hash is compared with the ledger's."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.duck import duck_literal, identifier
from frazil.formats.csv_form import CsvForm, offsets_of
from frazil.formats.parquet_text import ValuesHash
from frazil.formats.records import BYTES, CSV, SCHEMA_FIELD, TABLE_FIELD, VALUES
from frazil.serve.check.finding import Step
from frazil.spec.amount import counted
from frazil.spec.pii import TREATING, clear_fields, pii_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from frazil.serve.check.finding import Proof, Verdict

_BATCH_ROWS: Final = 65_536
_SHOWN: Final = 3


@dataclass(kw_only=True)
class _File:
    """A line of the ledger, and the hash of the records read so far from bronze.

    Attributes:
        sha256: hash of the file as it is stored.
        wanted: expected hash of all its records.
        writing: content, fields and form. Files with equal values are rebuilt by one query.
        has_bad: some records are bad; bronze keeps them apart from the others.
        last: number of the newest row read; -1 after a row out of order.
        parts: hash of the stored parts of a file that could not be read to its end; None without parts.
    """

    path: str
    head: bytes
    sha256: str
    wanted: str
    writing: tuple[Any, ...]
    has_bad: bool
    found: Any = None
    last: int = 0
    parts: Any = None

    @property
    def content(self) -> str:
        """Kind of content that bronze keeps: CSV, values or bytes."""
        return str(self.writing[0])

    @property
    def is_proved(self) -> bool:
        """Whether the rebuilt content equals the content that was ingested."""
        stored = self.parts is None or self.parts.hexdigest() == self.sha256
        return stored and bool(self.found.hexdigest() == self.wanted)

    def begin(self) -> None:
        """Start a new hash, with the bytes before the first record."""
        self.last = 0
        self.found = ValuesHash(len(self.writing[1])) if self.content == VALUES else hashlib.sha256(self.head)

    def follows(self, rows: Any) -> bool:
        """Return whether rows continue the order of the rows before them."""
        if self.last < 0 or rows[0] < self.last or (np.diff(rows) < 0).any():
            self.last = -1
            return False
        self.last = int(rows[-1])
        return True


def byte_steps(proof: Proof) -> Iterator[Step]:
    """Yield the proof that bronze has the bytes of every CSV file, and the values of every Parquet file."""
    bronze = proof.here.bronze
    yield Step(
        law="NOTHING-LOST",
        table=f"{bronze.name} bytes",
        what=f"{bronze.name}: write its files again",
        needs=(bronze,),
        prove=partial(_rebuilt, proof),
    )


def _rebuilt(proof: Proof) -> Verdict:
    """Prove that each file can be rebuilt from bronze.

    An unreadable file is compared as it is stored. A compressed file is compared by its text. A transaction file is
    compared without the records of other tables.

    Cost: reads bronze once for each form of file, and files with bad records once more in sorted order. Memory holds a
    few batches, and DuckDB's sort.
    """
    if (verdict := _without_looking(proof)) is not None:
        return verdict
    files, unknown, erased, folded = _files(proof)
    for writing, some in groupby(sorted(files, key=lambda file: repr(file.writing)), key=lambda file: file.writing):
        _see(proof, writing, list(some))
    wrong = [file.path for file in files if not file.is_proved]
    values = sum(file.content == VALUES for file in files)
    texts, notes = len(files) - values, []
    if texts:
        notes.append(f"the bytes of {counted(texts, 'file')} are rebuilt from bronze")
    if values:
        notes.append(f"the values of {counted(values, 'Parquet file')} are those that were read")
    if unknown:
        notes.append(f"{counted(unknown, 'file')} taken by an older version cannot be checked")
    if erased:
        notes.append(
            f"{counted(erased, 'file')} cannot be rebuilt: records of {'it' if erased == 1 else 'them'} were erased"
        )
    if folded:
        notes.append(f"records of {counted(folded, 'file')} are folded into the baseline")
    if wrong:
        notes[:0] = [
            f"{counted(len(wrong), 'file')} cannot be rebuilt from bronze: {', '.join(sorted(wrong)[:_SHOWN])}"
        ]
        notes = [notes[0], *notes[-1:]] if unknown else notes[:1]
    return (False if wrong else True if files else None), "; ".join(notes) or "no file was taken"


def _without_looking(proof: Proof) -> Verdict | None:
    """Return the verdict where files cannot be rebuilt at all; None where the bytes have to be compared."""
    table, bronze = proof.here.table, proof.here.bronze.snapshot
    clear, command = clear_fields(table, bronze.bookmark), f"frazil erase --select {table.name} --pii"
    if clear:
        return False, f"pii is declared for {', '.join(clear)}, but bronze holds the original values: {command}"
    if TREATING in bronze.bookmark:
        return False, f"old snapshots and files may hold values of columns with pii: {command} finishes the removal"
    if r.FORM not in bronze.columns:
        return None, "an older version took its files and did not record their form"
    if pii_fields(table):
        return None, "values of columns with pii are not kept, so its files cannot be rebuilt"
    return None


def _files(proof: Proof) -> tuple[list[_File], int, int, int]:
    """List the files to rebuild; count the files of unknown form, with erased records, and with folded records."""
    gone = proof.connection.execute(
        f"SELECT {r.FILE}, bool_or({r.KIND} = '{r.ERASED}') FROM {proof.here.bronze.rows} "
        f"WHERE {r.KIND} IN ('{r.ERASED}', '{r.FOLDED}') GROUP BY 1"
    )
    emptied = dict(gone.fetchall())
    ledger = proof.connection.execute(
        f"SELECT {r.FILE}, {r.RAW}, {r.LEDGER}, {r.FORM} FROM {proof.here.bronze.rows} "
        f"WHERE {r.KIND} = '{r.LEDGER_ROW}' AND {r.LEDGER}.same_as IS NULL"
    ).fetchall()
    known = [line for line in ledger if line[3] is not None and line[3]["content"] is not None]
    whole = [_file(*line) for line in known if line[0] not in emptied]
    erased = [emptied[line[0]] for line in known if line[0] in emptied]
    return whole, len(ledger) - len(known), sum(erased), len(erased) - sum(erased)


def _file(path: str, head: bytes | None, line: Mapping[str, Any], form: Mapping[str, Any]) -> _File:
    names = tuple(column["name"].lower() for column in line["columns"])
    writing: tuple[Any, ...] = (form["content"], names)
    if form["content"] == CSV:
        # Between the op and the fields of a transaction file.
        names = (names[0], TABLE_FIELD, SCHEMA_FIELD, *names[1:]) if form["table"] is not None else names
        quoted = {name.lower() for name in form["quoted"]}
        written = CsvForm(
            delimiter=form["delimiter"],
            escape=form["escape"],
            null_value=form["null_value"],
            null_text=form["null_text"],
            quoted=tuple(name in quoted for name in names),
        )
        writing = (CSV, names, written, form["line_end"] or "", form["table"], form["schema"])
    file = _File(
        path=path,
        head=head or b"",
        sha256=line["sha256"],
        wanted=form["content_sha256"] or line["sha256"],
        writing=writing,
        has_bad=bool(line["bad"]),
    )
    file.begin()
    return file


def _see(proof: Proof, writing: tuple[Any, ...], files: Sequence[_File]) -> None:
    """Hash files of one form: in the table's order where possible, sorted where bad records lie between the others."""
    if writing[0] == VALUES:
        plain, kinds = list(files), [r.RECORD]
    else:
        plain, kinds = [file for file in files if not file.has_bad], [r.RECORD, r.BAD, r.PART]
    _stream(proof, plain, [r.RECORD], is_sorted=False)
    out_of_order = [file for file in plain if file.last < 0]
    for file in out_of_order:
        file.begin()
    _stream(proof, [*out_of_order, *(file for file in files if file not in plain)], kinds, is_sorted=True)
    if writing[0] == VALUES:
        _see_bad_values(proof, [file for file in files if file.has_bad])


def _stream(proof: Proof, files: Sequence[_File], kinds: Sequence[str], *, is_sorted: bool) -> None:
    if not files:
        return
    writing = files[0].writing
    sql, parameters = _query(proof, files, kinds, is_sorted=is_sorted)
    for batch in proof.connection.execute(sql, parameters).to_arrow_reader(_BATCH_ROWS):
        numbers, rows = (batch.column(at).to_numpy(zero_copy_only=False) for at in (0, 1))
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        add = _values_of(batch) if writing[0] == VALUES else _bytes_of(batch, writing)
        for start, stop in pairwise(cuts):
            file = files[int(numbers[start])]
            if file.follows(rows[start:stop]):
                add(file.found, start, stop)


def _query(proof: Proof, files: Sequence[_File], kinds: Sequence[str], *, is_sorted: bool) -> tuple[str, list[Any]]:
    """Return SQL for number of file, row, bytes, line end and fields, with its parameters."""
    columns = {name.lower(): name for name in proof.here.bronze.snapshot.columns}
    fields = "".join(f", {identifier(columns[name])}" for name in files[0].writing[1] if name in columns)
    # The line end of a long record is in its parts.
    end = f"CASE WHEN {r.KIND} = {duck_literal(r.PART)} THEN ''::BLOB ELSE {r.END} END"
    sql = (
        f"SELECT _number, {r.ROW}, {r.RAW}, {end}{fields} FROM {proof.here.bronze.rows} "
        f"JOIN (SELECT unnest($1) AS _path, unnest(range({len(files)})) AS _number) ON {r.FILE} = _path "
        f"WHERE {r.KIND} IN ({', '.join(map(duck_literal, kinds))})"
    )
    order = f" ORDER BY _number, {r.ROW}, {r.OFFSET} NULLS FIRST" if is_sorted else ""
    return sql + order, [[file.path for file in files]]


def _values_of(batch: Any) -> Any:
    def add(found: Any, start: int, stop: int) -> None:
        some = batch.slice(start, stop - start)
        found.add(some.column(1), some.columns[4:])

    return add


def _bytes_of(batch: Any, writing: tuple[Any, ...]) -> Any:
    """Rebuild the records of a batch; return a function that adds a slice of them to a hash."""
    raw, end = batch.column(2), batch.column(3)
    if writing[0] == BYTES:
        lines = raw
    else:
        _, names, form, line_end, table, schema = writing
        constants = {TABLE_FIELD: table, SCHEMA_FIELD: schema}
        own = iter(batch.columns[4:])
        columns = [
            pa.repeat(pa.scalar(constants[name], pa.string()), len(raw)) if name in constants else next(own)
            for name in names
        ]
        has_usual_ends = end.null_count == len(end) and raw.null_count == len(raw)
        lines = form.lines(columns, line_end if has_usual_ends else "")
        if not has_usual_ends:
            lines = pc.if_else(raw.is_null(), lines, raw)
            lines = pc.binary_join_element_wise(lines, end.fill_null(line_end.encode()), b"")
    offsets, text = offsets_of(lines), memoryview(lines.buffers()[2] or b"")

    def add(found: Any, start: int, stop: int) -> None:
        found.update(text[int(offsets[start]) : int(offsets[stop])])

    return add


def _see_bad_values(proof: Proof, files: Sequence[_File]) -> None:
    """Add the bad records, and the stored parts of files that could not be read to their end."""
    if not files:
        return
    by_path = {file.path: file for file in files}
    sql = (
        f"SELECT {r.FILE}, {r.KIND}, {r.ROW}, {r.RAW} FROM {proof.here.bronze.rows} "
        f"WHERE {r.KIND} IN ({duck_literal(r.BAD)}, {duck_literal(r.PART)}) AND {r.FILE} IN (SELECT unnest($1)) "
        f"ORDER BY {r.FILE}, {r.ROW}, {r.OFFSET} NULLS FIRST"
    )
    for batch in proof.connection.execute(sql, [list(by_path)]).to_arrow_reader(_BATCH_ROWS):
        for path, kind, row, raw in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            file = by_path[path]
            if kind == r.BAD:
                file.found.add_bad(row, raw)
            else:
                file.parts = file.parts or hashlib.sha256()
                file.parts.update(raw)
