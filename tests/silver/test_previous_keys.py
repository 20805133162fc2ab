"""KEY-CHANGE: the declared columns with the previous key of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frazil.silver.contract import MissingFieldError, settle
from frazil.spec.contract import previous_keys
from frazil.spec.load.parse import parse_declaration

if TYPE_CHECKING:
    from frazil.spec import Table

FIELDS = {"id": "string", "note": "string"}


def declared(source: str, column: str) -> Table:
    return parse_declaration(f"""
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{{source}}}
    keys: [id]
    columns: [{{name: id, type: int}}, {{name: note}}, {column}]
""").tables[0]


@pytest.mark.parametrize(
    "source",
    [
        "kind: dms, path: ./in, header: true, before_image_prefix: BI_",
        "kind: audit_log, path: ./in, table: orders, old_data: old",
        "kind: postgres, url: '${env:DB}', table: orders, landing: ./in",
        "kind: debezium, path: ./in",
    ],
)
def test_a_column_holds_the_key_before_where_records_say_it(source: str) -> None:
    table = declared(source, "{name: Prev_ID, type: bigint}")

    assert previous_keys(table) == {"Prev_ID": "id"}
    assert settle(table, FIELDS).previous == (("Prev_ID", "id"),)
    # A field of that name is what it is.
    assert settle(table, FIELDS | {"prev_id": "string"}).previous == ()


@pytest.mark.parametrize(
    ("source", "column"),
    [
        ("kind: dms, path: ./in, header: true", "{name: prev_id, type: bigint}"),
        ("kind: debezium, path: ./in", "{name: prev_note, type: bigint}"),
    ],
)
def test_elsewhere_such_a_column_is_a_field_like_any_other(source: str, column: str) -> None:
    table = declared(source, column)

    assert previous_keys(table) == {}
    with pytest.raises(MissingFieldError, match="is a field of no file"):
        settle(table, FIELDS)


def test_an_expression_says_itself_what_it_holds() -> None:
    table = declared("kind: debezium, path: ./in", '{name: prev_id, expr: "upper(note)"}')

    assert settle(table, FIELDS).previous == ()
