"""Fields of a corrected record, and their columns of bronze."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from frazil.serve.corrections import _columns
from frazil.spec.load.parse import parse_declaration

if TYPE_CHECKING:
    from frazil.serve.layers import Layers

DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: dms, path: ./landing, header: true}
    keys: [id]
    columns: [{name: id}, {name: remark}]
    renames: {Note: comment, comment: remark}
"""


def columns(**fields: str) -> dict[str, str]:
    [table] = parse_declaration(DECLARATION).tables
    return _columns(table, cast("Layers", SimpleNamespace(fields=fields)))


def test_a_renamed_field_has_the_column_that_it_came_in() -> None:
    """A record is shown with the names that its fields have now, also before a file has brought them."""
    assert columns(id="id", note="Note") == {"id": "id", "note": "Note", "remark": "Note"}
    # Of a field that came under two names the later one counts.
    assert columns(id="id", note="Note", comment="comment")["remark"] == "comment"


def test_a_field_that_came_under_its_newest_name_is_its_own_column() -> None:
    assert columns(note="Note", remark="Remark") == {"note": "Note", "remark": "Remark"}
