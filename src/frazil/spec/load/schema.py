"""The JSON Schema of a declaration, by which editors complete and check it while it is written."""

from __future__ import annotations

import json
from typing import Any

from frazil.spec.model.pipeline import Pipeline


def json_schema() -> dict[str, Any]:
    """Return the schema of ``frazil.yml``, with titles and descriptions, in draft 2020-12.

    Its ``$id`` is relative: it means the file beside the one that refers to it.
    """
    schema = Pipeline.model_json_schema(mode="validation")
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "frazil.schema.json",
        "title": "Frazil declaration",
        "description": "A pipeline from the changes of a database to Iceberg tables.",
    }
    return head | {key: value for key, value in schema.items() if key not in head}


def schema_text() -> str:
    """Return the schema as the text of docs/frazil.schema.json."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
