"""A CSV file comes into bronze as it is: every field, every bad record, every row number."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING

import pytest
from tests.bronze.csv_rows import bad, good, numbers

from frazil.errors import DeclarationError
from frazil.formats.csv_reader import MALFORMED_QUOTE
from frazil.formats.records import DuplicateFieldsError

if TYPE_CHECKING:
    from tests.bronze.conftest import Landing

ABC = b"op,a,b,c\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b'1,"",x\n2,,y\n', [("1", "", "x"), ("2", None, "y")], id="empty is not null"),
        pytest.param(b'3,"NULL",z\n4,NULL,w\n', [("3", "NULL", "z"), ("4", None, "w")], id="quoted NULL is text"),
        pytest.param(b'1,"x\r\ny",2\r\n2,"x\ny",3\n', [("1", "x\r\ny", "2"), ("2", "x\ny", "3")], id="line ends"),
        pytest.param(b'1,"say ""hi"", ok",2\n', [("1", 'say "hi", ok', "2")], id="doubled quotes"),
        pytest.param(b'2,C:\\,3\n3,"C:\\",4\n', [("2", "C:\\", "3"), ("3", "C:\\", "4")], id="backslash"),
        pytest.param(b"1,2,3", [("1", "2", "3")], id="no last line end"),
        pytest.param(b"1,2,3\n\n\r\n4,5,6\n", [("1", "2", "3"), ("4", "5", "6")], id="blank lines"),
        pytest.param(b"1,x\0y,3\n", [("1", "x\0y", "3")], id="NUL"),
        pytest.param(b' 1 , NULL ,"  y "\n', [(" 1 ", " NULL ", "  y ")], id="blanks"),
        pytest.param(b'1,x"y"z,3\n2, "x",3\n', [("1", 'x"y"z', "3"), ("2", ' "x"', "3")], id="quote inside"),
        pytest.param(b"1,2,3\r4,5,6\r", [("1", "2", "3"), ("4", "5", "6")], id="CR only"),
        pytest.param("1,héllo,😀\n".encode(), [("1", "héllo", "😀")], id="unicode"),
        pytest.param(b",,\n", [(None, None, None)], id="all null"),
        pytest.param(b"null,NA,nan\n", [("null", "NA", "nan")], id="no other word is null"),
        pytest.param(b"007,1.50,2020-01-01\n", [("007", "1.50", "2020-01-01")], id="nothing is a number"),
    ],
)
def test_a_field_is_the_text_it_was(landing: Landing, text: bytes, expected: list[tuple[str, ...]]) -> None:
    landing.write("LOAD00000001.csv", text)

    rows = landing.rows("a b c")

    assert good(rows) == expected
    assert numbers(rows) == list(range(1, len(expected) + 1))
    assert bad(rows) == []


@pytest.mark.parametrize(
    ("text", "row", "reason"),
    [
        (b"1,2,3\n1,2,3,4\n5,6,7\n", 2, "too_many_fields: 4, expected 3"),
        (b"1,2,3\n\n5,6\n7,8,9\n", 2, "too_few_fields: 2, expected 3"),
        (b"1,2,3\n \n7,8,9\n", 2, "too_few_fields: 1, expected 3"),
        (b"1,2,3\n2,b\xffd,3\n7,8,9\n", 2, "encoding: invalid UTF-8 at byte 4"),
        (b"\xff\n2,3,4\n7,8,9\n", 1, "encoding: invalid UTF-8 at byte 1"),
        (b'1,"a"b,3\n2,3,4\n', 1, MALFORMED_QUOTE),
        (b'1,2,3\n2,"a"b",3\n7,8,9\n', 2, MALFORMED_QUOTE),
        (b'1,2,3\n""x,b,3\n7,8,9\n', 2, MALFORMED_QUOTE),
        (b'1,2,3\n1,b,"a" "b"\n7,8,9\n', 2, MALFORMED_QUOTE),
        (b'2,3,4\n2,3,4\n7,"8,9\n1,2,3\n', 3, "open_quote: to the end of the file"),
        (b'2,3,4\n2,3,4\n7,8,"9\n1,2,3\n', 3, "open_quote: to the end of the file"),
    ],
)
def test_a_bad_record_keeps_its_number_and_its_bytes(landing: Landing, text: bytes, row: int, reason: str) -> None:
    landing.write("LOAD00000001.csv", text)

    """NOTHING-LOST: what is not well-formed is never altered."""
    rows = landing.rows("a b c")

    lines = [line for line in text.split(b"\n") if line]
    raw = b"\n".join(text.split(b"\n")[row - 1 :]) if reason.startswith("open") else lines[row - 1]
    assert bad(rows) == [(row, reason, raw)]
    assert numbers(rows) == [number for number in range(1, min(len(lines), 3) + 1) if number != row]


def test_row_numbers_are_exact_across_blocks_with_every_kind_of_bad_record(landing: Landing) -> None:
    kinds = [
        b'%d,"a\nb",c',
        b"%d,x",
        b"%d,\xff,y",
        b"%d,,",
        b"%d,1,2,3",
        b'%d,"say ""hi""",z',
        b'%d,x"y,z',
        b"\n%d,p,q",
    ]
    text = b"\n".join(kinds[n % len(kinds)] % (n + 1) for n in range(80))
    landing.write("LOAD00000001.csv", text + b"\n")

    for block_bytes in (1, 7, 64, 1000, 100_000):
        rows = landing.rows("a b c", limits={"block_bytes": block_bytes})

        assert all(int(row["a"]) == row["_cdc_row"] for row in rows if row["_cdc_kind"] == "record")
        assert all(int(raw.split(b",")[0]) == number for number, _, raw in bad(rows) if raw)
        assert sorted(numbers(rows) + [row for row, *_ in bad(rows)]) == list(range(1, 81))
        assert len(bad(rows)) == 30


@pytest.mark.parametrize(
    ("count", "limits"), [(25_000, {"block_bytes": 100_000}), pytest.param(250_000, {}, marks=pytest.mark.laws)]
)
def test_more_records_than_fit_one_block_keep_their_order(count: int, limits: dict[str, int], landing: Landing) -> None:
    landing.write("LOAD00000001.csv", b"".join(b"%d,%s\n" % (n, b"x" * (n % 50)) for n in range(1, count + 1)))

    rows = landing.rows("a b", limits=limits)

    assert [int(value) for (value,) in good(rows, "a")] == numbers(rows) == list(range(1, count + 1))


def test_a_record_too_large_is_bad_and_the_next_one_is_read(landing: Landing) -> None:
    large = b'2,"' + b'""\n' * 1000 + b'",z'
    landing.write("LOAD00000001.csv", b"1,p,q\n" + large + b"\n3,r,s\n4,t,u\n")

    for block_bytes in (10, 300, 10_000):
        rows = landing.rows("a b c", limits={"block_bytes": block_bytes, "record_bytes": 1000})

        assert good(rows, "a") == [("1",), ("3",), ("4",)]
        assert numbers(rows) == [1, 3, 4]
        [(row, reason, raw)] = bad(rows)
        assert (row, raw is not None and large.startswith(raw)) == (2, True)
        assert reason.startswith(f"field_too_large: {len(large)} bytes in one record")


def test_a_last_record_too_large_without_line_end_is_bad_too(landing: Landing) -> None:
    landing.write("LOAD00000001.csv", b"1,p,q\n2,r," + b"s" * 5000)

    rows = landing.rows("a b c", limits={"block_bytes": 100, "record_bytes": 1000})

    assert numbers(rows) == [1]
    assert [(row, reason.split(" in")[0]) for row, reason, _ in bad(rows)] == [(2, "field_too_large: 5004 bytes")]


def test_many_large_bad_records_do_not_pile_up(landing: Landing) -> None:
    landing.write("LOAD00000001.csv", b"".join(b"%d,%s\n" % (n, b"x" * 2_000_000) for n in range(1, 14)) + b"14,p,q")

    rows = landing.rows("a b c")

    assert [row for row, *_ in bad(rows)] == list(range(1, 14))
    assert numbers(rows) == [14]
    assert [row["_cdc_kind"] for row in rows][-2:] == ["bad", "file"]


def test_an_open_quote_over_many_blocks_is_one_bad_record(landing: Landing) -> None:
    landing.write("LOAD00000001.csv", b'1,p,q\n2,"x,y\n' + b"3,r,s\n" * 1000)

    rows = landing.rows("a b c", limits={"block_bytes": 64, "record_bytes": 1000})

    assert numbers(rows) == [1]
    assert [(row, reason.split(":")[0]) for row, reason, _ in bad(rows)] == [(2, "open_quote")]


@pytest.mark.parametrize("text", [b"", b"\n", b" \r\n \t\n", b"\xef\xbb\xbf", ABC, ABC[:-1], b"\n\n" + ABC])
def test_a_file_without_records_has_a_ledger_row_only(landing: Landing, text: bytes) -> None:
    landing.write("20240101-000000000.csv", text)

    [row] = landing.rows(header=True)

    assert (row["_cdc_kind"], row["_cdc_ledger"]["rows"], row["_cdc_ledger"]["bad"]) == ("file", 0, 0)
    assert row["_cdc_ledger"]["headers"] == (1 if b"op" in text else 0)


def test_a_byte_order_mark_goes(landing: Landing) -> None:
    landing.write("20240101-000000000.csv", b'\xef\xbb\xbf"op",a,b,c\nI,1,2,3\n')
    landing.write("20240101-000000001.csv", b"\xef\xbb\xbfop,a,b,c\nI,4,5,6\n")

    assert good(landing.rows(header=True), "op a b c") == [("I", "1", "2", "3"), ("I", "4", "5", "6")]


def test_utf_16_is_one_bad_record(landing: Landing) -> None:
    landing.write("20240101-000000000.csv", "op,a\nI,1\n".encode("utf-16"))

    assert bad(landing.rows("a")) == [(1, "encoding: UTF-16, not UTF-8", "op,a\nI,1\n".encode("utf-16"))]


def test_header_names_place_the_fields(landing: Landing) -> None:
    landing.write("LOAD00000001.csv", b"a,b\n1,2\n")
    landing.write("20240101-000000000.csv", b"B,OP,A\n4,U,3\n")
    landing.write("20240101-000000001.csv", b'c,op,a\n"5\n6",D,7\n')

    rows = landing.rows(header=True)

    assert good(rows, "op a b c") == [(None, "1", "2", None), ("U", "3", "4", None), ("D", "7", None, "5\n6")]
    known = [row["_cdc_known"] for row in rows if row["_cdc_kind"] == "record"]
    assert known == [["a", "b", "op"], ["b", "a", "op"], ["c", "a", "op"]]


def test_known_is_null_where_a_file_carries_every_column(landing: Landing) -> None:
    landing.write("LOAD00000001.csv", b"a,b\n1,2\n")

    assert [row["_cdc_known"] for row in landing.rows(header=True)] == [None, None]
    [row, _] = landing.rows(header=True, existing=("op", "a", "b", "z", "_cdc_kind"))
    assert (row["_cdc_known"], row["z"], "Z" in row) == (["a", "b", "op"], None, False)


def test_two_fields_of_one_name_are_an_error_that_names_both(landing: Landing) -> None:
    landing.write("in/20240101-000000000.csv", b"op,id,b,ID\nI,1,2,3\n")

    with pytest.raises(DuplicateFieldsError, match=re.escape("in/20240101-000000000.csv: 'id', 'ID'")):
        landing.rows(header=True)


def test_a_change_file_whose_header_lacks_the_op_column_is_all_bad(landing: Landing) -> None:
    landing.write("20240101-000000000.csv", b'a,b\n1,2\n3,"4\n5"\n')

    assert bad(landing.rows(header=True)) == [(1, "no_op_column", b"1,2"), (2, "no_op_column", b'3,"4\n5"')]


@pytest.mark.parametrize("in_load", [False, True])
def test_without_header_the_op_column_comes_first(landing: Landing, in_load: bool) -> None:  # noqa: FBT001
    landing.write("LOAD00000001.csv", b"I,1,2\n" if in_load else b"1,2\n")
    landing.write("20240101-000000000.csv", b"D,3,NULL\n")

    rows = landing.rows("id v", include_op_for_full_load=in_load)

    assert good(rows, "op id v") == [("I" if in_load else None, "1", "2"), ("D", "3", None)]
    load, change = "0/LOAD00000001.csv/", "1/20240101-000000000.csv/"
    assert [row["_cdc_position"] for row in rows] == [load, load, change, change]


def test_without_header_somebody_has_to_name_the_fields(landing: Landing) -> None:
    landing.write("20240101-000000000.csv", b"D,3\n")

    with pytest.raises(DeclarationError, match="its fields are not declared"):
        landing.rows()
    assert good(landing.rows(fields=("k",)), "op k") == [("D", "3")]


def test_a_change_sequence_is_the_position_of_changes(landing: Landing) -> None:
    landing.write("LOAD00000001.csv", b"1,\n")
    landing.write("20240101-000000000.csv", b"U,1,20240101101112000000000000000000042\nU,2,\n")

    rows = landing.rows("id seq", change_seq="seq")

    assert [row["_cdc_position"] for row in rows if row["_cdc_kind"] == "record"] == [
        "0/LOAD00000001.csv/", "1/20240101101112000000000000000000042", "1/20240101-000000000.csv/",
    ]  # fmt: skip


def test_change_sequences_are_ordered_as_numbers(landing: Landing) -> None:
    numbers = ["0", " 9", "10", "0" * 40 + "11", "9" * 35, "1" + "0" * 35, "1" + "0" * 38]
    landing.write("20240101-000000000.csv", "".join(f"U,{number},x\n" for number in numbers).encode())

    rows = [row for row in landing.rows("seq v", change_seq="seq") if row["_cdc_kind"] == "record"]
    by_position = sorted(rows, key=lambda row: row["_cdc_position"])

    assert [row["seq"] for row in by_position] == numbers


def test_change_sequences_that_are_no_numbers_are_ordered_as_text(landing: Landing) -> None:
    landing.write("20240101-000000000.csv", b"U,0000002B:00000478:0003,x\n")

    (row,) = [row for row in landing.rows("seq v", change_seq="seq") if row["_cdc_kind"] == "record"]

    assert row["_cdc_position"] == "1/0000002B:00000478:0003"


def test_an_escape_character_takes_the_place_of_doubled_quotes(landing: Landing) -> None:
    landing.write("LOAD00000001.csv", b'1,x\\"y\n2,"a\\"\\\\,\nb"\n3,a\\,b\n4,"a\\\n"\n5,q\\\nr\n6,"\\\\"\n7,8,9\n')

    for block_bytes in (1, 5, 1000):
        rows = landing.rows("a b", csv_escape="\\", limits={"block_bytes": block_bytes})

        assert good(rows, "a b") == [
            ("1", 'x"y'), ("2", 'a"\\,\nb'), ("3", "a,b"), ("4", "a\n"), ("5", "q\nr"), ("6", "\\"),
        ]  # fmt: skip
        assert bad(rows) == [(7, "too_many_fields: 3, expected 2", b"7,8,9")]


@pytest.mark.parametrize("delimiter", ["\t", ";", "|", "^", "]", "\x01", " "])
def test_any_ascii_delimiter_works(landing: Landing, delimiter: str) -> None:
    landing.write("LOAD00000001.csv", f'1{delimiter}"a{delimiter}\n"\n{delimiter}\n'.encode())

    rows = landing.rows("a b", csv_delimiter=delimiter)

    assert good(rows, "a b") == [("1", f"a{delimiter}\n"), (None, None)]


def test_gzip_is_read_as_what_it_holds(landing: Landing) -> None:
    landing.write("LOAD00000001.csv.gz", gzip.compress(b"1,a\n", mtime=0) + gzip.compress(b"2,b\n", mtime=0))

    assert good(landing.rows("a b"), "a b") == [("1", "a"), ("2", "b")]


def test_a_damaged_gzip_is_one_bad_record_and_no_good_ones(landing: Landing) -> None:
    whole = gzip.compress(bytes(range(200)) * 50, mtime=0)
    landing.write("LOAD00000001.csv.gz", whole[:-20])
    landing.write("LOAD00000002.csv.gz", whole + b"garbage")
    landing.write("LOAD00000003.csv.gz", b"not gzip")

    rows = landing.rows("a b")

    assert [reason.split(":")[0] for _, reason, _ in bad(rows)] == ["unreadable"] * 3
    assert good(rows, "a") == []


def test_records_of_other_tables_are_counted_and_left(landing: Landing) -> None:
    landing.write(
        "cdc/CDC_TXN-20201117153046033.csv",
        b'I,hosts,public,1,a\nI,listings,public,1,2,3,4\nU,"hosts",other,2,b\nD,listings,public,9,z\n'
        b"U,hosts,public,1\nI,listings,public,1\nU,HOSTS,public,3,c\nI,hosts\n",
    )

    rows = landing.rows("id v", cdc_path=("cdc",), cdc_table="public.hosts")
    assert good(rows, "op id v") == [("I", "1", "a")]
    assert numbers(rows) == [1]
    assert bad(rows) == [
        (5, "too_few_fields: 4, expected 5", b"U,hosts,public,1"),
        (8, "too_few_fields: 2, expected 5", b"I,hosts"),
    ]
    assert rows[-1]["_cdc_ledger"]["foreign"] == 5

    rows = landing.rows("id v", cdc_path=("cdc",))
    assert good(rows, "op id v") == [("I", "1", "a"), ("U", "2", "b"), ("U", "3", "c")]
    assert numbers(rows) == [1, 3, 7]
    assert [column["name"] for column in rows[-1]["_cdc_ledger"]["columns"]] == ["op", "id", "v"]
