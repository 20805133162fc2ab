"""Random events of Debezium against plain Python: placeholders of every type, spans, digits, invalid values."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

import pytest
from tests.sources.test_debezium import envelope, unavailable_ways

from frazil.formats.json_lines import NoObjectError
from frazil.sources.debezium.record import Records
from frazil.spec import Debezium, Table

MARKER: Final = "__debezium_unavailable_value"
SCHEMA: Final = [
    {"field": "id", "type": "int32"},
    {"field": "span", "type": "int64", "name": "io.debezium.time.MicroTime"},
    {"field": "at", "type": "int64", "name": "io.debezium.time.NanoTimestamp"},
    {"field": "note", "type": "string"},
]
WRONG: Final = {"span": ["10:00:00", 4_000_000_000_000, True], "at": ["2026-01-01", 10**21, 1.5]}
"""What is no value of a column: a text, a number out of range, another type."""

MOST_MICROS: Final = 839 * 3_600_000_000 - 1


def said(text: str | None) -> Any:
    """Return what a text means, computed another way than it was written."""
    if text is None:
        return None
    if "-" in text[1:] and " " in text:
        moment, _, digits = text.partition(".")
        whole = (datetime.fromisoformat(moment) - datetime(1970, 1, 1)) // timedelta(seconds=1)  # noqa: DTZ001 - without zone
        return whole * 10**9 + int(digits.ljust(9, "0"))
    sign, (hours, minutes, seconds) = (-1 if text[0] == "-" else 1), text.lstrip("-").split(":")
    micros = int(seconds.partition(".")[2].ljust(6, "0"))
    return sign * (((int(hours) * 60 + int(minutes)) * 60 + int(seconds[:2])) * 10**6 + micros)


def drawn(choice: Random, id_: int) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return a row as Debezium writes it, and its carried fields; None for a row with an invalid value."""
    row: dict[str, Any] = {"id": id_}
    carried: dict[str, Any] | None = {}
    for name in ("span", "at", "note"):
        most = MOST_MICROS if name == "span" else 2 * 10**18
        value: Any = (
            f"text {choice.random()}" if name == "note" else choice.choice([choice.randint(-most, most), 0, most])
        )
        match choice.randrange(8):
            case 0:
                row[name] = choice.choice(unavailable_ways(MARKER))
                continue
            case 1:
                value = None
            case 2 if name in WRONG and not choice.randrange(4):
                row[name], carried = choice.choice(WRONG[name]), None
                continue
        row[name] = value
        if carried is not None:
            carried[name] = value
    return row, carried


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("form", ["envelope", "flat"])
def test_random_values_are_what_they_say(form: Any, seed: int) -> None:
    """MISSING-IS-NOT-NULL: missing fields keep their values; invalid values change nothing."""
    choice = Random(seed)
    mine = Records(Table(name="t", source=Debezium(path=("in",), form=form), keys=("id",)), "a.jsonl")
    fields = [{"field": side, "type": "struct", "fields": SCHEMA} for side in ("before", "after")]
    wanted: dict[str, dict[str, Any]] = {}
    found: dict[str, dict[str, Any]] = {}
    for _ in range(60):
        id_, is_delete = choice.randint(1, 4), not choice.randrange(6)
        row, carried = drawn(choice, id_)
        op = "d" if is_delete else "u"
        image = {"before": row, "after": None} if is_delete else {"before": None, "after": row}
        payload = {**row, "__op": op} if form == "flat" else envelope(op, **image)
        line = {"schema": {"type": "struct", "fields": SCHEMA if form == "flat" else fields}, "payload": payload}
        if is_delete:
            wanted.pop(f"{id_}", None)
        elif carried is not None:
            wanted.setdefault(f"{id_}", {}).update(carried)
        try:
            change = mine.fields(json.dumps(line))
        except NoObjectError:
            assert carried is None and not is_delete  # noqa: PT018 - both or it is wrong
            continue
        assert change is not None
        key = str(change.pop("id"))
        if is_delete:
            found.pop(key, None)
            continue
        values = {name: change[name] for name in ("span", "at", "note") if name in change}
        note = {"note": values.pop("note")} if "note" in values else {}
        found.setdefault(key, {}).update({name: said(text) for name, text in values.items()} | note)

    assert found == wanted
