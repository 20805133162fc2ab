"""NOTHING-LOST to the byte: bronze has every byte of a CSV file.

Each file that ``Landing.rows`` reads is rewritten from its rows and compared.
"""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.bronze.conftest import plainly_cut

from frazil.formats import csv_lines, csv_reader, records
from frazil.formats.csv_form import RecordSpans
from frazil.sources.dms.layout import HeaderError, OtherFieldsError

if TYPE_CHECKING:
    from tests.bronze.conftest import Landing

BOM = b"\xef\xbb\xbf"
FRAGMENTS = [
    *(b'"', b'""', b'"""', b",", b",,", b"\\", b'\\"', b"\\\\", b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n"),
    *(b"NULL", b'"NULL"', b"a", b"1", b" ", b"\t", b"\0", BOM, b"\xff", b"\xc3", "é😀".encode(), b"x" * 40),
    *(b"1,2\n", b'"1","2"\n', b"1,NULL\r\n", b"I,hosts,public,1,2\n", b"I,other,public,1\n", b"op,a,b\n", b'1,"2,3"\n'),
]
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=25).map(b"".join) | st.binary(max_size=50)


def forms(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row["_cdc_form"] for row in rows if row["_cdc_kind"] == "file"]


def kept(rows: list[dict[str, Any]]) -> list[tuple[int, bytes | None, bytes | None]]:
    """Good records that the form of their file does not write: row, own bytes, own line end."""
    return [
        (row["_cdc_row"], row["_cdc_raw"], row["_cdc_end"])
        for row in rows
        if row["_cdc_kind"] == "record" and (row["_cdc_raw"], row["_cdc_end"]) != (None, None)
    ]


def fields(record: bytes, delimiter: bytes, escape: bytes) -> list[str | None]:
    """Take a well-formed record apart, sign by sign."""
    found: list[tuple[bytes, bool]] = [(b"", False)]
    inside, at, begin = False, 0, 0
    while at < len(record):
        sign, text = record[at : at + 1], found[-1]
        if escape and sign == escape:
            found[-1] = (text[0] + record[at + 1 : at + 2], text[1])
            at += 1
        elif sign == b'"' and inside and not escape and record[at + 1 : at + 2] == b'"':
            found[-1] = (text[0] + b'"', True)
            at += 1
        elif sign == b'"' and (inside or not record[begin:at]):
            inside = not inside
            found[-1] = (text[0], True)
        elif sign == delimiter and not inside:
            found.append((b"", False))
            begin = at + 1
        else:
            found[-1] = (text[0] + sign, text[1])
        at += 1
    return [None if not quoted and text in (b"", b"NULL") else text.decode() for text, quoted in found]


VALUES = ["", "NULL", "a", "b c", "1,2", 'x"y', "p\nq"]


@given(
    text=TEXTS,
    block_bytes=st.integers(1, 60),
    record_bytes=st.sampled_from([20, 10_000]),
    delimiter=st.sampled_from([",", "\t"]),
    escape=st.sampled_from([None, "\\"]),
    header=st.booleans(),
)
@example(text=b"\n" + BOM, block_bytes=1, record_bytes=20, delimiter=",", escape=None, header=False)
def test_any_file_comes_back_and_each_record_is_counted_and_read_as_a_plain_reader_does(  # noqa: PLR0917 - drawn
    landing: Landing,
    text: bytes,
    block_bytes: int,
    record_bytes: int,
    delimiter: str,
    escape: str | None,
    *,
    header: bool,
) -> None:
    folder = landing.fresh()
    folder.write("LOAD00000001.csv", (f"op{delimiter}a{delimiter}b\n".encode() if header else b"") + text)
    limits = {"block_bytes": block_bytes, "record_bytes": record_bytes}

    try:
        rows = folder.rows("a b", header=header, csv_delimiter=delimiter, csv_escape=escape, limits=limits)
    except (HeaderError, OtherFieldsError):  # drawn now and then: it is asked what the fields are, and nothing taken
        assert not header
        return

    pieces = plainly_cut(text, delimiter.encode(), (escape or "").encode())[1:]
    if not text.startswith((b"\xff\xfe", b"\xfe\xff", BOM)) and not header:
        assert sorted(row["_cdc_row"] for row in rows if row["_cdc_kind"] in ("record", "bad")) == [
            *range(1, len(pieces) + 1)
        ]
        for row in rows:
            if row["_cdc_kind"] == "record":
                record = pieces[row["_cdc_row"] - 1]
                own = record.rstrip(b"\r\n")
                if escape and (len(own) - len(own.rstrip(b"\\"))) % 2:
                    own = record[: len(own) + 1]  # what stands behind is escaped
                assert [row["a"], row["b"]] == fields(own, delimiter.encode(), (escape or "").encode())


@given(text=TEXTS, block_bytes=st.integers(1, 60), zipped=st.booleans())
def test_any_transaction_file_comes_back_without_the_records_of_other_tables(
    landing: Landing, text: bytes, block_bytes: int, *, zipped: bool
) -> None:
    folder = landing.fresh()
    content = b"I,hosts,public,1,2\n" + text
    folder.write("cdc/1.csv.gz" if zipped else "cdc/1.csv", gzip.compress(content, mtime=0) if zipped else content)

    rows = folder.rows("a b", cdc_path=("cdc",), cdc_table="public.hosts", limits={"block_bytes": block_bytes})

    [form] = forms(rows)
    assert (form["content"], form["content_sha256"] is not None) == ("csv", True)


@given(
    records=st.lists(st.lists(st.sampled_from(VALUES), min_size=3, max_size=3), max_size=8),
    quoted=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    null=st.sampled_from([b"", b"NULL"]),
    line_end=st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n"]),
    block_bytes=st.sampled_from([1, 10, 100_000]),
)
def test_what_is_written_in_one_form_keeps_no_bytes_of_its_own(  # noqa: PLR0917 - drawn
    landing: Landing,
    records: list[list[str]],
    quoted: tuple[bool, ...],
    null: bytes,
    line_end: bytes,
    block_bytes: int,
) -> None:
    def write(value: str, *, always: bool) -> bytes:
        if value == "NULL":
            return null
        needs = value == "" or re.search('[",\n]', value)
        return b'"' + value.replace('"', '""').encode() + b'"' if needs or always else value.encode()

    # The first record shows the form.
    lines = [["v", "w", "x"], ["NULL", "v", "v"], *records]
    text = b"".join(
        b",".join(write(value, always=always) for value, always in zip(line, quoted, strict=True)) + line_end
        for line in lines
    )
    folder = landing.fresh()
    folder.write("LOAD00000001.csv", text)

    rows = folder.rows("a b c", limits={"block_bytes": block_bytes})

    assert kept(rows) == []
    assert [row["_cdc_raw"] for row in rows if row["_cdc_kind"] == "file"] == [b""]


@pytest.mark.parametrize(
    ("text", "own"),
    [
        pytest.param(b"1,x\n2,y", [(2, None, b"")], id="no last line end"),
        pytest.param(b"1,x\n2,y\r\n3,z\n", [(2, None, b"\r\n")], id="another line end"),
        pytest.param(b"1,x\n2,y\n\n\r\n3,z\n", [(2, None, b"\n\n\r\n")], id="blank lines"),
        pytest.param(b'1,x\n2,"y"\n3,z\n4,z\n5,"q,r"\n', [(2, b'2,"y"', None)], id="quotes without need"),
        pytest.param(b"1,NULL\n2,\n3,NULL\n", [(2, b"2,", None)], id="nothing among NULL"),
        pytest.param(b"1,\n2,\n3,NULL\n", [(3, b"3,NULL", None)], id="NULL among nothing"),
        pytest.param(b'1,\n2,""\n3,"NULL"\n', [], id="empty and NULL as text"),
        pytest.param(b'1,5" pipe\n2,y\n', [(1, b'1,5" pipe', None)], id="a quote amid a field"),
    ],
)
def test_a_record_that_is_written_otherwise_keeps_its_bytes_beside_its_fields(
    landing: Landing, text: bytes, own: list[tuple[int, bytes | None, bytes | None]]
) -> None:
    landing.write("LOAD00000001.csv", text)

    rows = landing.rows("a b")

    assert kept(rows) == own
    assert not [row for row in rows if row["_cdc_kind"] == "bad"]


@pytest.mark.parametrize("text", [b"", b"\n\r\n", BOM, BOM + b"\n", b"  \t\n", BOM + b"op,a\n", b"\n\nop,a\r\n\r\n"])
def test_bytes_before_the_first_record_are_in_the_ledger(landing: Landing, text: bytes) -> None:
    landing.write("20240101-000000000.csv", text)

    [row] = landing.rows(header=True)

    assert row["_cdc_raw"] == text


def test_a_mark_amid_the_file_is_text(landing: Landing) -> None:
    landing.write("LOAD00000001.csv", b"1,a\n" + BOM + b"2,b\n" + BOM + b"3\n")

    for block_bytes in (1, 4, 1000):
        rows = landing.rows("a b", limits={"block_bytes": block_bytes})

        assert [row["a"] for row in rows if row["_cdc_kind"] == "record"] == ["1", "\ufeff2"]
        assert [row["_cdc_raw"] for row in rows if row["_cdc_kind"] == "bad"] == [BOM + b"3"]


@pytest.mark.parametrize("block_bytes", [7, 50, 10_000])
@pytest.mark.parametrize("end", [b"", b"\n", b"\n\r\n\n", b"\n3,c\n"])
@pytest.mark.parametrize("record", [b"2," + b"x" * 500, b'2,"' + b'""\n' * 200 + b'"', b'2,"' + b"\n" * 400])
def test_a_record_too_large_for_a_row_goes_on_in_parts(
    landing: Landing, monkeypatch: pytest.MonkeyPatch, record: bytes, end: bytes, block_bytes: int
) -> None:
    for module in (csv_lines, csv_reader):
        monkeypatch.setattr(module, "KEPT_BYTES", 100)
    landing.write("LOAD00000001.csv", b"1,a\n" + record + end)

    rows = landing.rows("a b", limits={"block_bytes": block_bytes, "record_bytes": 200})

    [bad] = [row for row in rows if row["_cdc_kind"] == "bad"]
    parts = sorted((row["_cdc_offset"], row["_cdc_raw"]) for row in rows if row["_cdc_kind"] == "part")
    text = b"".join(data for _, data in parts)
    assert bad["_cdc_raw"] == record[:100]
    assert text.startswith(record[100:])
    assert [offset for offset, _ in parts] == [
        sum(len(data) for _, data in parts[:number]) for number in range(len(parts))
    ]
    assert {row["_cdc_row"] for row in rows if row["_cdc_kind"] == "part"} == {2}


@pytest.mark.parametrize(
    "content", ["op,a\nI,1\n".encode("utf-16"), gzip.compress(bytes(range(256)) * 99, mtime=0)[:-9]]
)
def test_a_file_that_cannot_be_read_is_kept_as_it_is_stored(
    landing: Landing, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(records, "KEPT_BYTES", 10)
    monkeypatch.setattr(records, "BLOCK_BYTES", 7)
    landing.write("LOAD00000001.csv" if content[:2] != b"\x1f\x8b" else "LOAD00000001.csv.gz", content)

    rows = landing.rows("a b")

    parts = sorted((row["_cdc_offset"], row["_cdc_raw"]) for row in rows if row["_cdc_kind"] == "part")
    [bad] = [row["_cdc_raw"] for row in rows if row["_cdc_kind"] == "bad"]
    assert bad + b"".join(data for _, data in parts) == content
    assert forms(rows)[0]["content"] == "bytes"


def test_the_text_of_a_compressed_file_has_a_hash_of_its_own(landing: Landing) -> None:
    landing.write("LOAD00000001.csv.gz", gzip.compress(b"1,a\n2,b\n", mtime=0))

    [form] = forms(landing.rows("a b"))

    assert len(form["content_sha256"]) == 64


def test_most_line_ends_are_the_usual_one() -> None:
    dialect = csv_lines.CsvDialect()

    def usual(text: bytes) -> bytes:
        return RecordSpans.of(text, dialect.scan(text)).usual_end()

    assert [usual(text) for text in (b"a\n\nb\nc\n", b"a", b"a\r\nb", b"a" + b"\n" * 30, b"a\n\nb\n\n")] == [
        b"\n", b"", b"", b"", b"\n\n",
    ]  # fmt: skip
