"""A landing folder, and a way to read its files as rows of the bronze table."""

from __future__ import annotations

import datetime as dt
import gzip
import hashlib
import pickle
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from frazil.bronze.read import Batch, records
from frazil.formats.csv_lines import CsvDialect, count_records
from frazil.sources.dms.layout import dialect_of, is_parquet
from frazil.sources.dms.source import DmsSource
from frazil.sources.ledger import Ledger
from frazil.sources.new_files import find_new
from frazil.spec import Column, DmsFiles, Table

if TYPE_CHECKING:
    from frazil.sources.base import NewFile

"""A time at which every file has settled."""


class Landing:
    """Files of one source table."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, content: bytes) -> str:
        """Write a file; gives its path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return str(path)

    def fresh(self) -> Landing:
        """Give another, empty folder: one for each example of a property."""
        return Landing(Path(tempfile.mkdtemp(dir=self.folder)))

    def table(self, names: str = "", **source: Any) -> Table:
        """A table of text columns whose files are all in the folder."""
        columns = tuple(Column(name=name) for name in names.split()) or None
        return Table(name="hosts", source=DmsFiles(path=(".",), **source), keys=("id",), columns=columns)

    def take(self, table: Table) -> tuple[NewFile, ...]:
        """Take all files, new ones and duplicates."""
        source = DmsSource(table)
        return find_new(source.list(self.folder), Ledger(), source.inspect, settle_seconds=0).files

    def rows(
        self,
        names: str = "",
        *,
        existing: tuple[str, ...] = (),
        limits: dict[str, int] | None = None,
        **source: Any,
    ) -> list[dict[str, Any]]:
        """Read all files; every file is also counted again and must be complete."""
        table = self.table(names, **source)
        files = self.take(table)
        reads, dialect = DmsSource(table), dialect_of(table.source)
        now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
        batch = Batch(source=reads, columns=reads.columns(files, existing), number=7, arrived_at=now)
        rows: list[dict[str, Any]] = []
        for file in files:
            sent_file, sent_batch = pickle.loads(pickle.dumps((file, batch)))  # noqa: S301 - our own
            pieces = list(records(sent_file, sent_batch, **(limits or {})))
            assert all(piece.schema == batch.schema for piece in pieces)
            for piece in pieces:
                piece.validate(full=True)
            mine = [row for piece in pieces for row in piece.to_pylist()]
            ledger = mine[-1]["_cdc_ledger"]
            if limits and not is_parquet(file.name):
                assert count_records(file.uri, dialect) == count_records(
                    file.uri, dialect, block_bytes=limits["block_bytes"]
                )
            lines = reads.recount(file.uri)
            assert lines == sum(ledger[part] for part in ("rows", "bad", "headers", "foreign"))
            assert [ledger["rows"], ledger["bad"], 1] == [kinds(mine, kind) for kind in ("record", "bad", "file")]
            assert bytes_of(mine) == own_bytes(file, mine, dialect)
            rows += mine
        return rows


def bytes_of(rows: list[dict[str, Any]]) -> bytes | None:
    """Write a file again from its rows in bronze, in the plainest way; None for bytes that are not text."""
    [ledger] = [row for row in rows if row["_cdc_kind"] == "file"]
    form = ledger["_cdc_form"]
    if form["content"] == "values":
        return None
    line_end = (form["line_end"] or "").encode()
    pieces = [ledger["_cdc_raw"] or b""]
    others = [row for row in rows if row["_cdc_kind"] != "file"]

    def place(row: dict[str, Any]) -> tuple[int, int]:
        return row["_cdc_row"], -1 if row["_cdc_offset"] is None else row["_cdc_offset"]

    for row in sorted(others, key=place):
        pieces.append(line_of(row, ledger) if row["_cdc_raw"] is None else row["_cdc_raw"])
        if row["_cdc_kind"] != "part":
            pieces.append(line_end if row["_cdc_end"] is None else row["_cdc_end"])
    return b"".join(pieces)


def line_of(row: dict[str, Any], ledger: dict[str, Any]) -> bytes:
    """Write a record as the ledger says that its file does."""
    form = ledger["_cdc_form"]
    delimiter, escape, null_value = form["delimiter"], form["escape"], form["null_value"]
    by_name = {name.lower(): value for name, value in row.items()}
    fields = [(column["name"], by_name[column["name"].lower()]) for column in ledger["_cdc_ledger"]["columns"]]
    if form["table"] is not None:
        fields[1:1] = [("_cdc_table", form["table"]), ("_cdc_schema", form["schema"])]
    quoted = {name.lower() for name in form["quoted"]}
    texts = []
    for name, value in fields:
        if value is None:
            texts.append(form["null_text"])
            continue
        needs = value in ("", null_value) or any(sign in value for sign in (delimiter, '"', "\n", "\r"))
        text = value.replace(escape, escape * 2) if escape else value
        if needs or name.lower() in quoted:
            text = '"' + text.replace('"', (escape or '"') + '"') + '"'
        texts.append(text)
    return str(delimiter.join(texts)).encode()


def own_bytes(file: NewFile, rows: list[dict[str, Any]], dialect: CsvDialect) -> bytes | None:
    """Read a file as it is stored, decompressed, and without the records of other tables."""
    stored = Path(file.uri).read_bytes()
    assert hashlib.sha256(stored).hexdigest() == file.sha256
    [form] = [row["_cdc_form"] for row in rows if row["_cdc_kind"] == "file"]
    if form["content"] == "values":
        parts = b"".join(row["_cdc_raw"] for row in rows if row["_cdc_kind"] == "part")
        assert parts in (b"", stored)
        return None
    if form["content"] == "bytes":
        return stored
    text = gzip.decompress(stored) if file.name.endswith(".gz") else stored
    if file.variant:
        own = {row["_cdc_row"] for row in rows}
        # Cut by line ends that stand outside quotes, each with those of the blank lines behind it.
        pieces = plainly_cut(text, dialect.delimiter.encode(), (dialect.escape or "").encode())
        text = b"".join(piece for number, piece in enumerate(pieces) if number in {0, *own})
    if form["content_sha256"] is not None:
        assert form["content_sha256"] == hashlib.sha256(text).hexdigest()
    return text


def plainly_cut(text: bytes, delimiter: bytes, escape: bytes = b"") -> list[bytes]:  # noqa: C901 - plain on purpose
    """Cut a text sign by sign: the bytes before the first record, then each record with its line ends."""
    pieces = [b""]
    if text.startswith(b"\xef\xbb\xbf"):
        pieces, text = [text[:3]], text[3:]
    if not text.strip(b" \t\r\n".replace(delimiter, b"")):
        return [pieces[0] + text]
    place = "between"  # records; "field" at a field's start, "bare", "quoted", "closed" behind a closing quote
    at = 0
    while at < len(text):
        sign = text[at : at + 1]
        if (sign == escape and place != "between") or sign == escape:
            if place == "between":
                pieces.append(b"")
            pieces[-1] += text[at : at + 2]
            place = "quoted" if place == "quoted" else "bare"
            at += 2
            continue
        if sign in b"\r\n" and place != "quoted":
            place = "between"
        else:
            if place == "between":
                pieces.append(b"")
                place = "field"
            if place == "quoted":
                place = "closed" if sign == b'"' else "quoted"
            elif place == "closed" and sign == b'"' and not escape:
                place = "quoted"
            elif sign == delimiter:
                place = "field"
            else:
                place = "quoted" if sign == b'"' and place == "field" else "bare"
        pieces[-1] += sign
        at += 1
    return pieces


def kinds(rows: list[dict[str, Any]], kind: str) -> int:
    return sum(row["_cdc_kind"] == kind for row in rows)


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path)
