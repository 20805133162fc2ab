"""NOTHING-LOST, value by value: a text becomes exactly its value, or goes to quarantine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from frazil.silver.cast import exact

if TYPE_CHECKING:
    from frazil.spec.model.types import BeyondMicroseconds

NUMBERS_THAT_ARE_NONE = [
    "abc",
    "0x10",
    "0x1p3",
    "1d",
    "1f",
    "1L",
    "1_000",
    "1,5",
    "1e",
    "1e1e1",
    "--1",
    "+",
    "-",
    ".",
    "é",
    "١٢",
]
BLANK = ("", " ")
BESIDE = ("\0", "\t", "\n", "\r", "\x1f", "\x7f", "\u00a0")
"""Signs that make a number none wherever they stand beside it."""


def beside(value: str) -> list[str]:
    return [text for sign in BESIDE for text in (value + sign, sign + value, f" {value}{sign} ")]


EXACT: dict[str, dict[str, str]] = {
    "int": {
        "0": "0",
        "-0": "0",
        "+7": "7",
        " 7 ": "7",
        "7" + " " * 20: "7",
        "007": "7",
        "2147483647": "2147483647",
        "-2147483648": "-2147483648",
    },
    "bigint": {"9223372036854775807": "9223372036854775807", "-9223372036854775808": "-9223372036854775808"},
    "double": {
        "1": "1.0",
        "1.5": "1.5",
        ".5": "0.5",
        "5.": "5.0",
        "-1e-3": "-0.001",
        "1E3": "1000.0",
        " 2.5 ": "2.5",
        "NaN": "NaN",
        "Infinity": "Infinity",
        "-inf": "-Infinity",
        " NaN ": "NaN",
        "4.9e-324": "4.9E-324",
        "-0.0": "-0.0",
        "0e-999": "0.0",
        ".0E5": "0.0",
    },
    "float": {"1.5": "1.5", "NaN": "NaN", "1.4e-45": "1.4E-45", "0.000": "0.0"},
    "decimal(10,2)": {
        "1": "1.00",
        "1.0": "1.00",
        "1.50": "1.50",
        "1.500": "1.50",
        "-99999999.99": "-99999999.99",
        "+.5": "0.50",
        "1e2": "100.00",
        "15e-1": "1.50",
        " 1.5 ": "1.50",
        " 1.50000 ": "1.50",
        " 1e2 ": "100.00",
        "1.": "1.00",
    },
    "decimal(30,2)": {
        "1." + "0" * 40: "1.00",
        "1.20e0": "1.20",
        "12e-1": "1.20",
        "1e27": "1" + "0" * 27 + ".00",
    },
    "decimal(38,0)": {"9" * 38: "9" * 38, "-1.0": "-1"},
    "decimal(38,38)": {"0." + "1" * 38: "0." + "1" * 38},
    "boolean": {"true": "true", "F": "false", "1": "true", "0": "false", "TRUE": "true", "t": "true", " f ": "false"},
    "date": {
        "2024-02-29": "2024-02-29",
        "0001-01-01": "0001-01-01",
        "9999-12-31": "9999-12-31",
        " 2022-01-01": "2022-01-01",
        "2022-01-01 ": "2022-01-01",
        "2022-01-01 00:00:00": "2022-01-01",
        "2022-01-01T00:00:00.000000": "2022-01-01",
    },
    "timestamp": {
        "2024-01-02 03:04": "2024-01-02 03:04:00",
        "2024-01-02 03:04:05": "2024-01-02 03:04:05",
        "2024-01-02T03:04:05.123456Z": "2024-01-02 03:04:05.123456",
        "2024-01-02 03:04:05.1": "2024-01-02 03:04:05.1",
        "2024-01-02 03:04:05.1234560": "2024-01-02 03:04:05.123456",
        "2024-01-02 03:04:05+02:00": "2024-01-02 01:04:05",
        "2024-01-02 03:04:05 UTC": "2024-01-02 03:04:05",
        " 2024-01-02 03:04:05 ": "2024-01-02 03:04:05",
        "2024-01-02 03:04:05Z  ": "2024-01-02 03:04:05",
        "0001-01-01 00:00:00": "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.999999": "9999-12-31 23:59:59.999999",
        "9999-12-31 23:59:59.9999999": "9999-12-31 23:59:59.999999",
        "1969-12-31T23:59:59.999999999Z": "1969-12-31 23:59:59.999999",
        "2023-11-08T01:20:11.3733338+02:00": "2023-11-07 23:20:11.373333",
        "2024-01-02 03:04:05." + "9" * 40: "2024-01-02 03:04:05.999999",
    },
    "timestamp_ntz": {
        "2024-01-02 03:04:05.000001": "2024-01-02 03:04:05.000001",
        "0001-01-01 00:00:00.0000019": "0001-01-01 00:00:00.000001",
    },
    "binary": {"": "", "00fF": "00FF", " 00 ": "00", "  ": "", r"\x": "", r"\x00fF": "00FF"},
    "string": {"": "", " a ": " a ", "NULL": "NULL", "1": "1"},
}

NONE: dict[str, list[str]] = {
    "int": [
        *BLANK,
        *beside("3"),
        *NUMBERS_THAT_ARE_NONE,
        "2147483648",
        "-2147483649",
        "1.0",
        "1.5",
        "1e3",
        "NaN",
        "true",
    ],
    "bigint": [*BLANK, *beside("3"), *NUMBERS_THAT_ARE_NONE, "9223372036854775808", "1.5"],
    "double": [
        *BLANK,
        *beside("3"),
        *beside("NaN"),
        *NUMBERS_THAT_ARE_NONE,
        "1e-400",
        "-4e-325",
        "1e999",
        "-1e999",
        "infinit",
        "nano",
        "1 2",
    ],
    "float": [*BLANK, *beside("3"), *NUMBERS_THAT_ARE_NONE, "1e-46", "1e39", "1e999"],
    "decimal(10,2)": [
        *BLANK,
        *beside("3"),
        *beside("3.14"),
        *beside("3e1"),
        *NUMBERS_THAT_ARE_NONE,
        "1.005",
        "1e-3",
        "0.001",
        "100000000",
        "99999999.999",
        "1e999",
        "NaN",
        "Infinity",
    ],
    "decimal(30,2)": [
        "1." + "0" * 20 + "1",
        "1e-30",
        "1e28",
        "1e999999999",
        "1e-999999999",
        "1e-2147483648",
        "1e-99999999999",
    ],
    "decimal(38,0)": ["1" + "0" * 38, "0.5", ".5", "5e-1", "."],
    "decimal(38,38)": ["1", "1.0", "0." + "1" * 39],
    "boolean": [*BLANK, *beside("true"), *beside("1"), "yes", "no", "y", "n", "on", "2", "tru"],
    "date": [
        *BLANK,
        *[
            "now",
            "today",
            "epoch",
            "yesterday",
            "infinity",
            "2022",
            "2022-01",
            "12:30",
            "20220101",
            "2022-1-1",
            "2022-02-30",
            "2023-02-29",
        ],
        *[
            "0000-01-01",
            "0000-00-00",
            "10000-01-01",
            "-0044-03-15",
            "+2022-01-01",
            "2022-01-01 00:00:01",
            "2022-01-01T00:00:00.001",
            "2022-01-01 00",
            "2022-01-01 00:00:00Z",
            "2022/01/01",
        ],
        *beside("2022-01-01"),
        "2022-13-01",
        "2022-00-10",
        "2022-01-00",
    ],
    "timestamp": [
        *BLANK,
        *[
            "now",
            "today",
            "epoch",
            "infinity",
            "2022",
            "2022-01",
            "2022-01-01",
            "12:30",
            "T12:30",
            "12:30:00",
            "1640995200",
        ],
        "2022-01-01 24:00:00",
        "2016-12-31 23:59:60",
        "2022-01-01 23:60:00",
        "2022-01-01 1:2:3",
        "2022-01-01 12",
        "2022-01-01 12:30:00.",
        "2022-01-01 12:30:00 Mars/Base",
        "2022-01-01 12:30:00+25:00",
        "2022-01-01 12:30:00 PST",
        "0000-01-01 00:00:00",
        "10000-01-01 00:00:00",
        "-0001-01-01 00:00:00",
        "2022-02-30 00:00:00",
        *beside("2022-01-01 12:30:00"),
        *beside("2022-01-01 12:30:00Z"),
        "2022-01-01  12:30:00",
    ],
    "timestamp_ntz": ["now", "2022-01-01 12:30:00Z", "2022-01-01 12:30:00+01:00", "2022-01-01 24:00:00"],
    "binary": ["0", "0g", "0x00", r"\x0", r"\\x00", r"00\x", r"\X00", "0 0", *beside("00")],
}

CASES = [
    *((kind, text, value) for kind, texts in EXACT.items() for text, value in texts.items()),
    *((kind, text, None) for kind, texts in NONE.items() for text in texts),
]


@pytest.fixture(scope="module", params=["ansi", "lenient"])
def casts(spark: SparkSession, request: pytest.FixtureRequest) -> dict[tuple[str, str], str | None]:
    """(type, text) -> the value as text, all in one job; the same whether or not Spark's own casts fail."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", f"{request.param == 'ansi'}".lower())
    rows = session.createDataFrame([(kind, text) for kind, text, _ in CASES], "kind string, text string")
    value = F.lit(None).cast("string")
    for kind in dict.fromkeys(kind for kind, *_ in CASES):
        cast = F.expr(exact("text", kind))
        shown = F.hex(cast) if kind == "binary" else cast.cast("string")
        value = F.when(F.col("kind") == kind, shown).otherwise(value)
    table = rows.select("kind", "text", value.alias("value")).toArrow().to_pylist()
    return {(row["kind"], row["text"]): row["value"] for row in table}


@pytest.mark.parametrize(("kind", "text", "value"), CASES)
def test_a_text_is_exactly_its_value_or_none(
    kind: str, text: str, value: str | None, casts: dict[tuple[str, str], str | None]
) -> None:
    assert casts[kind, text] == value


@pytest.mark.parametrize("kind", EXACT)
def test_null_stays_null(kind: str, spark: SparkSession) -> None:
    nothing = spark.sql("SELECT CAST(NULL AS string) AS text")

    cast = nothing.select(F.expr(exact("text", kind)).alias("value"))

    assert cast.toArrow().column("value").to_pylist() == [None]
    assert cast.schema["value"].dataType.simpleString() == kind


ROUNDED = {
    "2024-01-02 03:04:05.1234564": "2024-01-02 03:04:05.123456",
    "2024-01-02 03:04:05.12345649": "2024-01-02 03:04:05.123456",
    "2024-01-02 03:04:05.1234565": "2024-01-02 03:04:05.123457",
    "2024-02-29 23:59:59.9999999": "2024-03-01 00:00:00",
    "1969-12-31 23:59:59.9999999": "1970-01-01 00:00:00",
    "9999-12-31 23:59:59.9999999": "9999-12-31 23:59:59.999999",
    "2024-01-02 03:04:05.1234560": "2024-01-02 03:04:05.123456",
    "2024-01-02 03:04": "2024-01-02 03:04:00",
}


@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_digits_beyond_microseconds_go_as_declared(kind: str, spark: SparkSession) -> None:
    """Rounded values stay within the years of a timestamp; quarantined texts have no value."""
    frame = spark.createDataFrame([(text,) for text in ROUNDED], "text string")

    def cast(beyond: BeyondMicroseconds) -> Column:
        return F.expr(exact("text", kind, beyond)).cast("string").alias("value")

    rounded = {row["text"]: row["value"] for row in frame.select("text", cast("round")).collect()}
    kept = {row["text"] for row in frame.select("text", cast("quarantine")).where("value IS NOT NULL").collect()}
    as_text = {row["text"] for row in frame.select("text", cast("text")).where("value IS NOT NULL").collect()}

    assert rounded == ROUNDED
    assert kept == as_text == {"2024-01-02 03:04:05.1234560", "2024-01-02 03:04"}
