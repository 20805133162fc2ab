"""The rules over a source of Debezium: files or a topic, and what is said of its values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.spec.contract import is_closed
from frazil.spec.load.problem import Problem, suggestion
from frazil.spec.model.kinds.debezium import DECIMAL, ENCODINGS, OP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.model.pipeline import Table


def debezium_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Find what is wrong with the source of one table, whose kind is ``debezium``; ``at`` is the path of the source."""
    yield from _place(table, at)
    source, whose = table.source, f"the source of table '{table.name}'"
    if source.form == "envelope" and source.op != OP:
        yield Problem((*at, "op"), f"op of {whose} has no use: an envelope has its own", "write form: flat")
    for field, encoding in source.encodings.items():
        yield from _encoding(table, field, encoding, (*at, "encodings", field))


def _place(table: Table, at: Path) -> Iterator[Problem]:
    source, whose = table.source, f"the source of table '{table.name}'"
    kafka = {"servers": source.servers, "topic": source.topic, "landing": source.landing}
    given = [setting for setting, value in kafka.items() if value is not None]
    if source.path is not None:
        for setting in [*given, *(["properties"] if source.properties else [])]:
            yield Problem((*at, setting), f"{whose} has path, and {setting}, which is for a topic", "leave one out")
        if not source.path:
            yield Problem((*at, "path"), f"path of {whose} names nothing", "name a folder, such as ./landing")
    elif not given:
        yield Problem(at, f"{whose} has neither files nor a topic", "write path, or servers, topic and landing")
    else:
        for setting, value in kafka.items():
            if not (value or "").strip():
                yield Problem((*at, setting), f"{whose} is a topic, and has no {setting}")


def _encoding(table: Table, field: str, encoding: str, at: Path) -> Iterator[Problem]:
    whose = f"'{field}' in encodings of the source of table '{table.name}'"
    if encoding not in ENCODINGS and not DECIMAL.fullmatch(encoding):
        known = (*ENCODINGS, "decimal(scale)")
        yield Problem(at, f"{whose} is '{encoding}', which is no encoding", suggestion(encoding, known))
    columns = table.columns or ()
    names = [column.name for column in columns]
    # What no column is made of can still be no value of its schema: text lets its records pass.
    if encoding != "text" and is_closed(table) and field not in names and not any(column.expr for column in columns):
        yield Problem(at, f"{whose} is not one of the columns", suggestion(field, names))
