"""What other tools are told of the marts, and what is read of a data contract."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.hostile.situation import command

from frazil import api
from frazil.interop.from_odcs import NoContractError
from frazil.spec.parse import load, parse

STANDARD = json.loads((files("open_data_contract_standard") / "schema.json").read_text(encoding="utf-8"))
SHOP = Path(__file__).parents[2] / "examples" / "shop"
DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: dms, path: ./landing/orders, header: true}
    keys: [shop, id]
    columns:
      - {name: shop, type: string}
      - {name: id, type: bigint}
      - {name: status, type: string, nullable: false, accepted_values: [new, "it's; paid", "no"]}
      - {name: code, type: string, pattern: "^[A-Z]{2}#$", min_length: 3, max_length: 3}
      - {name: size, type: int, accepted_values: [1, 2], on_violation: warn}
      - {name: total, type: "decimal(12,2)", min: 0, max: 99.5}
      - {name: on_day, type: date, min: 2020-01-01}
    rules:
      - {name: small, expr: "total < 10 OR status <> 'new'", on_violation: warn}
      - {name: known, expr: "code IS NOT NULL"}
"""


def test_a_contract_is_one_of_the_standard() -> None:
    for declaration in (SHOP, parse(DECLARATION)):
        exported = api.export(declaration, "odcs")

        assert [error.message for error in jsonschema.Draft201909Validator(STANDARD).iter_errors(exported)] == []


def test_what_is_exported_is_what_is_declared_from_it(tmp_path: Path) -> None:
    before = parse(DECLARATION)
    path = tmp_path / "orders.odcs.yaml"
    path.write_text(yaml.safe_dump(api.export(before, "odcs")), encoding="utf-8")

    made = api.init(tmp_path / "project", source=path)

    after = load(made.declaration).tables[0]
    assert (after.keys, after.columns, after.rules) == tuple(
        getattr(before.tables[0], name) for name in ("keys", "columns", "rules")
    )
    assert "not taken" not in made.declaration.read_text(encoding="utf-8")


def test_what_cannot_be_taken_of_a_contract_is_said(tmp_path: Path) -> None:
    path = tmp_path / "contract.yaml"
    contract = {
        "schema": [
            {
                "name": "Order Lines",
                "properties": [
                    {"name": "line", "logicalType": "integer", "physicalType": "NUMBER(9)"},
                    {
                        "name": "price",
                        "logicalType": "number",
                        "logicalTypeOptions": {"multipleOf": 0.05, "minimum": 1},
                    },
                    {"name": "when", "physicalType": "timestamptz", "quality": [{"metric": "duplicateValues"}]},
                ],
                "quality": [{"metric": "rowCount", "mustBeGreaterThan": 10}, {"type": "text", "name": "fresh"}],
            },
            {"name": "empty"},
        ]
    }
    path.write_text(yaml.safe_dump(contract), encoding="utf-8")

    text = api.init(tmp_path / "project", source=path).declaration.read_text(encoding="utf-8")

    [table] = load(tmp_path / "project").tables
    assert (table.name, table.keys) == ("order_lines", ("line",))
    assert [column.type for column in table.columns or ()] == ["bigint", "decimal(38,9)", "timestamp"]
    for said in ("names no primary key", "multipleOf", "duplicateValues", "not taken: rowCount, fresh"):
        assert said in text


@pytest.mark.parametrize("text", ["", "schema: []", "- a", "{", "schema: [{name: a, properties: []}]"])
def test_a_file_that_is_no_contract_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "contract.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(NoContractError):
        api.init(tmp_path / "project", source=path)
    assert not (tmp_path / "project" / "frazil.yml").exists()


def test_dbt_is_told_of_types_keys_and_rules() -> None:
    pipeline = parse(
        DECLARATION
        + """
    effective_at: on_day
    marts: [{kind: current}, {kind: history, name: versions}]
  - name: hosts
    source: {kind: dms, path: ./landing/hosts, header: true}
    keys: [id]
    sequence_by: [ts]
    columns: [{name: id, type: int}, {name: ts, type: timestamp}]
    marts: [{kind: history}]
gold: [{name: living, sql: "select count(*) as n from {{ orders }}"}]
"""
    )

    marts, gold = api.export(pipeline, "dbt")["sources"]

    tables: dict[str, Any] = {table["name"]: table for table in marts["tables"]}
    columns = {column["name"]: column for column in tables["orders"]["columns"]}
    assert (marts["database"], marts["schema"], [*tables]) == ("lake", "marts", ["orders", "versions", "hosts_history"])
    assert columns["id"] == {"name": "id", "data_type": "bigint", "data_tests": ["not_null"]}
    assert columns["status"]["data_tests"] == [
        "not_null",
        {"accepted_values": {"arguments": {"values": ["new", "it's; paid", "no"]}}},
    ]
    sizes = {"arguments": {"values": ["1", "2"], "quote": False}, "config": {"severity": "warn"}}
    assert columns["size"]["data_tests"] == [{"accepted_values": sizes}]
    kept = [(rule["name"], rule["on_violation"]) for rule in tables["orders"]["config"]["meta"]["rules"]]
    assert kept == [
        *(("pattern", "quarantine"), ("min_length", "quarantine"), ("max_length", "quarantine")),
        *(("min", "quarantine"), ("max", "quarantine"), ("min", "quarantine")),
        *(("small", "warn"), ("known", "quarantine")),
    ]
    first = tables["hosts_history"]["columns"][0]
    assert first["data_tests"] == [{"unique": {"config": {"where": "is_current"}}}, "not_null"]
    assert [table["name"] for table in gold["tables"]] == ["living"]


def test_the_command_writes_yaml_or_json(tmp_path: Path) -> None:
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")

    said = command("export", "odcs", f"{tmp_path}")
    as_json = command("export", "odcs", f"{tmp_path}", "--json")
    command("export", "odcs", f"{tmp_path}", "--to", f"{tmp_path / 'out.yaml'}")

    assert yaml.safe_load(said.stdout) == json.loads(as_json.stdout) == api.export(tmp_path, "odcs")
    assert (tmp_path / "out.yaml").read_text(encoding="utf-8") == said.stdout
