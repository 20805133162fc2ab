"""Helpers for the tests of ``check --source``: values of every type, a run, and the finding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import frazil
from frazil import api
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.serve.check.finding import Finding
    from frazil.spec import Pipeline

TYPES = {
    "flag": ("boolean", ("true", "false")),
    "small": ("smallint", ("-32768", "0", "7")),
    "whole": ("int", ("-2147483648", "100", "2147483647")),
    "big": ("bigint", ("9007199254740993", "-9223372036854775808", "1000")),
    "price": ("numeric(12,2)", ("0.00", "-0.50", "100.00", "1234567890.12", "10")),
    "share": ("numeric(2,2)", ("0.5", "-0.05", "0")),
    "count": ("numeric(38,0)", ("99999999999999999999999999999999999999", "100", "0")),
    "loose": ("numeric", ("1.50", "1e30", "0.000")),
    "single": ("real", ("0.1", "-0", "1e30", "NaN", "Infinity", "1e-40")),
    "twice": ("double precision", ("0.1", "-0", "1e15", "1e300", "NaN", "-Infinity", "5e-324", "123456789.123456789")),
    "name": ("text", ("''", "'|'", "'a|1:b'", "'0:'", "'añ👩‍👩‍👧 ñ'", "E'tab\\tline\\n'", "'NULL'")),
    "code": ("varchar(20)", ("'x'", "' x '")),
    "padded": ("char(5)", ("'ab'", "'abcde'", "''")),
    "day": ("date", ("'0001-01-01'", "'2024-02-29'", "'9999-12-31'")),
    "moment": (
        "timestamptz",
        (
            "'2024-01-01 00:00:00+02'",
            "'1969-12-31 23:59:59.999999Z'",
            "'0001-01-01 00:00:00.1Z'",
            "'2024-06-01 12:30Z'",
        ),
    ),
    "wall": ("timestamp", ("'2024-01-01 00:00:00.5'", "'1600-01-01'", "'9999-12-31 23:59:59.999999'")),
    "bytes": ("bytea", (r"'\x'", r"'\x00ff'", r"'\xAB'")),
    "id2": ("uuid", ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",)),
    "doc": ("jsonb", ("""'{"b": 1, "a": [1, 2]}'""", "'null'")),
    "list": ("int[]", ("'{1,NULL,3}'", "'{}'")),
    "lapse": ("interval", ("'1 day 2 hours'", "'-1 month'")),
}
"""Column -> its type, and values that are easily written in two ways."""


def found(pipeline: Pipeline, **asked: Any) -> Finding:
    [finding] = api.check_source(pipeline, **asked)
    return finding


def run(folder: Path) -> Pipeline:
    pipeline = frazil.load(folder)
    frazil.run(pipeline, spark=spark_session(pipeline))
    return pipeline


def literal(kind: str, text: str) -> str:
    return f"{text if text.startswith((chr(39), 'E')) else chr(39) + text + chr(39)}::{kind}"
