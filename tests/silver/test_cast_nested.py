"""NOTHING-LOST inside of JSON: a nested value is exactly what its text says, or the record goes to quarantine."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from frazil.silver.cast import exact, field_left_out, why_not

CASES: Final[list[tuple[str, str, Any]]] = [
    ("array<bigint>", "[1, 9007199254740993, null]", [1, 9007199254740993, None]),
    ("array<bigint>", "[]", []),
    ("array<string>", '["a", "b \\"c\\"", "null", null, ""]', ["a", 'b "c"', "null", None, ""]),
    ("array<array<int>>", "[[1], [], null]", [[1], [], None]),
    ("array<decimal(30,2)>", '[9007199254740993.01, "1.5"]', [Decimal("9007199254740993.01"), Decimal("1.50")]),
    ("array<double>", '[1.5, 1e3, "NaN"]', [1.5, 1000.0, "NaN"]),
    ("struct<a:int,b:string>", '{"b": "x", "a": 7, "c": 1}', {"a": 7, "b": "x"}),
    ("struct<a:int,b:string>", "{}", {"a": None, "b": None}),
    ("struct<a:int,b:string>", '{"A": 7, "b": null}', {"a": None, "b": None}),
    ("struct<a:struct<b:array<int>>>", '{"a": {"b": [1, 2]}}', {"a": {"b": [1, 2]}}),
    ("struct<order:string>", '{"order": "\\ud83d\\ude00"}', {"order": "\U0001f600"}),
    (
        "array<struct<sku:string,price:decimal(12,2)>>",
        '[{"sku": "a", "price": 1.50}]',
        [{"sku": "a", "price": Decimal("1.50")}],
    ),
]
PRINTED: Final[list[tuple[str, str, Any]]] = [
    ("array<int>", "{1,NULL,3}", [1, None, 3]),
    ("array<int>", "{}", []),
    ("array<int>", "[0:1]={7,8}", [7, 8]),
    ("array<array<int>>", "{{1,2},{3,NULL}}", [[1, 2], [3, None]]),
    ("array<array<int>>", "[-1:0][2:3]={{1,2},{3,4}}", [[1, 2], [3, 4]]),
    ("array<string>", '{"a,b",NULL,"NULL",null,"",plain}', ["a,b", None, "NULL", None, "", "plain"]),
    ("array<string>", r'{"say \"hi\"","back\\slash","{}","\\u0041"}', ['say "hi"', "back\\slash", "{}", "\\u0041"]),
    ("array<string>", '{"two\nlines","tab\t\x01","ünï 😀"}', ["two\nlines", "tab\t\x01", "ünï 😀"]),
    ("array<boolean>", "{t,f}", [True, False]),
    ("array<double>", "{NaN,1e-07}", ["NaN", 1e-07]),
    ("array<decimal(30,2)>", "{9007199254740993.01}", [Decimal("9007199254740993.01")]),
    ("array<binary>", r'{"\\x00ff"}', ["00FF"]),
]
"""Arrays as PostgreSQL prints them."""

WRONG: Final[list[tuple[str, str, str]]] = [
    ("array<int>", "[1, 1.5]", "$[1] is 1.5"),
    ("array<int>", "[1, 3000000000]", "$[1] is 3000000000"),
    ("array<int>", '{"a": 1}', '$ is {"a":1}'),
    ("array<int>", "5", "$ is 5"),
    ("array<int>", "[1] x", "no JSON"),
    ("array<int>", "[1],[2", "no JSON"),
    ("array<int>", "[1,]", "no JSON"),
    ("array<int>", "", "no JSON"),
    ("array<int>", "[" * 5000, "no JSON"),
    ("array<string>", "[1e400]", "$[0] is Infinity"),
    ("array<double>", "[1e400]", "$[0] is Infinity"),
    ("array<decimal(12,2)>", "[1.005]", "$[0] is 1.005"),
    ("array<decimal(38,0)>", "[" + "9" * 39 + "]", "$[0] is 1.0E39"),
    ("array<timestamp>", '["now"]', "$[0] is now"),
    ("struct<a:int>", '{"a": 1, "a": 2}', "no JSON"),
    ("struct<a:int>", '{"a": 1}}{', "no JSON"),
    ("struct<a:int>", '{"a": 01}', "no JSON"),
    ("struct<a:int>", '{"a": NaN}', "no JSON"),
    ("struct<a:int>", "[1]", "$ is [1]"),
    ("struct<a:struct<b:array<int>>>", '{"a": {"b": [1, "x"]}}', "$.a.b[1] is x"),
    ("array<int>", "{1,x}", "$[1] is x"),
    ("array<int>", "{{1}}", '$[0] is ["1"]'),
    ("array<int>", "{1,,2}", "no JSON"),
    ("array<int>", "{1,2", "no JSON"),
    ("array<int>", "{1}}", "no JSON"),
    ("array<int>", "{1},{2}", "no JSON"),
    ("array<string>", '{"a}', "no JSON"),
    ("array<string>", r'{"\n"}', "no JSON"),
    ("array<string>", r"{a\b}", "no JSON"),
    ("array<string>", '{a"b"}', "no JSON"),
    ("struct<a:int>", "{1,2}", "no JSON"),
]


@pytest.fixture(scope="module", params=["ansi", "lenient"])
def session(spark: SparkSession, request: pytest.FixtureRequest) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", f"{request.param == 'ansi'}".lower())
    return session


def cast(session: SparkSession, kinds: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the value and the report of each text, all in one job."""
    frames = session.createDataFrame([(number, text) for number, (_, text) in enumerate(kinds)], "n int, text string")
    columns = []
    for kind in dict.fromkeys(kind for kind, _ in kinds):
        of_kind = " OR ".join(f"n = {number}" for number, (other, _) in enumerate(kinds) if other == kind)
        columns.append(F.expr(f"CASE WHEN {of_kind} THEN {exact('text', kind)} END").alias(kind))
        columns.append(F.expr(f"CASE WHEN {of_kind} THEN {why_not('text', kind)} END").alias(f"why {kind}"))
    table = frames.select("n", *columns)
    assert {name: table.schema[name].dataType.simpleString() for name, _ in kinds} == {name: name for name, _ in kinds}
    rows = sorted(table.toArrow().to_pylist(), key=lambda row: row["n"])
    return [{"value": row[kind], "why": row[f"why {kind}"]} for row, (kind, _) in zip(rows, kinds, strict=True)]


@pytest.mark.long
def test_a_nested_value_is_exactly_what_its_text_says(session: SparkSession) -> None:
    found = cast(session, [(kind, text) for kind, text, _ in CASES])

    assert [repr(one["value"]).replace("nan", "'NaN'") for one in found] == [repr(value) for *_, value in CASES]


def test_a_wrong_nested_value_nullifies_the_whole_and_is_reported_with_its_place(session: SparkSession) -> None:
    found = cast(session, [(kind, text) for kind, text, _ in WRONG])

    assert found == [{"value": None, "why": why} for *_, why in WRONG]


@pytest.mark.long
def test_an_array_is_read_as_postgresql_prints_it(session: SparkSession) -> None:
    found = cast(session, [(kind, text) for kind, text, _ in PRINTED])

    for one, (_, text, value) in zip(found, PRINTED, strict=True):
        have = [item.hex().upper() if isinstance(item, bytes) else item for item in one["value"] or ["none"]]
        assert repr(have if text != "{}" else one["value"]).replace("nan", "'NaN'") == repr(value), text


LEFT_OUT: Final[list[tuple[str, str, str | None]]] = [
    ("struct<a:int,b:string>", '{"a": 1, "b": null}', None),
    ("struct<a:int,b:string>", '{"a": 1, "c": null}', ".c"),
    ("struct<a:int,b:string>", '{"A": 1}', ".A"),
    ("struct<a:struct<b:array<int>>>", '{"a": {"b": [1], "c": 1}}', ".a.c"),
    ("array<struct<a:struct<b:int>>>", '[null, {"a": {"b": 1}}, {"a": {"x": 1}}]', "[].a.x"),
    ("array<struct<a:struct<b:int>>>", "[1]", None),
    ("struct<a:int>", "no JSON", None),
]


def test_a_field_outside_the_type_is_reported(session: SparkSession) -> None:
    rows = session.createDataFrame(
        [(number, text) for number, (_, text, _) in enumerate(LEFT_OUT)], "n int, text string"
    )
    told = [
        f"CASE WHEN n = {number} THEN {field_left_out('text', kind)} END" for number, (kind, *_) in enumerate(LEFT_OUT)
    ]

    found = rows.selectExpr("n", f"coalesce({', '.join(told)}) AS told").collect()

    assert {row["n"]: row["told"] for row in found} == {number: path for number, (*_, path) in enumerate(LEFT_OUT)}
