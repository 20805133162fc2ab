"""Arrow proves the same values as Spark, and nothing for invalid texts."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.silver.test_cast import EXACT, NONE

from frazil.silver.arrow import is_provable, proven
from frazil.silver.cast import exact
from frazil.spec.model.types import TIMES, BeyondMicroseconds

TYPES = [kind for kind in EXACT if is_provable(kind)]
USUAL = {
    "int": ["0", "7", "-7", "1999999999"],
    "bigint": ["0", "-1", "8999999999999999999", "-8999999999999999999", "9007199254740993"],
    "double": ["0", "1.5", "-0.001", "123456789012345.123456789012345", "-0.0"],
    "float": ["0.1", "16777217", "-3"],
    "decimal(10,2)": ["0", "5", "-0.5", "99999999.99", "-99999999.9"],
    "decimal(30,2)": ["9007199254740993.01", "9999999999999999999999999999.99"],
    "decimal(38,0)": ["9" * 38, "-" + "9" * 38],
    "decimal(38,38)": ["0." + "9" * 38, "0"],
    "boolean": ["true", "false"],
    "date": ["2024-01-31", "2024-04-30", "1000-12-28", "2024-01-31 00:00:00", "2024-01-31T00:00:00.000000"],
    "timestamp": [
        "2024-01-31 03:04:05",
        "2024-01-31T23:59:59.123456Z",
        "2999-12-31 00:00:00.1+17:59",
        "2024-06-30T00:00:00-0330",
        "2024-06-30T00:00:00.1234567-03:30",
    ],
    "timestamp_ntz": ["2024-01-31 03:04:05", "2024-06-30T00:00:00.000001", "2024-06-30T00:00:00.123456789"],
    "string": ["", " a ", "null"],
}
SIGNS = "0123456789.-+: TZeE/"


def drawn(kind: str, count: int) -> list[str]:
    """Return usual texts of a type, and such with a sign or two put in, out, or in another's place."""
    choice = random.Random(kind)
    found = []
    for _ in range(count):
        text = choice.choice([*USUAL[kind], *EXACT[kind]])
        for _ in range(choice.randrange(3)):
            at = choice.randrange(len(text) + 1)
            text = text[:at] + choice.choice(["", choice.choice(SIGNS)]) + text[at + choice.randrange(2) :]
        found.append(text)
    return found


def test_usual_texts_are_proven() -> None:
    left = {
        kind: [text for text in texts if not proven(pa.array([text]), kind, "truncate")[1][0].as_py()]
        for kind, texts in USUAL.items()
    }

    assert not any(left.values()), left


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind in NONE])
def test_an_invalid_text_has_no_proven_value(kind: str) -> None:
    values, is_proven = proven(pa.array(NONE[kind]), kind, "truncate")

    assert pc.sum(is_proven).as_py() in {0, None}
    assert values.null_count == len(values)


@pytest.mark.parametrize("kind", TYPES)
def test_null_is_a_proven_null(kind: str) -> None:
    values, is_proven = proven(pa.array([None, None], pa.string()), kind)

    assert values.to_pylist() == [None, None]
    assert is_proven.to_pylist() == [True, True]


WAYS: tuple[BeyondMicroseconds, ...] = ("truncate", "round", "quarantine")


@pytest.mark.parametrize("beyond", WAYS)
def test_a_proven_value_is_the_one_that_spark_casts(beyond: BeyondMicroseconds, spark: SparkSession) -> None:
    session = spark.newSession()
    kinds = TYPES if beyond == "truncate" else [kind for kind in TYPES if kind in TIMES]
    texts = {kind: [*EXACT[kind], *USUAL[kind], *NONE.get(kind, []), *drawn(kind, 600)] for kind in kinds}
    rows = [(kind, number, text) for kind, some in texts.items() for number, text in enumerate(some)]
    frame = session.createDataFrame(rows, "kind string, number int, text string")
    casts = [F.expr(f"CASE WHEN kind = '{kind}' THEN {exact('text', kind, beyond)} END").alias(kind) for kind in kinds]
    table = frame.select("kind", "number", *casts).toArrow()

    for kind in kinds:
        mine = table.filter(pc.equal(table["kind"], kind)).sort_by("number")
        values, is_proven = proven(pa.array(texts[kind]), kind, beyond)
        spark_values = mine[kind].combine_chunks().cast(values.type)
        assert values.filter(is_proven).equals(spark_values.filter(is_proven)), kind
        assert pc.sum(is_proven).as_py() > len(USUAL[kind])
