"""A run that finds no field says which files could not be read, and why."""

from __future__ import annotations

import gzip
import os
import re
from typing import TYPE_CHECKING

import pytest
from tests.failing import run_fails_with

from frazil.silver.contract import MissingFieldError

if TYPE_CHECKING:
    from tests.shop import Shop

pytestmark = pytest.mark.spark

ZIPPED = gzip.compress(b"op,id,ts,note\n" + b"I,1,2026-01-01 00:00:00,x\n" * 1000, mtime=0)[:-20]


@pytest.mark.parametrize(
    ("name", "content", "says", "hint"),
    [
        ("1.csv", b"", "landing/1.csv: it has no records and no header", "deliver the files again"),
        ("1.csv.gz", ZIPPED, "landing/1.csv.gz: unreadable: Compressed file ended before", "deliver the files again"),
        ("1.csv", "op,id\nI,1\n".encode("utf-16"), "encoding: UTF-16, not UTF-8", "deliver the files again"),
        ("1.csv", b"op;id;ts\nI;1;2\n", "column 'id' is a field of no file", 'csv_delimiter: ";"'),
        ("1.csv", b"op|id|ts\nI|1|2\n", "column 'id' is a field of no file", 'csv_delimiter: "|"'),
    ],
)
def test_files_without_fields_have_a_reason(shop: Shop, name: str, content: bytes, says: str, hint: str) -> None:
    file = shop.pipeline.folder / "landing" / name
    file.write_bytes(content)
    os.utime(file, (0, 0))  # it has settled

    with run_fails_with(MissingFieldError, match=re.escape(says)) as stopped:
        shop.run()

    [error] = stopped.value.errors
    assert "column 'id' is a field of no file" in error.message
    assert hint in (error.hint or "")


def test_a_column_missing_in_sound_files_is_reported(shop: Shop) -> None:
    shop.land("1.csv", "I,1,x", names=("id", "note"))

    with run_fails_with(MissingFieldError) as stopped:
        shop.run()

    assert [error.message for error in stopped.value.errors] == ["table 'orders': column 'ts' is a field of no file"]
