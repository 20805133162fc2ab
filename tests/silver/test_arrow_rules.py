"""Rows that keep a rule in Arrow keep it in Spark; rules that Arrow cannot check alike go to Spark."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F
from tests.silver.test_arrow_types import drawn

from frazil.older_spark import to_arrow
from frazil.runner.batch.driver_batch import spark_frame, spark_types
from frazil.silver.arrow import kept_in_arrow, proven
from frazil.silver.rules import RowRule, Spark, breaks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

USUAL: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "int": {"accepted_values": ("1", "-7"), "min": ("0",), "max": ("100",)},
    "bigint": {"accepted_values": ("0", "9007199254740993"), "min": ("9007199254740993",), "max": ("-1",)},
    "double": {"accepted_values": ("1.5", "0"), "min": ("-0.001",), "max": ("1.5",)},
    "float": {"accepted_values": ("0.1", "-3"), "min": ("0.1",), "max": ("16777217",)},
    "decimal(10,2)": {"accepted_values": ("0", "5.00"), "min": ("-0.5",), "max": ("99999999.98",)},
    "boolean": {"accepted_values": ("true",)},
    "date": {"accepted_values": ("2024-01-31",), "min": ("2024-01-31",), "max": ("2024-04-29",)},
    "timestamp": {"min": ("2024-01-31 03:04:05",), "max": ("2024-01-31T23:59:59.123456Z",)},
    "timestamp_ntz": {"min": ("2024-01-31 03:04:05",), "max": ("2024-01-31T23:59:59.123456",)},
    "string": {
        "accepted_values": ("", "null", "é"),
        "min_length": ("2",),
        "max_length": ("3",),
        "min": ("a",),
        "max": ("null",),
        "pattern": (r"^[a-z]{2,4}$",),
        "not_null": (),
    },
}
SIGNS = "aB1 _-.\n\r\u0085\u2028é😀^$[]{}()|\\"
PIECES = [
    "a",
    "B",
    "1",
    " ",
    "-",
    r"\.",
    r"\d",
    r"\w",
    r"\-",
    "[a-z]",
    "[-a]",
    "[a1.-]",
    r"[\w.]",
    "(",
    "(?:",
    ")",
    "|",
]
REPEATS = ["", "", "*", "+", "?", "{2}", "{1,}", "{0,2}"]
UNALIKE = [
    ".",
    "[^a]",
    r"\D",
    r"\W",
    r"\s",
    r"\b",
    "(?i)a",
    "a++",
    "a*?",
    "a{,3}",
    "a$b",
    "a^b",
    "^*",
    r"\Q.\E",
    "(?=a)",
]
UNALIKE += [r"[a-\d]", r"[\w-z]", "[a&&b]", "[[:alpha:]]", r"\p{L}", "[]a]", "é", "(?<n>a)", "(a", "a{2000}"]


def rule_of(name: str, kind: str, *values: str) -> RowRule:
    return RowRule(name=name, column="v", columns=("v",), on_violation="quarantine", type=kind, values=values)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in USUAL.items() for name in names], ids=lambda one: one
)
@pytest.mark.spark
def test_arrow_and_spark_judge_alike(spark: SparkSession, kind: str, name: str) -> None:
    rule = rule_of(name, kind, *USUAL[kind][name])
    texts = [*drawn(kind, 300), *USUAL[kind][name], None]
    if kind == "string":
        choice = random.Random(name)
        texts += ["".join(choice.choices(SIGNS, k=choice.randrange(6))) for _ in range(200)]
    values, is_proven = proven(pa.array(texts, pa.string()), kind)
    values = values.filter(is_proven)
    keeps = kept_in_arrow(rule)
    assert keeps is not None

    told = judged(spark, rule, values)

    unlike = [
        (value, kept, broken)
        for value, kept, broken in zip(values.to_pylist(), keeps(values).to_pylist(), told, strict=True)
        if kept == broken
    ]
    # In a list Arrow tells -0.0 from 0.0; Spark, which does not, is asked then.
    assert [one for one in unlike if one != (0.0, False, False)] == []
    assert {*told} == {True, False}


@pytest.mark.spark
def test_arrow_and_java_find_the_same_patterns(spark: SparkSession) -> None:
    choice, judged_here, found = random.Random(0), 0, 0
    texts = pa.array(["".join(choice.choices(SIGNS, k=choice.randrange(6))) for _ in range(400)])
    rules = []
    for _ in range(400):
        middle = "".join(choice.choice(PIECES) + choice.choice(REPEATS) for _ in range(choice.randrange(1, 4)))
        rules.append(rule_of("pattern", "string", choice.choice(["", "^"]) + middle + choice.choice(["", "$"])))
    frame = spark_frame(spark, pa.table({"v": texts}))
    mine = [(rule, keeps) for rule in rules if (keeps := kept_in_arrow(rule)) is not None]
    told = to_arrow(frame.select(*(F.expr(breaks(rule, Spark())).alias(f"r{at}") for at, (rule, _) in enumerate(mine))))
    for at, (rule, keeps) in enumerate(mine):
        kept = keeps(texts)
        judged_here, found = judged_here + 1, found + (pc.sum(kept).as_py() or 0)
        wrong = texts.filter(pc.and_(kept, told[f"r{at}"].combine_chunks())).to_pylist()
        assert not wrong, (rule.values, wrong)

    assert judged_here > 100
    assert found > 1000


def judged(spark: SparkSession, rule: RowRule, values: pa.Array) -> list[bool]:
    frame = spark_frame(spark, pa.table({"v": values}), spark_types({"v": rule.type}))
    return [row[0] for row in frame.select(F.expr(breaks(rule, Spark()))).collect()]


@pytest.mark.parametrize("pattern", UNALIKE)
def test_a_pattern_that_engines_may_read_otherwise_is_left_to_spark(pattern: str) -> None:
    assert kept_in_arrow(rule_of("pattern", "string", pattern)) is None


@pytest.mark.parametrize("pattern", [r"^[A-Z]{2}\d{4}$", r"^[\w.+-]+@[\w-]+\.[a-z]{2,}$", "^(new|paid)$", "a b"])
def test_usual_patterns_are_not(pattern: str) -> None:
    assert kept_in_arrow(rule_of("pattern", "string", pattern)) is not None


@pytest.mark.parametrize(
    ("kind", "value"), [("int", "1e2"), ("date", "infinity"), ("binary", "00"), ("decimal(10,2)", "0.005")]
)
def test_a_bound_of_an_unusual_form_is_left_to_spark(kind: str, value: str) -> None:
    assert kept_in_arrow(rule_of("min", kind, value)) is None
