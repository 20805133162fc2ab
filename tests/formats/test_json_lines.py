"""JSON lines: exact texts, fields that are left out, and the bytes of every file."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats import json_lines
from frazil.formats.json_lines import JsonLinesFile, fields_in

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.formats.records import Bad

COLUMNS = {"id": "id", "v": "V"}
FRAGMENTS = [
    *(b'{"id": 1}', b'{"id": 1, "v": "a"}', b'{"v": null}', b"{", b"}", b"[1]", b"\n", b"\r\n", b"\n\n", b" ", b"\xff"),
    *(b"\xef\xbb\xbf", b'{"id": 1, "ID": 2}', b'{"v": "' + b"x" * 40 + b'"}', b"\r", b"\t", b'{"v": {"a": [1.50]}}'),
]


def read(file: Path, content: bytes, **limits: int) -> tuple[list[dict[str, Any]], list[Bad], bytes]:
    """Return the records of a file with the columns they carry, its bad records, and its bytes put together again."""
    file.write_bytes(content)
    reader = JsonLinesFile(f"{file}", COLUMNS, **limits)
    records: list[dict[str, Any]] = []
    bad: list[Bad] = []
    pieces: dict[tuple[int, int], bytes] = {}
    for parsed in reader:
        rows = parsed.rows.to_pylist()
        ends = parsed.ends.to_pylist() if parsed.ends is not None else [None] * len(rows)
        known = parsed.known.to_pylist() if parsed.known is not None else [[*COLUMNS.values()]] * len(rows)
        for at, row in enumerate(rows):
            records.append({name: parsed.fields[name][at].as_py() for name in known[at]})
            pieces[row, -1] = parsed.raw[at].as_py() + (b"\n" if ends[at] is None else ends[at])
        for one in parsed.bad:
            bad.append(one)
            pieces[one.row, -1] = (one.raw or b"") + (b"\n" if one.end is None else one.end)
        for part in parsed.parts:
            pieces[part.row, part.offset] = part.data
    assert reader.form()["line_end"] == "\n"
    return records, bad, reader.head + b"".join(pieces[place] for place in sorted(pieces))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"a"', "a"),
        ('""', ""),
        ("null", None),
        ("1.10", "1.10"),
        ("-0", "-0"),
        ("1e400", "1e400"),
        ("123456789012345678901234567890.5", "123456789012345678901234567890.5"),
        ("true", "true"),
        ('"\\u00fc \\n"', "ü \n"),
        ('{"b": [1.50, "x", null], "a": {}}', '{"b": [1.50, "x", null], "a": {}}'),
    ],
)
def test_a_value_is_the_text_it_was(tmp_path: Path, value: str, text: str | None) -> None:
    records, bad, _ = read(tmp_path / "a.jsonl", f'{{"id": 7, "v": {value}}}\n'.encode())

    assert (records, bad) == ([{"id": "7", "V": text}], [])


def test_a_field_that_is_left_out_is_not_null(tmp_path: Path) -> None:
    """MISSING-IS-NOT-NULL: each record says what it carries, and fields without a column are not read."""
    records, _, _ = read(tmp_path / "a.jsonl", b'{"id": 1}\n{"V": null, "id": 2, "more": 3}\n')

    assert records == [{"id": "1"}, {"id": "2", "V": None}]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "malformed_json: Expecting property name"),
        (b"[1]", "malformed_json: not an object"),
        (b'[{"id": 1}]', "malformed_json: not an object; one JSON array: write one object a line"),
        (b'{"id": NaN}', "malformed_json: NaN is not a JSON value"),
        (b'{"id": 1, "Id": 2}', "malformed_json: a field is named twice"),
        (b'{"id": 1} {"id": 2}', "malformed_json: Extra data"),
        (b'{"id": "\xff"}', "encoding: invalid UTF-8 at byte 9"),
        (b"[" * 100_000, "malformed_json: "),
        (b'{"v": "' + b"x" * 100 + b'"}', "field_too_large: 109 bytes in one record"),
    ],
)
def test_a_bad_line_is_kept_with_its_reason(tmp_path: Path, line: bytes, reason: str) -> None:
    content = b'{"id": 1}\n' + line + b'\n{"id": 2}\n'

    records, [bad], whole = read(tmp_path / "a.jsonl", content, record_bytes=100 if b"xx" in line else 1_000_000)

    assert records == [{"id": "1"}, {"id": "2"}]
    assert (bad.row, bad.reason.startswith(reason)) == (2, True), bad.reason
    assert whole == content


@given(
    content=st.lists(st.sampled_from(FRAGMENTS), max_size=20).map(b"".join),
    record_bytes=st.sampled_from([12, 1_000]),
    block_bytes=st.integers(1, 60),
)
def test_every_file_comes_back_to_the_byte(tmp_path: Path, content: bytes, record_bytes: int, block_bytes: int) -> None:
    """NOTHING-LOST."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_lines, "KEPT_BYTES", 10)
        _, _, whole = read(tmp_path / "a.jsonl", content, record_bytes=record_bytes, block_bytes=block_bytes)

    assert whole == content


def test_a_compressed_file_is_read_as_its_text(tmp_path: Path) -> None:
    file, text = tmp_path / "a.jsonl.gz", b'{"id": 1}\n\n{"id": 2}'

    records, _, whole = read(file, gzip.compress(text, mtime=0))

    assert records == [{"id": "1"}, {"id": "2"}]
    assert whole == text


def test_fields_are_named_in_the_order_in_which_they_come() -> None:
    assert fields_in([b'{"b": 1}', b"{", b'{"a": 1, "B": 2}']) == ("b", "a")
