"""Names of a declaration are held against the fields that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from frazil.plan.checks import name_problems
from frazil.serve.schema import known_sources
from frazil.silver.contract import settle
from frazil.sources.kinds import source_of
from frazil.spec import Pipeline

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = {"op": "string", "id": "string", "ts": "string", "City": "string", "is_deleted": "string"}


def pipeline(**table: Any) -> Pipeline:
    gold = table.pop("gold", "select 1 as one")
    declared = {
        "name": "hosts",
        "source": {"kind": "dms", "path": "./landing", "header": True},
        "keys": ["id"],
        "columns": [{"name": "id", "type": "int"}, "*"],
        **table,
    }
    text = {"pipeline": "p", "lake": {"warehouse": "l"}, "tables": [declared], "gold": [{"name": "g", "sql": gold}]}
    return Pipeline.model_validate(text)


def told(fields: dict[str, str], **table: Any) -> list[str]:
    declared = pipeline(**table)
    contract = settle(declared.tables[0], fields)
    return [str(problem) for problem in name_problems(declared, {"hosts": contract} if fields else {})]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (
            {"columns": [{"name": "id"}, {"name": "x", "expr": "upper(ciyt)"}]},
            "reads 'ciyt', which is not a field; did you mean 'City'?",
        ),
        (
            {"columns": [{"name": "id"}, {"name": "x", "expr": "user"}]},
            "reads 'user', which is not a field; known are op, id",
        ),
        ({"keys": ["ID"]}, "keys of table 'hosts' names 'ID', which is not one of its columns; did you mean 'id'?"),
        ({"sequence_by": ["tz"]}, "sequence_by of table 'hosts' names 'tz'"),
        ({"effective_at": "when"}, "effective_at of table 'hosts' names 'when'"),
        ({"marts": [{"kind": "current", "sort_by": ["town"]}]}, "sort_by of table 'hosts' names 'town'"),
        (
            {"marts": [{"kind": "current", "partition_by": ["bucket(2, town)"]}]},
            "partition_by of table 'hosts' names 'town'",
        ),
        (
            {"marts": [{"kind": "history", "track_history_columns": ["is_deleted"]}]},
            "a field of this name is called 'source_is_deleted'",
        ),
        (
            {"gold": "select ciyt from {{ hosts }}"},
            "sql of gold 'g': 'ciyt' is no column of what it reads; did you mean 'City'?",
        ),
        ({"gold": "select h.town from {{ hosts }} as h"}, "sql of gold 'g': 'town' is no column of what it reads"),
        ({"gold": "select x.id from {{ hosts }} as h"}, "sql of gold 'g': 'x.id' is no column of what it reads"),
        ({"gold": "select id from {{ hosts }} as a, {{ hosts }} as b"}, "'id' is a column of more than one table"),
    ],
)
def test_an_unknown_name_has_the_nearest_name_as_a_hint(table: dict[str, Any], problem: str) -> None:
    assert problem in " ".join(told(FIELDS, **table))


@pytest.mark.parametrize(
    "table",
    [
        {"columns": [{"name": "id"}, {"name": "x", "expr": "upper(CITY) || `City`"}]},
        {
            "marts": [{"kind": "history", "sort_by": ["is_deleted"], "partition_by": ["year(valid_from)"]}],
            "effective_at": "ts",
        },
        {"gold": "select city, count(*) as n, current_date, user from {{ hosts }} group by all"},
        {"gold": "with hosts as (select id from {{ hosts }}) select hosts.id from hosts"},
        {
            "gold": "select hosts.`_cdc_row` from {{ hosts }} "
            "where exists (select 1 from {{ hosts }} o where o.id = hosts.id)"
        },
        {"gold": "select c from {{ hosts }} lateral view explode(split(city, '')) t as c"},
        {"gold": "select transform(split(city, ''), x -> x || id) as a from {{ hosts }} order by a"},
        {"gold": "select id + 1 as b, b * 2 as c from {{ hosts }}"},
    ],
)
def test_a_name_of_something_is_not(table: dict[str, Any]) -> None:
    assert told(FIELDS, **table) == []


def test_names_are_not_checked_without_known_fields() -> None:
    assert told({}, columns=[{"name": "id"}, {"name": "x", "expr": "nosuch"}]) == []


def test_the_fields_are_those_of_bronze_and_of_all_new_files() -> None:
    table = pipeline().tables[0]

    known = source_of(table).known_fields({"op": "string", "id": "string"}, [(("ID", "string"), ("new", "bigint"))])

    assert known == {"op": "string", "id": "string", "new": "bigint"}
    assert source_of(table).known_fields({}, []) == {}


def test_the_fields_of_files_without_header_are_the_declared_ones() -> None:
    source = {"kind": "dms", "path": "./landing", "fields": ["id", "b"]}

    known = source_of(pipeline(source=source).tables[0]).known_fields({}, [()])

    assert known == {"op": "string", "id": "string", "b": "string"}


def test_validate_looks_at_the_headers_of_all_files_or_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.csv").write_text("op,id,City\n", encoding="utf-8")
    (tmp_path / "landing" / "2.csv").write_text("op,id,w\nI,1,2\n", encoding="utf-8")
    declared = pipeline().at(tmp_path)

    assert dict(known_sources(declared)[0]["hosts"].fields) == dict.fromkeys(("op", "id", "City", "w"), "string")

    (tmp_path / "landing" / "3.csv").write_bytes(b"\xff\xfe\x00")
    assert known_sources(declared)[0] == {}
