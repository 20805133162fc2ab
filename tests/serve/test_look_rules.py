"""``frazil test``: the rules over the rows that marts have, and the two compilers of a rule beside each other."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import duckdb
import pytest
from pyspark.sql import functions as F
from tests.hostile.situation import command

import frazil
from frazil import api
from frazil.serve.check.rules import Duck
from frazil.serve.check.rules import test_rules as held
from frazil.silver.rules import RowRule, Spark, breaks
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DECLARATION = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing, header: true, settle_seconds: 0}}
    keys: [id]
    columns: [{{name: id, type: int}}, {{name: n, type: int{column}}}, {{name: note}}]
    {rules}
    {marts}
"""
MARTS = "marts: [{kind: current, name: gone, deletes: soft}, {kind: current}]"
RULES = """rules:
      - {name: small, expr: "12 % n < 3", on_violation: warn}
      - {name: noted, expr: "note rlike '^\\\\w+$'", on_violation: fail}
      - {name: strange, expr: "soundex(note) = 'I200'", on_violation: warn}"""


def declare(folder: Path, column: str = "", rules: str = "", marts: str = MARTS) -> None:
    text = DECLARATION.format(column=column, rules=rules, marts=marts)
    (folder / "frazil.yml").write_text(text, encoding="utf-8")


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Path:
    """Rows that came before the rules; 3 is deleted."""
    del spark  # only there so that Java runs
    (tmp_path / "landing").mkdir()
    rows = ["op,id,n,note", "I,1,3,ice", "I,2,NULL,snow", "I,3,-5,a b", "D,3,-5,a b", "I,4,-7,x y", "I,5,9,"]
    (tmp_path / "landing" / "20260101-000000000.csv").write_text("\n".join([*rows, ""]))
    declare(tmp_path)
    pipeline = frazil.load(tmp_path)
    frazil.run(pipeline, spark=spark_session(pipeline))
    return tmp_path


def test_rules_are_held_against_living_rows_and_name_keys(shop: Path) -> None:
    declare(shop, ", min: -6, nullable: false, on_violation: fail", RULES)
    found = {(one.rule, one.column): (one.rows, one.broken, one.ok) for one in api.test(shop)}

    assert found == {
        ("not_null", "n"): (4, 1, False),
        ("min", "n"): (4, 1, False),
        ("small", None): (4, 2, None),
        ("noted", None): (4, 1, False),
        ("strange", None): (0, None, None),
    }
    assert [one.rule for one in api.test(shop)] == ["not_null", "min", "small", "noted", "strange"]
    details = {one.rule: one.detail for one in api.test(shop)}
    assert details["not_null"] == "id = 2"
    assert details["noted"] == "id = 4"
    assert details["strange"].startswith("DuckDB cannot test it: ")
    assert {one.table for one in api.test(shop)} == {"marts.gone"}


WHOLE = """rules:
      - {name: one_note, unique: [note], on_violation: warn}
      - {name: one_pair, unique: [n, note]}
      - {name: known, references: {columns: [n], to: others}, on_violation: warn}
      - {name: size, row_count: {min: 5}}
      - {name: steps, row_count: {max_increase_fraction: 0.5}}
      - {name: recent, freshness: {warn_after: {count: 1, period: hour}, error_after: {count: 1, period: day}}}"""

OTHERS = f"""{MARTS}
  - name: others
    source: {{kind: dms, path: ./others, header: true, settle_seconds: 0}}
    keys: [n]
    columns: [{{name: n, type: bigint}}, {{name: day, type: date}}]
    rules: [{{name: dated, freshness: {{column: day, warn_after: {{count: 2, period: day}}}}}}]"""


@pytest.mark.laws
def test_rules_of_whole_marts_are_held_against_living_rows(shop: Path) -> None:
    """3, whose note 4 would share, is deleted; rows with NULL share nothing and refer to nothing."""
    landing = shop / "landing"
    (landing / "20260102-000000000.csv").write_text("op,id,n,note\nI,6,7,snow\nI,7,,a b\nI,8,3,ice\nI,9,,\n")
    (shop / "others").mkdir()
    (shop / "others" / "20260101-000000000.csv").write_text("op,n,day\nI,3,2026-01-01\nI,9,\nI,7,\nD,7,\n")
    declare(shop, marts=OTHERS)
    pipeline = frazil.load(shop)
    frazil.run(pipeline, spark=spark_session(pipeline))
    declare(shop, rules=WHOLE, marts=OTHERS)

    def found(**later: float) -> dict[str, tuple[int, int | None, bool | None, str, str]]:
        now = datetime.now(UTC) + timedelta(**later)
        tests = held(frazil.load(shop), now=now)
        return {one.rule: (one.rows, one.broken, one.ok, one.on_violation, one.detail) for one in tests}

    now = found()
    assert now["one_note"] == (8, 4, None, "warn", "id = 1; id = 2; id = 6")
    assert now["one_pair"] == (8, 2, False, "fail", "id = 1; id = 8")
    assert now["known"] == (8, 2, None, "warn", "id = 4; id = 6")
    assert now["size"] == (8, 0, True, "fail", "")
    assert now["steps"] == (8, None, None, "fail", "judged when a batch is taken")
    assert now["recent"] == (8, 0, True, "fail", "")
    assert now["dated"][:4] == (2, 1, None, "warn")
    assert now["dated"][4].startswith("day is ")
    assert found(hours=5)["recent"] == (8, 1, None, "warn", "the last batch is 5 hours old, warn_after is 1 hour")
    assert found(hours=49)["recent"] == (8, 1, False, "fail", "the last batch is 2 days old, error_after is 1 day")


def test_a_history_is_held_to_the_contract_in_every_version(tmp_path: Path, spark: SparkSession) -> None:
    """The earlier row of 1 still counts; the time of 2 is unknown, and 3 is deleted."""
    del spark  # only there so that Java runs
    (tmp_path / "landing").mkdir()
    times = [f"2026-01-0{day} 00:00:00" for day in range(1, 4)]
    rows = ["op,id,at,n", f"I,1,{times[0]},5", "I,2,,1", f"I,3,{times[0]},2", f"U,1,{times[1]},3", f"D,3,{times[2]},2"]
    (tmp_path / "landing" / "20260101-000000000.csv").write_text("\n".join([*rows, ""]))
    declared = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing, header: true, settle_seconds: 0}}
    keys: [id]
    effective_at: at
    columns: [{{name: id, type: int}}, {{name: at, type: timestamp}}, {{name: n, type: int}}]
    rules: [{}]
    marts: [{{kind: history}}, {{kind: current}}]
"""
    (tmp_path / "frazil.yml").write_text(declared.format(""))
    pipeline = frazil.load(tmp_path)
    frazil.run(pipeline, spark=spark_session(pipeline))
    assert not api.test(tmp_path)  # without rules

    rules = "{name: small, expr: 'n < 4', on_violation: warn}, {name: one_number, unique: [n]}"
    (tmp_path / "frazil.yml").write_text(declared.format(rules))
    found = {(one.table, one.rule, one.column): (one.rows, one.broken, one.ok) for one in api.test(tmp_path)}

    assert found == {
        ("marts.orders", "small", None): (2, 0, True),
        ("marts.orders", "one_number", "n"): (2, 0, True),
        ("marts.orders_history", "small", None): (4, 1, None),
        ("marts.orders_history", "not_null", "valid_from"): (4, 1, None),
        ("marts.orders_history", "not_null", "is_current"): (4, 0, True),
        ("marts.orders_history", "not_null", "is_deleted"): (4, 0, True),
        ("marts.orders_history", "current_is_open", None): (4, 0, True),
        ("marts.orders_history", "ends_after_it_begins", None): (4, 0, True),
        ("marts.orders_history", "unique_version", None): (4, 0, True),
        ("marts.orders_history", "one_current_version", None): (2, 0, True),
    }

    # What only somebody else's writing can do.
    session = spark_session(pipeline)
    session.sql(
        "UPDATE lake.marts.orders_history SET is_current = true, valid_from = TIMESTAMP '2026-01-02' WHERE id = 1"
    )
    session.sql("UPDATE lake.marts.orders_history SET valid_to = valid_from - INTERVAL 1 DAY WHERE id = 3")
    broken = {one.rule: one.detail for one in api.test(tmp_path) if one.broken and one.on_violation == "fail"}
    assert broken == {
        "current_is_open": "id = 1",
        "ends_after_it_begins": "id = 3",
        "one_current_version": "id = 1; id = 1",
    }


def test_the_command_ends_with_5_where_a_rule_is_broken(shop: Path) -> None:
    declare(shop, ", min: -6, on_violation: fail")
    said = command("test", f"{shop}")
    assert (said.code, "[FZ404] 0 rules are kept, 1 broken" in said.text) == (5, True)
    assert " ".join(said.text.split()).count("marts.gone min n 4 1 fail id = 4") == 1
    assert json.loads(command("test", f"{shop}", "--json").stdout)[0]["broken"] == 1
    assert command("test", f"{shop}", "--json").code == 5

    declare(shop, ", min: -6, on_violation: warn")
    said = command("test", f"{shop}")
    assert (said.code, "0 rules are kept, 1 broken that only warns" in said.text) == (0, True)

    declare(shop, ", min: -7, on_violation: fail")
    assert command("test", f"{shop}").text == "1 rule is kept\n"
    declare(shop)
    assert "no table has rules and rows" in command("test", f"{shop}").text


VALUES = {
    "int": ["-2147483648", "-1", "0", "7", None],
    "bigint": ["9007199254740993", "9007199254740992", None],
    "decimal(12,2)": ["0.00", "0.01", "-0.01", "9999999999.99", None],
    "double": ["0.1", "-0.0", "1e300", "NaN", "Infinity", None],
    "float": ["0.1", "0.5", "NaN", None],
    "boolean": ["true", "false", None],
    "date": ["2024-02-29", "0001-01-01", "9999-12-31", None],
    "timestamp": ["2024-02-29 10:00:00", "1969-12-31 23:59:59.999999", None],
    "timestamp_ntz": ["2024-02-29 10:00:00", "2024-02-29 10:00:00.000001", None],
    "string": ["", " ", "a", "A", "añ👩‍👩‍👧", "it's \\n", "a\nb", "NULL", None],
}
"""Type -> values that a rule is held against."""

CASES: list[tuple[str, str, list[str]]] = [
    *(("accepted_values", kind, [one for one in some[:2] if one is not None]) for kind, some in VALUES.items()),
    *(
        (name, kind, [value])
        for kind, some in VALUES.items()
        if kind not in {"string", "boolean"}
        for name in ("min", "max")
        for value in some[:2]
        if value
    ),
    *(("min", "decimal(12,2)", [value]) for value in ("0.005", "1e-3", "-1E+9")),
    *(("pattern", "string", [value]) for value in ("^a", "^\\w+$", "'", "\\\\", "^.$", "[añ]", "(?i)^A$")),
    *((name, "string", [value]) for name in ("min_length", "max_length") for value in ("0", "1", "2", "7")),
    *(("not_null", kind, []) for kind in VALUES),
]


@pytest.mark.parametrize("kind", VALUES)
def test_a_rule_means_the_same_to_spark_and_to_duckdb(kind: str, spark: SparkSession) -> None:
    rules = [
        RowRule(name=name, column="v", columns=("v",), on_violation="fail", type=kind, values=tuple(values))
        for name, of, values in CASES
        if of == kind
    ]
    rows = spark.createDataFrame([(value,) for value in VALUES[kind]], "said string")
    typed = rows.select("said", F.col("said").cast(kind).alias("v"))
    by_spark = typed.select("said", *(F.expr(breaks(rule, Spark())) for rule in rules)).collect()
    with duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        value = f"CAST(said AS {'timestamptz' if kind == 'timestamp' else kind.removesuffix('_ntz')})"
        duck.execute("CREATE TABLE rows (said VARCHAR)")
        duck.executemany("INSERT INTO rows VALUES (?)", [(text,) for text in VALUES[kind]])
        columns = ", ".join(breaks(rule, Duck()) for rule in rules)
        by_duck = duck.execute(f"SELECT said, {columns} FROM (SELECT said, {value} AS v FROM rows)").fetchall()

    assert [tuple(row) for row in by_spark] == by_duck
    assert {broken for _, *some in by_duck for broken in some} == {True, False}
