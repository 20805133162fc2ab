"""Exports of the marts for other tools, and import of a data contract."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.hostile.situation import command

import frazil
from frazil import api
from frazil.interop.odcs import NoContractError
from frazil.spec.load.parse import load, parse_declaration
from frazil.spec.load.project import UnwritableFileError

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
WHOLE = """
      - {name: one_code, unique: [code], on_violation: warn}
      - {name: one_pair, unique: [code, size]}
      - {name: elsewhere, references: {columns: [total], to: parts}, on_violation: warn}
      - {name: both, references: {columns: [shop, id], to: orders, fields: [shop, id]}}
      - {name: bounds, row_count: {min: 1, max: 10}}
      - {name: most, row_count: {max: 9}, on_violation: warn}
      - {name: exactly, row_count: {min: 3, max: 3}}
      - {name: steps, row_count: {min: 1, max_decrease_fraction: 0.5}, on_violation: warn}
      - {name: taken, freshness: {warn_after: {count: 90, period: minute}, error_after: {count: 1, period: day}}}
      - {name: fresh, freshness: {column: on_day, warn_after: {count: 2, period: day}}}
"""
PARTS = """
  - name: parts
    source: {kind: dms, path: ./landing/parts, header: true}
    keys: [part]
    columns: [{name: part, type: int}, {name: "odd; name"}]
    rules: [{name: odd, unique: ["odd; name"]}, {name: to_odd, references: {columns: ["odd; name"], to: marked}}]
  - name: marks
    source: {kind: dms, path: ./landing/marks, header: true}
    keys: [mark]
    columns: [{name: mark}]
    rules: [{name: few, row_count: {max: 9}}, {name: one_mark, unique: [mark]}]
    marts: [{kind: current, deletes: soft, name: marked}]
"""


def test_a_contract_is_one_of_the_standard() -> None:
    for declaration in (SHOP, parse_declaration(DECLARATION), parse_declaration(DECLARATION + WHOLE + PARTS)):
        exported = api.export(declaration, "odcs")

        assert [error.message for error in jsonschema.Draft201909Validator(STANDARD).iter_errors(exported)] == []


def test_the_shop_has_the_four_contracts_of_its_recipe() -> None:
    """8 columns of the log, 13 of the flattened log and of the current table, and 16 of the history."""
    order = {column.name for column in load(SHOP).tables[0].columns or ()} - {"*", "ingested_at"}

    tables = {table["name"]: table for table in api.export(SHOP, "dbt")["sources"][0]["tables"]}

    columns = {name: {one["name"]: one for one in table["columns"]} for name, table in tables.items()}
    own = {"audit_timestamp", "ingested_at"}  # of the log, and of Frazil
    assert (len(columns["audit_log"]), len(order)) == (8, 13)
    assert columns["orders"].keys() - own == order
    history = columns["orders_history_scd2"]
    assert history.keys() - own - {"is_deleted"} == order | {"valid_from", "valid_to", "is_current"}
    assert [history[name].get("data_tests") for name in ("valid_from", "valid_to", "is_current", "is_deleted")] == [
        [{"not_null": {"config": {"severity": "warn"}}}],
        None,
        ["not_null"],
        ["not_null"],
    ]
    named = {rule["name"] for rule in tables["orders_history_scd2"]["config"]["meta"]["rules"]}
    assert {"current_is_open", "ends_after_it_begins"} <= named
    for name, tests in (("order_id", "unique"), ("status", "accepted_values"), ("customer", "not_null")):
        assert tests in str(columns["orders"][name]["data_tests"])
        assert tests in str(history[name]["data_tests"])


def test_of_a_bitemporal_history_an_open_version_need_not_be_current(tmp_path: Path) -> None:
    declared = (SHOP / "frazil.yml").read_text().replace("{kind: history, ", "{kind: history, bitemporal: true, ")
    (tmp_path / "frazil.yml").write_text(declared)

    tables = {table["name"]: table for table in api.export(tmp_path, "dbt")["sources"][0]["tables"]}

    known = tables["orders_history_scd2"]
    assert {"known_from", "known_to"} <= {one["name"] for one in known["columns"]}
    named = {rule["name"] for rule in known["config"]["meta"]["rules"]}
    assert "ends_after_it_begins" in named
    assert "current_is_open" not in named


def test_what_is_exported_is_what_is_declared_from_it(tmp_path: Path) -> None:
    before = parse_declaration(DECLARATION)
    path = tmp_path / "orders.odcs.yaml"
    path.write_text(yaml.safe_dump(api.export(before, "odcs")), encoding="utf-8")

    made = api.init(tmp_path / "project", source=path)

    after = load(made.declaration).tables[0]
    assert (after.keys, after.columns, after.rules) == tuple(
        getattr(before.tables[0], name) for name in ("keys", "columns", "rules")
    )
    assert "not taken" not in made.declaration.read_text(encoding="utf-8")


def test_rules_of_whole_marts_are_declared_from_what_is_exported(tmp_path: Path) -> None:
    """What the standard has no word for is a custom check of ours; an import has no soft marts."""
    before = parse_declaration(DECLARATION + WHOLE + PARTS)
    path = tmp_path / "orders.odcs.yaml"
    contract = api.export(before, "odcs")
    path.write_text(yaml.safe_dump(contract), encoding="utf-8")

    made = api.init(tmp_path / "project", source=path)

    after = load(made.declaration)
    rules = [{rule.name: rule for rule in one.rules} for one in after.tables]
    for found, table in zip(rules, before.tables, strict=True):
        wanted = {rule.name: rule for rule in table.rules}
        if table.name == "orders":
            wanted["elsewhere"] = frazil.Rule.model_validate(
                {
                    "name": "elsewhere",
                    "references": {"columns": ["total"], "to": "parts", "fields": ["part"]},
                    "on_violation": "warn",
                }
            )
        assert found == wanted
    orders, parts, marked = contract["schema"]
    assert [check.get("metric", check.get("type", "")) for check in orders["quality"]] == [
        *("sql", "sql", "duplicateValues", "rowCount", "rowCount", "rowCount", "custom")
    ]
    assert [(one["from"], one["to"]) for one in orders["relationships"]] == [
        ("orders.total", "parts.part"),
        (["orders.shop", "orders.id"], ["orders.shop", "orders.id"]),
    ]
    assert [(one["value"], one["unit"], one["element"]) for one in contract["slaProperties"]] == [
        (1, "d", "orders"),
        (90, "m", "orders"),
        (2, "d", "orders.on_day"),
    ]
    assert {check["type"] for one in (parts, marked) for check in one["quality"]} == {"custom"}


def test_rules_of_whole_marts_are_taken_from_what_others_write(tmp_path: Path) -> None:
    def check(metric: str, **more: object) -> dict[str, object]:
        return {"metric": metric, **more}

    to = {"relationships": [{"to": "lines.id"}]}
    properties = [
        {"name": "id", "logicalType": "integer", "primaryKey": True},
        {"name": "email", "logicalType": "string", "unique": True},
        {"name": "line", "logicalType": "integer", **to},
        {"name": "text", "logicalType": "string", **to},
        {"name": "away", "logicalType": "integer", "relationships": [{"to": "others.id"}]},
    ]
    quality = [
        check("rowCount", mustBeGreaterThan=10),
        check("rowCount", name="few", mustBeLessThan=100, severity="warning"),
        check("rowCount", name="not", mustNotBe=3),
        check("duplicateValues", arguments={"properties": ["gone"]}, mustBe=0),
        check("duplicateValues", arguments={"properties": ["line", "text"]}, mustBe=0),
    ]
    agreed = [
        {"property": "latency", "value": 4, "unit": "hours", "element": "lines"},
        {"property": "latency", "value": 4, "unit": "lightyears", "element": "lines"},
        {"property": "retention", "value": 4, "unit": "d", "element": "lines"},
    ]
    contract = {"schema": [{"name": "lines", "properties": properties, "quality": quality}], "slaProperties": agreed}
    (tmp_path / "contract.yaml").write_text(yaml.safe_dump(contract), encoding="utf-8")

    made = api.init(tmp_path / "project", source=tmp_path / "contract.yaml")

    [table] = load(made.declaration).tables
    assert [rule.model_dump(mode="json", exclude_unset=True, exclude_none=True) for rule in table.rules] == [
        {"name": "unique_email", "unique": ["email"]},
        {"name": "rows", "row_count": {"min": 11}},
        {"name": "few", "row_count": {"max": 99}, "on_violation": "warn"},
        {"name": "unique_line_text", "unique": ["line", "text"]},
        {"name": "refers_line", "references": {"columns": ["line"], "to": "lines", "fields": ["id"]}},
        {"name": "fresh", "freshness": {"error_after": {"count": 4, "period": "hour"}}},
    ]
    said = made.declaration.read_text(encoding="utf-8")
    assert "# not taken: not, relationship to others.id, unique_gone, refers_text" in said


def test_unsupported_parts_of_a_contract_are_reported(tmp_path: Path) -> None:
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
                "quality": [{"metric": "rowCount", "mustNotBe": 10}, {"type": "text", "name": "fresh"}],
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
def test_a_file_other_than_a_contract_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "contract.yaml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(NoContractError):
        api.init(tmp_path / "project", source=path)
    assert not (tmp_path / "project" / "frazil.yml").exists()


def test_dbt_models_have_types_keys_and_rules() -> None:
    pipeline = parse_declaration(
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


def test_dbt_models_quote_ambiguous_names() -> None:
    text = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: dms, path: ./landing}
    keys: [order]
    columns: [{name: order, type: int}, {name: ship to, type: string, nullable: false}, {name: total, type: int}]
"""
    [source] = api.export(parse_declaration(text), "dbt")["sources"]

    columns = {column["name"]: column.get("quote") for column in source["tables"][0]["columns"]}
    assert columns == {"order": True, "ship to": True, "total": None}


def test_dbt_models_have_tests_for_rules_of_whole_marts() -> None:
    [source] = api.export(parse_declaration(DECLARATION + WHOLE + PARTS), "dbt")["sources"]

    tables = {table["name"]: table for table in source["tables"]}
    columns = {column["name"]: column for column in tables["orders"]["columns"]}
    warns = {"config": {"severity": "warn"}}
    assert columns["code"]["data_tests"] == [{"unique": {"name": "orders_one_code", **warns}}]
    to = {"arguments": {"to": "source('marts', 'parts')", "field": "part"}}
    assert columns["total"]["data_tests"] == [{"relationships": {"name": "orders_elsewhere", **to, **warns}}]
    config = tables["orders"]["config"]
    assert (config["loaded_at_field"], config["freshness"]) == (
        "cast(on_day as timestamp)",
        {"warn_after": {"count": 2, "period": "day"}},
    )
    kept = [rule["name"] for rule in config["meta"]["rules"] if "says" not in rule]
    assert kept == ["one_pair", "both", "bounds", "most", "exactly", "steps", "taken"]
    assert config["meta"]["rules"][-1]["freshness"]["error_after"] == {"count": 1, "period": "day"}
    [mark] = [column for column in tables["marked"]["columns"] if column["name"] == "mark"]
    assert mark["data_tests"][-1] == {"unique": {"name": "marked_one_mark", "config": {"where": "not is_deleted"}}}
    assert [rule["name"] for rule in tables["parts"]["config"]["meta"]["rules"]] == ["to_odd"]


def test_the_command_writes_yaml_or_json(tmp_path: Path) -> None:
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")

    said = command("export", "odcs", f"{tmp_path}")
    as_json = command("export", "odcs", f"{tmp_path}", "--json")
    command("export", "odcs", f"{tmp_path}", "--to", f"{tmp_path / 'out.yaml'}")
    refused = command("export", "odcs", f"{tmp_path}", "--to", f"{tmp_path / 'none' / 'out.yaml'}")

    assert yaml.safe_load(said.stdout) == json.loads(as_json.stdout) == api.export(tmp_path, "odcs")
    assert (tmp_path / "out.yaml").read_text(encoding="utf-8") == said.stdout
    assert (refused.code, "[FZ115]" in refused.text) == (UnwritableFileError.exit_code, True)
