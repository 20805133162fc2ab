from __future__ import annotations

from pathlib import Path
from typing import Any

from frazil.spec.load.project import json_schema, schema_text

COMMITTED = Path(__file__).parents[2] / "docs" / "frazil.schema.json"


def test_the_committed_schema_is_up_to_date() -> None:
    # To write it anew: put schema_text() into docs/frazil.schema.json.
    assert COMMITTED.read_text(encoding="utf-8") == schema_text()


def test_every_setting_has_a_description() -> None:
    schema = json_schema()
    groups: dict[str, Any] = {"Pipeline": schema, **schema["$defs"]}

    # A setting that is a group of its own is described by the group.
    silent = [
        f"{group}.{name}"
        for group, shape in groups.items()
        for name, setting in shape["properties"].items()
        if "description" not in setting and "$ref" not in setting
    ]

    assert silent == []


def test_the_schema_knows_the_short_forms() -> None:
    definitions = json_schema()["$defs"]

    assert {"type": "string"} in definitions["DmsFiles"]["properties"]["path"]["anyOf"]
    columns = definitions["Table"]["properties"]["columns"]["anyOf"][0]
    assert {"const": "*", "type": "string"} in columns["items"]["anyOf"]


def test_the_schema_names_no_host_of_ours() -> None:
    schema = json_schema()

    assert schema["$id"] == "frazil.schema.json"
    assert "://" not in schema_text().replace(schema["$schema"], "").replace("jdbc:postgresql://", "")
