"""A search for texts finds them in bytes of files and in what these are packed of, and takes no part for a whole."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.erase.proof import Hits, TextSearch

if TYPE_CHECKING:
    from pathlib import Path

SLICE = 4 * 1024 * 1024
BOB, LONG = "bob@example.org", "b" * 200 + "@example.org"


@pytest.mark.parametrize(
    ("text", "before", "after", "is_alone"),
    [
        (BOB, b"", b"", True),
        (BOB, b" ", b"\0", True),
        (BOB, b"\0", b"x", False),
        (BOB, b"jaco", b" ", False),
        # Behind its length in one byte, in Avro's way, and in four bytes: whatever follows.
        (BOB, b"\x0f", b"x", True),
        (BOB, b"\x1e", b"x", True),
        (BOB, b"\x0f\0\0\0", b"x", True),
        # A length that is a sign of words, too.
        ("b" * 48, b"0", b"\x18", True),
        ("b" * 48, b"1", b"\x18", False),
        (LONG, b"\xd4\x01", b"x", True),
        # No word: another text may have it between other words.
        ("Ann Lee", b"\x07", b"x", True),
        ("Ann Lee", b'"', b'"', True),
        ("Ann Lee", b"Jo ", b" ", False),
        ("müller@example.org", b"\x13", b"\0", True),
    ],
)
def test_a_text_is_found_where_it_stands_alone(text: str, before: bytes, after: bytes, *, is_alone: bool) -> None:
    lot = Random(7)
    search = TextSearch([text, "somebody-else@example.org"])

    for offset in (0, 9, SLICE - len(text), SLICE - 3, SLICE):
        filling = lot.randbytes(offset)[: offset - len(before) - 1] + b"\0" if offset else b""
        assert search.is_in(filling + before + text.encode() + after) is is_alone, offset
    assert not search.is_in(lot.randbytes(100_000))
    assert not TextSearch([]).is_in(text.encode())


def test_values_of_packed_files_are_searched_whole(tmp_path: Path) -> None:
    search = TextSearch([BOB, "cyd@example.org"])
    columns = {
        "email": [BOB, "ann@example.org", BOB],
        "note": [f"not {BOB}", None, BOB],
        "own": [BOB] * 3,
        "n": [1] * 3,
    }
    parquet, avro, plain = tmp_path / "rows.parquet", tmp_path / "manifest.avro", tmp_path / "v1.metadata.json"
    pq.write_table(pa.table(columns), parquet, compression="zstd", write_statistics=False)
    schema = {
        "type": "record",
        "name": "one",
        "fields": [{"name": "bound", "type": {"type": "array", "items": "bytes"}}],
    }
    with avro.open("wb") as file:
        fastavro.writer(file, schema, [{"bound": [b"ann@example.org", BOB.encode()]}] * 50, codec="deflate")
    plain.write_text(f'{{"key": "{BOB}"}}', encoding="utf-8")

    assert search.look_through(f"{parquet}", ["own"]).values == 3
    assert search.look_through(f"{parquet}").values == 6
    assert search.look_through(f"{avro}") == search.look_through(f"{plain}") == Hits(in_bytes=True)
    assert TextSearch(["dan@example.org"]).look_through(f"{parquet}") == Hits()
    assert TextSearch(["dan@example.org"]).look_through(f"{avro}") == Hits()


def test_the_statistics_of_a_packed_file_are_among_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"email": ["ann@example.org", BOB]}), file, compression="zstd", use_dictionary=False)

    assert TextSearch([BOB]).look_through(f"{file}", ["email"]) == Hits(in_bytes=True)
