"""The rules over columns of personal data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.spec.contract import REST, event_time
from frazil.spec.load.problem import Problem
from frazil.spec.model.rule import COLUMN_RULES
from frazil.spec.pii import DROP, HMAC
from frazil.spec.secrets import is_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.model.column import Column
    from frazil.spec.model.pipeline import Pipeline, Table


def pii_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Find what is wrong with ``pii`` of columns and with the key."""
    key = pipeline.pii_key
    hashes = False
    for i, table in enumerate(pipeline.tables):
        for j, column in enumerate(table.columns or ()):
            if column.pii is not None:
                yield from _column(table, column, ("tables", i, "columns", j))
                hashes = hashes or column.pii == HMAC
    if hashes and key is None:
        yield Problem(
            ("pii_key",), "a column says pii: hmac, and there is no pii_key", 'write pii_key: "${env:PII_KEY}"'
        )
    elif key is not None and not is_reference(key):
        # The text itself never goes into a message.
        yield Problem(("pii_key",), "'pii_key' is a secret in plain text", "write ${env:PII_KEY} or ${file:path}")


def _column(table: Table, column: Column, at: Path) -> Iterator[Problem]:
    whose, here = f"column '{column.name}' of table '{table.name}'", (*at, "pii")
    if column.name == REST:
        yield Problem(here, "'*' in the columns takes no pii", "name the columns")
        return
    if column.expr is not None:
        hint = "declare the fields that the expr reads, with pii; it then reads what is stored of them"
        yield Problem(here, f"{whose} is made by an expr: pii is for fields of the source", hint)
    if column.pii != DROP and column.type != "string":
        hint = "declare it as string, or write pii: drop"
        yield Problem(here, f"pii: {column.pii} makes texts, and the type of {whose} is {column.type}", hint)
    if column.pii != HMAC and column.name in table.keys:
        yield Problem(here, f"{whose} is a key, and pii: {column.pii} makes all keys one", "write pii: hmac")
    if column.name in table.sequence_by or column.name == event_time(table):
        yield Problem(here, f"{whose} orders the changes; pii would take the order away", "order by another column")
    for name in COLUMN_RULES:
        if getattr(column, name, None) is not None:
            yield Problem((*at, name), f"{name} of {whose} would look at the stored value, not at the source's")
    if column.pii == DROP and not column.nullable:
        yield Problem((*at, "nullable"), f"{whose} says pii: drop, so its values are NULL", "leave out nullable")
