"""NOTHING-LOST for Parquet: the text in bronze says exactly the value that the file has, whatever its type."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import struct
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.formats import parquet_file
from frazil.formats.parquet_text import ValuesHash, as_text, spark_type_of_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.bronze.conftest import Landing

I32, I64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
extension = pa.ExtensionArray.from_storage


def stored(values: list[Any], kind: Any) -> Any:
    """Make an array of a type from the numbers that it is stored as."""
    number = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array(values, number).cast(kind)


def moment(unit: str) -> Callable[[str], int]:
    """Read a date or a timestamp back as the number it is stored as."""

    def read(text: str) -> int:
        if text.startswith("<"):
            return int(text.rpartition(" ")[2].rstrip(">"))
        finer = "ns" if unit == "ns" else unit
        digits = {"s": 7, "ms": 3}.get(unit, 0)
        cut = text[:-digits] if digits else text
        return int(np.datetime64(cut.replace(" ", "T"), finer).astype(np.int64))  # type: ignore[call-overload]

    return read


def time_of_day(unit: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        if text.startswith("<"):
            return int(text.rpartition(" ")[2].rstrip(">"))
        hours, minutes, seconds = text.split(":")
        whole, _, fraction = seconds.partition(".")
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
        return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * per_second + int(fraction or 0)

    return read


def decimals(digits: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda number: decimal.Decimal(number).scaleb(-scale, decimal.Context(prec=99)))


def bits(value: float | str) -> bytes:
    return b"nan" if math.isnan(float(value)) else struct.pack("d", float(value))


FLAT: dict[str, tuple[Any, st.SearchStrategy[Any], Callable[[str], Any]]] = {
    "bool": (pa.bool_(), st.booleans(), lambda text: {"true": True, "false": False}[text]),
    "int8": (pa.int8(), st.integers(-128, 127), int),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1), int),
    "float32": (pa.float32(), st.floats(width=32), lambda text: bits(float(np.float32(text)))),
    "float64": (pa.float64(), st.floats(), bits),
    "float16": (pa.float16(), st.floats(width=16), lambda text: bits(float(np.float16(np.float32(text))))),
    "decimal32": (pa.decimal32(7, 3), decimals(7, 3), decimal.Decimal),
    "decimal64": (pa.decimal64(15, 15), decimals(15, 15), decimal.Decimal),
    "decimal128": (pa.decimal128(38, 37), decimals(38, 37), decimal.Decimal),
    "decimal256": (pa.decimal256(45, 0), decimals(45, 0), decimal.Decimal),
    "decimal256 scaled": (pa.decimal256(76, 70), decimals(76, 70), decimal.Decimal),
    "binary": (pa.binary(), st.binary(max_size=9), bytes.fromhex),
    "fixed": (pa.binary(4), st.binary(min_size=4, max_size=4), bytes.fromhex),
    "large binary": (pa.large_binary(), st.binary(max_size=9), bytes.fromhex),
    "binary view": (pa.binary_view(), st.binary(max_size=30), bytes.fromhex),
    "string": (pa.string(), st.text(max_size=9), str),
    "large string": (pa.large_string(), st.text(max_size=9), str),
    "string view": (pa.string_view(), st.text(max_size=30), str),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "", "NULL"]), str),
}
STORED: dict[str, tuple[Any, st.SearchStrategy[int], Callable[[str], int]]] = {
    "date32": (pa.date32(), I32, moment("D")),
    "time32 s": (pa.time32("s"), st.integers(0, 86_399), time_of_day("s")),
    "time32 ms": (pa.time32("ms"), st.integers(0, 86_399_999) | I32, time_of_day("ms")),
    "time64 us": (pa.time64("us"), st.integers(0, 86_399_999_999), time_of_day("us")),
    "time64 ns": (pa.time64("ns"), st.integers(0, 86_399_999_999_999) | I64, time_of_day("ns")),
    "timestamp ms": (pa.timestamp("ms"), I64, moment("ms")),
    "timestamp us": (pa.timestamp("us"), I64, moment("us")),
    "timestamp ns": (pa.timestamp("ns"), I64, moment("ns")),
    "timestamp zone": (pa.timestamp("us", "Europe/Berlin"), I64, moment("us")),
    "duration": (pa.duration("us"), I64, int),
}


def written(landing: Landing, columns: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """Write columns to a file, and read its rows as bronze has them; the last one is the file's own."""
    folder = landing.fresh()
    table = pa.table(columns)
    pq.write_table(table, folder.write("LOAD00000001.parquet", b""), **options)
    rows = folder.rows(format="parquet")
    assert [row["_cdc_kind"] for row in rows] == ["record"] * len(table) + ["file"]
    return rows


def read_back(landing: Landing, column: Any, **options: Any) -> tuple[list[str | None], str]:
    """Write a column to a file, and read it as bronze has it, with its Spark type."""
    rows = written(landing, {"v": column}, **options)
    return [row["v"] for row in rows[:-1]], rows[-1]["_cdc_ledger"]["columns"][0]["type"]


def drawn(types: Mapping[str, tuple[Any, st.SearchStrategy[Any], Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Draw rows with a column of each type; any value may be NULL."""
    return st.lists(
        st.fixed_dictionaries({name: strategy | st.none() for name, (_, strategy, _) in types.items()}),
        min_size=1,
        max_size=4,
    )


@given(rows=drawn(FLAT))
def test_a_value_of_any_type_can_be_had_back_from_its_text(landing: Landing, rows: list[dict[str, Any]]) -> None:
    columns = {name: pa.array([row[name] for row in rows], kind) for name, (kind, _, _) in FLAT.items()}

    *found, _ = written(landing, columns)

    for name, (_, _, read) in FLAT.items():
        wanted = [bits(row[name]) if isinstance(row[name], float) else row[name] for row in rows]
        assert [None if row[name] is None else read(row[name]) for row in found] == wanted, name


@given(rows=drawn(STORED))
def test_a_date_or_a_time_of_any_age_can_be_had_back(landing: Landing, rows: list[dict[str, Any]]) -> None:
    columns = {name: stored([row[name] for row in rows], kind) for name, (kind, _, _) in STORED.items()}

    *found, _ = written(landing, columns, version="2.6")

    for name, (_, _, read) in STORED.items():
        assert [None if row[name] is None else read(row[name]) for row in found] == [row[name] for row in rows], name


@given(
    values=st.lists(
        st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31)) | st.none(),  # noqa: DTZ001 - as stored
        min_size=1,
        max_size=5,
    )
)
def test_timestamps_of_96_bits_are_not_wrapped_around(landing: Landing, values: list[dt.datetime | None]) -> None:
    column = pa.array(values, pa.timestamp("us"))

    texts, kind = read_back(landing, column, use_deprecated_int96_timestamps=True)

    assert texts == as_text(column).to_pylist()
    assert kind == "timestamp"


@given(values=st.lists(I64 | st.none(), min_size=1, max_size=5))
def test_timestamps_of_96_bits_keep_their_nanoseconds(landing: Landing, values: list[int | None]) -> None:
    column = stored(values, pa.timestamp("ns"))

    texts, _ = read_back(landing, column, use_deprecated_int96_timestamps=True)

    assert texts == as_text(column).to_pylist()


MAP = pa.map_(pa.string(), pa.uint64())
MOMENT = pa.struct([("t", pa.timestamp("ns")), ("s", pa.string())])
DEEP = pa.list_(pa.struct([("d", pa.date32()), ("l", pa.list_(pa.bool_()))]))
NESTED = [
    (pa.list_(pa.decimal128(5, 4)), [[decimal.Decimal("0.0001"), None], [], None], '["0.0001", null]'),
    (pa.large_list(pa.int8()), [[1, None], [], None], "[1, null]"),
    (pa.list_(pa.int8(), 2), [[1, 2], None, [3, 4]], "[1, 2]"),
    (pa.list_view(pa.float32()), [[1.1, math.nan], [], None], '[1.1, "nan"]'),
    (MAP, [[("a", 2**64 - 1), ("b", None)], [], None], '[["a", 18446744073709551615], ["b", null]]'),
    (MOMENT, [{"t": 1, "s": 'q"'}, None], '{"t": "1970-01-01 00:00:00.000000001", "s": "q\\""}'),
    (DEEP, [[{"d": 2**31 - 1, "l": [True]}], None], '[{"d": "5881580-07-11", "l": [true]}]'),
    (pa.struct([("b", pa.binary()), ("n", pa.null())]), [{"b": b"\1", "n": None}], '{"b": "01", "n": null}'),
    (pa.list_(pa.dictionary(pa.int8(), pa.string())), [["x", None]], '["x", null]'),
]


@pytest.mark.parametrize(("kind", "values", "first"), NESTED)
def test_a_nested_value_is_json_of_exact_texts(landing: Landing, kind: Any, values: list[Any], first: str) -> None:
    column = pa.array(values, kind)

    texts, spark = read_back(landing, column)

    assert texts[0] == first
    assert [text is None for text in texts] == [value is None for value in values]
    assert all(isinstance(json.loads(text), list | dict) for text in texts if text)
    assert as_text(column[1:]).to_pylist() == texts[1:]
    assert spark == "string"


@pytest.mark.parametrize(
    ("column", "texts", "spark"),
    [
        (extension(pa.uuid(), pa.array([uuid.UUID(int=1).bytes], pa.binary(16))), ["0" * 31 + "1"], "binary"),
        (extension(pa.json_(), pa.array(['{"a": 1.0}'])), ['{"a": 1.0}'], "string"),
        (extension(pa.bool8(), pa.array([1], pa.int8())), ["1"], "int"),
        (pa.nulls(2), [None, None], "string"),
        (pa.array([-0.0, math.nan, -math.inf]), ["-0", "nan", "-inf"], "double"),
        (pa.array([decimal.Decimal(10) ** 44], pa.decimal256(45, 0)), ["1" + "0" * 44], "string"),
    ],
    ids=str,
)  # fmt: skip
def test_a_type_that_spark_has_not_is_what_it_is_stored_as(
    landing: Landing, column: Any, texts: list[str | None], spark: str
) -> None:
    assert read_back(landing, column) == (texts, spark)


def test_a_value_without_a_text_makes_its_record_bad_with_all_its_values(
    landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses_three(column: Any) -> Any:
        if 3 in column.to_pylist():
            raise pa.ArrowInvalid("no text for 3\nand a trace")
        return as_text(column)

    monkeypatch.setattr(parquet_file, "as_text", refuses_three)
    table = pa.table({"v": [1, 2, 3, 4, 5], "w": list("abcde")})
    pq.write_table(table, landing.write("LOAD00000001.parquet", b""))

    rows = landing.rows(format="parquet")

    [bad] = [row for row in rows if row["_cdc_kind"] == "bad"]
    assert [(row["_cdc_row"], row["v"]) for row in rows if row["_cdc_kind"] == "record"] == [
        (1, "1"), (2, "2"), (4, "4"), (5, "5"),
    ]  # fmt: skip
    assert (bad["_cdc_row"], bad["_cdc_reason"]) == (3, "unsupported: no text for 3")
    assert pa.ipc.open_stream(bad["_cdc_raw"]).read_all().equals(table.slice(2, 1))


def test_the_hash_of_values_is_the_same_in_any_pieces_and_tells_null_from_empty() -> None:
    def hashed(*pieces: tuple[list[int], list[str | None]]) -> str:
        found = ValuesHash(1)
        for rows, texts in pieces:
            found.add(pa.array(rows, pa.int64()), [pa.array(texts, pa.string())])
        return found.hexdigest()

    whole = hashed(([1, 2, 3], ["a", None, ""]))

    assert hashed(([1], ["a"]), ([2, 3], [None, ""])) == whole
    assert hashed(([1, 2, 3], ["a", "", None])) != whole
    assert hashed(([1, 2, 4], ["a", None, ""])) != whole
    assert hashed(([1, 2, 3], ["", None, "a"])) != whole


def test_types_of_more_digits_than_spark_has_are_strings() -> None:
    kinds = [pa.decimal256(39, 0), pa.decimal128(38, 38), pa.decimal256(38, 2), pa.duration("s"), pa.uuid()]

    assert [spark_type_of_arrow(kind) for kind in kinds] == [
        "string",
        "decimal(38,38)",
        "decimal(38,2)",
        "bigint",
        "binary",
    ]
