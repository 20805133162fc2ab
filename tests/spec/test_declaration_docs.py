"""The pages of the declaration have every setting, and what they show is right."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from frazil.spec.load.document import read_document
from frazil.spec.load.parse import parse_declaration
from frazil.spec.load.project import json_schema
from frazil.spec.model.types import SIMPLE

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "declaration.md", *sorted((DOCS / "declaration").glob("*.md"))]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
EXAMPLES: list[Any] = [read_document(block).data for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)]

WHOLE = EXAMPLES[0]
TABLE = WHOLE["tables"][0]


def test_every_setting_is_documented() -> None:
    schema = json_schema()
    shapes = [schema, *schema["$defs"].values()]

    missing = {name for shape in shapes for name in shape["properties"] if f"`{name}`" not in TEXT}

    assert missing == set()


def test_every_default_of_upkeep_is_the_one_in_force() -> None:
    for name, setting in json_schema()["$defs"]["Upkeep"]["properties"].items():
        default = "" if setting["default"] is None else f" {setting['default']:g}"
        assert f"| `{name}` |{default} |" in TEXT


def test_every_type_is_documented() -> None:
    assert {name for name in (*SIMPLE, "decimal(p,s)") if f"`{name}`" not in TEXT} == set()


@pytest.mark.parametrize("example", EXAMPLES, ids=",".join)
def test_every_example_is_right(example: dict[str, Any]) -> None:
    # A part of a declaration is put into the whole one in place of what stands there.
    parts = ("source", "columns", "rules", "evolution", "marts")
    table = {**TABLE, **{name: part for name, part in example.items() if name in parts}}
    top = {name: part for name, part in example.items() if name not in parts}
    if "columns" in example:
        table |= {"keys": [example["columns"][0]["name"]], "sequence_by": [], "marts": [{"kind": "current"}]}
    if "source" in example:
        table["columns"] = [column for column in TABLE["columns"] if column["name"] != "city"]
    # JSON is YAML.
    whole = {**WHOLE, "gold": [], "tables": [table], **top}

    assert parse_declaration(json.dumps(whole)).tables
