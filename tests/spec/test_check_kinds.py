"""The rules of each kind of source but Amazon DMS: what is said of a setting that cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.errors import DeclarationProblems
from frazil.spec import Pipeline
from frazil.spec.check.check import problems
from frazil.spec.load.parse import parse_declaration

LOG = {"kind": "audit_log", "table": "public.orders"}
LOGGED = {**LOG, "url": "${env:SHOP}", "log": "public.audit", "landing": "landing/log"}
SLOT = {"kind": "postgres", "url": "${env:SHOP}", "table": "public.orders", "slot": "lake", "publication": "lake"}
EVENTS = {"kind": "debezium", "path": "landing/orders"}
TOPIC = {"kind": "debezium", "servers": "127.0.0.1:9092", "topic": "orders", "landing": "landing/orders"}
DUMPS = {"kind": "snapshot", "path": "landing/orders"}
TAKEN = {"kind": "snapshot", "url": "${env:SHOP}", "table": "public.orders"}
FLAT = {"form": "flat", "op": "kind"}


def said(source: dict[str, Any]) -> list[str]:
    columns = [{"name": "id", "type": "int"}, {"name": "price", "type": "decimal(9,2)"}]
    table = {"name": "orders", "source": source, "keys": ["id"], "columns": columns}
    pipeline = Pipeline.model_validate({"pipeline": "shop", "lake": {"warehouse": "lake"}, "tables": [table]})
    found = ((".".join(map(str, problem.path[3:])), f"{problem}") for problem in problems(pipeline))
    return [f"{at}: {text}".replace("the source of table 'orders'", "it").removeprefix(": ") for at, text in found]


@pytest.mark.parametrize(
    "source",
    [
        LOGGED,
        {**LOG, "path": "landing/log"},
        {**SLOT, "landing": "landing/orders"},
        EVENTS,
        {**EVENTS, **FLAT},
        {**EVENTS, "encodings": {"price": "decimal(2)"}},
        TOPIC,
        DUMPS,
        TAKEN,
        {**TAKEN, "every_minutes": 5},
    ],
)
def test_a_right_source_has_no_problems(source: dict[str, Any]) -> None:
    assert said(source) == []


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (LOG, "it has neither path nor url; write path for files of the log, or url and log for its database"),
        (
            {**LOGGED, "path": "landing/log"},
            "it has both path and url; write path for files of the log, or url and log for its database",
        ),
        ({**LOG, "path": "a", "xid": "xid"}, "xid: xid of it applies only with url; leave it out"),
        ({**LOG, "url": "u", "landing": "a"}, "it has a url and no log; write log: public.audit_log_dml or the like"),
        (
            {**LOG, "url": "u", "log": "public.audit"},
            "it has a url and no landing; write landing: ./landing/audit_log or the like; the log is captured there",
        ),
        ({**LOGGED, "data": " "}, "data: data of it is empty"),
        ({**LOGGED, "data": "row", "old_data": "ROW"}, "old_data: data and old_data of it are the same column 'row'"),
        ({**LOGGED, "table": "../orders"}, "table: table of it is not schema.table; write public.orders or the like"),
        (
            {"kind": "snapshot"},
            "it has neither path nor url; write path for a folder of dumps, or url and table for a database",
        ),
        (
            {**TAKEN, "path": "dumps"},
            "it has both path and url; write path for a folder of dumps, or url and table for a database",
        ),
        ({**DUMPS, "every_minutes": 5}, "every_minutes: every_minutes of it applies only with url; leave it out"),
        ({**DUMPS, "table": "orders"}, "table: table of it applies only with url; leave it out"),
        ({**TAKEN, "table": "public."}, "it names no table; write table: public.prices or the like"),
        ({**TAKEN, "settle_seconds": 1}, "settle_seconds: settle_seconds of it has no use with url; leave it out"),
        ({**SLOT, "landing": "landing/*"}, "landing: landing of it is a pattern; name one folder"),
        (
            {**SLOT, "landing": "landing", "table": "public. "},
            "table: it names no table; write public.orders or the like",
        ),
        (
            {"kind": "debezium"},
            "it has neither files nor a topic; write path, or servers, topic and landing",
        ),
        ({**EVENTS, "topic": "orders"}, "topic: it has path, and topic, which is for a topic; leave one out"),
        (
            {**EVENTS, "properties": {"client.id": "x"}},
            "properties: it has path, and properties, which is for a topic; leave one out",
        ),
        ({**TOPIC, "servers": None}, "servers: it is a topic, and has no servers"),
        ({**EVENTS, "op": "kind"}, "op: op of it has no use: an envelope has its own; write form: flat"),
        (
            {**EVENTS, "encodings": {"price": "bas64"}},
            "encodings.price: 'price' in encodings of it is 'bas64', which is not an encoding; did you mean 'base64'?",
        ),
        (
            {**EVENTS, "encodings": {"prise": "decimal(2)"}},
            "encodings.prise: 'prise' in encodings of it is not one of the columns; did you mean 'price'?",
        ),
    ],
)
def test_meaningless_settings_are_reported_with_their_place(source: dict[str, Any], told: str) -> None:
    assert said(source) == [told]


@pytest.mark.parametrize(
    ("renames", "said"),
    [
        ("{a: a}", "leads nowhere"),
        ("{a: b, b: a}", "leads nowhere"),
        ("{a: ' '}", "leads nowhere"),
        ("{old: id}", "is of a key"),
        ("{n: m}", "a column is still called 'n'"),
        ("{Op: action}", "of the source's own"),
    ],
)
def test_a_meaningless_rename_is_reported(renames: str, said: str) -> None:
    with pytest.raises(DeclarationProblems, match=said):
        parse_declaration(
            "pipeline: p\nlake: {warehouse: l}\ntables:\n  - name: t\n    source: {kind: dms, path: l, header: true}\n"
            f"    keys: [id]\n    columns: [{{name: id}}, {{name: n}}]\n    renames: {renames}\n"
        )
