"""Declared rules: every mistake is reported with its place."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

import frazil
from frazil.errors import DeclarationProblems
from frazil.silver.contract import declared
from frazil.spec import Column, Current, DmsFiles, Lake, Pipeline, References, Rule, Table
from frazil.spec.check.rules import is_value
from frazil.spec.sql.sql import referenced_first

if TYPE_CHECKING:
    from pathlib import Path

DECLARATION = """\
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing, header: true}}
    keys: [id]
    columns: [{{name: id, type: int}}, {column}]
    rules: [{rules}]
"""


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ("{name: n, type: int, min: 1.5}", "'1.5', min of column 'n' of table 'orders', is not a valid int"),
        ("{name: n, min: 1}", "min is for numbers and times, and the type of column 'n' of table 'orders' is string"),
        ("{name: n, type: date, max: tomorrow}", "'tomorrow', max of column 'n'"),
        (
            "{name: n, type: int, pattern: a}",
            "pattern is for texts, and the type of column 'n' of table 'orders' is int",
        ),
        ("{name: n, type: int, max_length: 3}", "max_length is for texts"),
        ("{name: n, accepted_values: []}", "accepted_values of column 'n' of table 'orders' has no value"),
        ("{name: n, type: boolean, accepted_values: [true, 1]}", "'1', one of accepted_values of column 'n'"),
        ("{name: n, type: binary, accepted_values: [a]}", "accepted_values is for values that can be written"),
        ("{name: n, on_violation: warn}", "column 'n' of table 'orders' has no rule that could be violated"),
        ("{name: n, min_length: -1}", "of column 'n' of table 'orders' is -1; it must be 0 or more"),
        ("{name: n, nullable: false, on_violation: ignore}", "must be quarantine or warn or fail"),
        ('{name: "*", pattern: a}', "'*' in the columns takes no pattern"),
    ],
)
def test_a_rule_that_its_column_cannot_have_is_a_problem(column: str, said: str, tmp_path: Path) -> None:
    assert said in problems(tmp_path, column=column)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ('{name: Odd, expr: "id > 1"}', "rule 'Odd' of table 'orders': the name is not 1 to 128"),
        ('{name: cast, expr: "id > 1"}', "the name is one of Frazil's own"),
        ('{name: odd, expr: "idd > 1"}', "reads 'idd', which is not one of its columns; did you mean 'id'?"),
        ('{name: odd, expr: "id > now()"}', "function now"),
        ('{name: odd, expr: "id > (select 1)"}', "no subqueries"),
        (
            '{name: odd, expr: "id > 1"}, {name: odd, expr: "id > 2"}',
            "rule 'odd' of table 'orders' is declared 2 times",
        ),
    ],
)
def test_a_rule_over_columns_that_cannot_be_is_a_problem(rules: str, said: str, tmp_path: Path) -> None:
    assert said in problems(tmp_path, rules=rules)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ("{name: odd}", "rule 'odd' of table 'orders' says nothing; give it one of expr, unique, references"),
        ('{name: odd, expr: "id > 1", unique: [n]}', "rule 'odd' of table 'orders' says expr, unique; give it one"),
        ("{name: odd, unique: []}", "unique"),
        ("{name: odd, unique: [nn]}", "names 'nn', which is not one of its columns; did you mean 'n'?"),
        ("{name: odd, unique: [n, n]}", "names 'n' twice"),
        (
            "{name: odd, unique: [n], on_violation: quarantine}",
            "unique is not a matter of one record, so no record goes to quarantine by it; write on_violation: fail",
        ),
        ("{name: odd, row_count: {}}", "has no bound; give it one of min, max, max_decrease_fraction"),
        ("{name: odd, row_count: {min: 3, max: 2}}", "min 3 is more than max 2"),
        ("{name: odd, freshness: {}}", "has no age; give it warn_after, error_after or both"),
        (
            "{name: odd, freshness: {warn_after: {count: 2, period: day}, error_after: {count: 47, period: hour}}}",
            "warn_after (2 days) is later than error_after (47 hours)",
        ),
        (
            "{name: odd, freshness: {column: n, warn_after: {count: 1, period: day}}}",
            "'n' must be a date or a time, and its type is string",
        ),
        (
            "{name: odd, freshness: {warn_after: {count: 1, period: day}}, on_violation: fail}",
            "on_violation has no use, since warn_after and error_after say what it does",
        ),
        ("{name: odd, references: {columns: [n], to: order}}", "'order', which is not a mart; did you mean 'orders'?"),
        ("{name: odd, references: {columns: [n, id], to: orders}}", "columns has 2, the key of 'orders' has 1: id"),
        ("{name: odd, references: {columns: [n], to: orders}}", "'n' is string, and 'id' of 'orders' int"),
        ("{name: odd, references: {columns: [n], to: orders, fields: [m]}}", "'m', which is not one of the columns"),
        ("{name: odd, references: {columns: [m], to: orders}}", "names 'm', which is not one of its columns"),
    ],
)
def test_a_rule_of_a_whole_mart_that_cannot_be_is_a_problem(rules: str, said: str, tmp_path: Path) -> None:
    assert said in problems(tmp_path, rules=rules)


def test_rules_of_whole_marts_fail_by_default() -> None:
    assert Rule(name="a", unique=("x",)).on_violation == "fail"
    assert Rule(name="a", expr="x > 1").on_violation == "quarantine"


def test_tables_follow_those_that_their_rules_refer_to() -> None:
    def table(name: str, *others: str) -> Table:
        rules = tuple(
            Rule(name=f"to_{other}", references=References(columns=("id",), to=f"{other}_now")) for other in others
        )
        marts = (Current(name=f"{name}_now"),)
        return Table(name=name, source=DmsFiles(path=("x",)), keys=("id",), rules=rules, marts=marts)

    tables = (table("a", "c", "a"), table("b"), table("c", "d"), table("d", "a"), table("e", "b"))
    pipeline = Pipeline(pipeline="p", lake=Lake(warehouse="x"), tables=tables)

    assert referenced_first(pipeline, "eba") == ("b", "e", "a")
    # a, c and d refer to one another in a circle.
    assert referenced_first(pipeline, "abcde") == ("d", "c", "a", "b", "e")


def problems(folder: Path, *, column: str = "{name: n}", rules: str = "") -> str:
    (folder / "frazil.yml").write_text(DECLARATION.format(column=column, rules=rules), encoding="utf-8")
    with pytest.raises(DeclarationProblems) as caught:
        frazil.load(folder)
    return f"{caught.value}"


@pytest.mark.parametrize(
    ("text", "kind", "fits"),
    [
        ("2147483647", "int", True),
        ("2147483648", "int", False),
        ("-9223372036854775808", "bigint", True),
        ("1e3", "decimal(12,2)", True),
        (".5", "double", True),
        ("x", "double", False),
        ("2024-02-29", "date", True),
        ("2023-02-29", "date", False),
        ("20240229", "date", False),
        ("2024-02-29 10:00", "timestamp_ntz", True),
        ("2024-02-29 10:00+02:00", "timestamp_ntz", False),
        ("2024-02-29T10:00:00Z", "timestamp", True),
        ("true", "boolean", True),
        ("t", "boolean", False),
        ("", "string", True),
    ],
)
def test_a_declared_value_is_one_of_its_type(text: str, kind: str, fits: bool) -> None:  # noqa: FBT001
    assert is_value(text, kind) is fits


def test_values_in_python_are_the_texts_of_yaml() -> None:
    column = Column(name="n", min=Decimal("0.10"), max=date(2024, 1, 31), accepted_values=(1, 2.5, True, "x"))  # type: ignore[arg-type]

    assert (column.min, column.max, column.accepted_values) == ("0.10", "2024-01-31", ("1", "2.5", "true", "x"))


def test_only_rules_that_quarantine_decide_what_silver_is_made_of() -> None:
    """Or else a rule that warns would rebuild the table; a declaration without rules has the fingerprint it had."""

    def fingerprint(*, rules: tuple[Rule, ...] = (), **settings: object) -> str:
        column = Column(name="n", type="int", **settings)  # type: ignore[arg-type]
        return declared(
            Table(
                name="t", source=DmsFiles(path=("x",)), keys=("id",), columns=(Column(name="id"), column), rules=rules
            )
        )

    plain, odd = fingerprint(), "n % 2 = 1"
    assert plain == "5ff1449d526ad97b"
    assert fingerprint(min=1, on_violation="warn") == fingerprint(max=3, on_violation="fail") == plain
    assert fingerprint(nullable=False, on_violation="warn") == plain
    assert fingerprint(rules=(Rule(name="odd", expr=odd, on_violation="fail"),)) == plain
    assert fingerprint(rules=(Rule(name="one", unique=("n",)),)) == plain
    others = [fingerprint(min=1), fingerprint(nullable=False), fingerprint(rules=(Rule(name="odd", expr=odd),))]
    assert len({plain, *others}) == 4
