"""Whatever a CSV file holds, it comes into bronze as it is: drawn at random."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from tests.bronze.csv_rows import bad, good, numbers

from frazil.sources.dms.layout import HeaderError, OtherFieldsError

if TYPE_CHECKING:
    from tests.bronze.conftest import Landing

Field = st.one_of(st.none(), st.text(st.sampled_from('ab",\n\r\\\0 é😀N'), max_size=6), st.just("NULL"))


def written(field: str | None, *, quoted: bool) -> bytes:
    """One field by RFC 4180; NULL is nothing, or the word NULL."""
    if field is None:
        return b"NULL" if quoted else b""
    if quoted or field in {"", "NULL"} or re.search('[",\r\n]', field):
        return b'"' + field.replace('"', '""').encode() + b'"'
    return field.encode()


@given(
    records=st.lists(st.tuples(*[st.tuples(Field, st.booleans())] * 3), min_size=1, max_size=12),
    line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    last=st.booleans(),
    block_bytes=st.integers(1, 60),
)
def test_drawn_records_are_read_back_unchanged(
    landing: Landing,
    records: list[tuple[tuple[str | None, bool], ...]],
    line_end: bytes,
    *,
    last: bool,
    block_bytes: int,
) -> None:
    lines = [b",".join(written(field, quoted=quoted) for field, quoted in record) for record in records]
    folder = landing.fresh()
    folder.write("LOAD00000001.csv", line_end.join(lines) + (line_end if last else b""))

    try:
        rows = folder.rows("a b c", limits={"block_bytes": block_bytes})
    except HeaderError:  # drawn now and then: a first record that names the fields
        return

    if b"".join(lines).strip(b" ") or len(lines) > 1:
        assert good(rows) == [tuple(field for field, _ in record) for record in records]
        assert numbers(rows) == list(range(1, len(records) + 1))
        assert bad(rows) == []


@given(
    text=st.binary(max_size=60) | st.text('",\n\rax \\', max_size=40).map(str.encode),
    block_bytes=st.integers(1, 50),
)
def test_any_bytes_come_out_counted_and_the_same_whatever_the_block(
    landing: Landing, text: bytes, block_bytes: int
) -> None:
    folder = landing.fresh()
    folder.write("LOAD00000001.csv", text)

    for escape in (None, "\\"):
        try:
            small = folder.rows("k1 k2", csv_escape=escape, limits={"block_bytes": block_bytes})
        except OtherFieldsError:  # all of its records have three fields, or more; nothing is taken
            continue

        assert without_form(small) == without_form(folder.rows("k1 k2", csv_escape=escape))


def without_form(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove the fields that depend on the order of records."""
    of_form = {"_cdc_end", "_cdc_form"}

    def is_left(name: str, row: dict[str, Any]) -> bool:
        return name not in of_form and (name, row["_cdc_kind"]) != ("_cdc_raw", "record")

    return [{name: value for name, value in row.items() if is_left(name, row)} for row in rows]
