"""Declarations of a table by lot, and what a user may change of one from one day to the next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from random import Random

COLUMNS: Final = {
    "name": ("{name: name}", '{name: name, expr: "upper(name)"}', '{name: name, expr: "coalesce(name, note)"}'),
    "qty": (
        "{name: qty, type: int}",
        "{name: qty, type: bigint}",
        "{name: qty}",
        '{name: qty, type: "decimal(12,2)"}',
        "{name: qty, type: int, nullable: false}",
    ),
    "note": ("{name: note}",),
    "size": ('{name: size, type: int, expr: "length(name)"}', '{name: size, expr: "cast(length(name) as string)"}'),
    "nowhere": ("{name: nowhere}",),
}
"""The ways in which each column may be declared."""

MARTS: Final = (
    "kind: current",
    "kind: current, deletes: soft",
    "kind: current, deletes: soft, live_view: live",
    "kind: current, partition_by: [id]",
    'kind: current, partition_by: ["bucket(4, id)"], sort_by: [id]',
    "kind: current, sort_by: [id]",
    "kind: current, properties: {comment: walked}",
    "kind: current, format_version: 3",
    "kind: history",
    "kind: history, deletes: mark",
    "kind: history, track_history_columns: [id]",
    'kind: history, partition_by: ["truncate(1, id)"]',
)
NAMES: Final = ("one", "two", "three")
KEYS: Final = ("[id]", "[id]", "[id, ts]")
ORDERS: Final = ("sequence_by: [ts]", "sequence_by: [ts]", "sequence_by: [ts, id]", "effective_at: ts")
RENAMED: Final = "renames: {note: remark}"
MORE: Final = ("", RENAMED, RENAMED, "ignore_null_updates: true")
READINGS: Final = ("", "", "", "", ', csv_null_value: "\\\\N"', ', csv_delimiter: ";"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What a table is declared to be; each part is YAML."""

    columns: tuple[tuple[str, str], ...]
    marts: tuple[tuple[str, str], ...]
    keys: str = "[id]"
    order: str = "sequence_by: [ts]"
    reading: str = ""
    table: str = "things"
    more: str = ""

    def yaml(self, walk: int) -> str:
        """Write the table; the number of the walk is part of every name."""
        columns = ", ".join(["{name: id, type: int}", "{name: ts, type: timestamp}", *dict(self.columns).values()])
        if self.more == RENAMED:
            columns = columns.replace("{name: note}", "{name: remark}")
        marts = ", ".join(f"{{name: {name}_{walk}, {mart}}}" for name, mart in self.marts)
        marts = marts.replace("live_view: live", f"live_view: live_{walk}")
        return f"""
  - name: {self.table}_{walk}
    source: {{kind: dms, path: ./landing/{walk}, header: true{self.reading}}}
    keys: {self.keys}
    {self.order}
    {self.more}
    columns: [{columns}]
    marts: [{marts}]
"""


def first(chance: Random) -> Declaration:
    """Draw a declaration to begin with."""
    columns = tuple((name, chance.choice(ways)) for name, ways in COLUMNS.items() if name != "nowhere")
    return Declaration(columns=columns[: chance.randint(1, 4)], marts=_marts(chance))


def _marts(chance: Random) -> tuple[tuple[str, str], ...]:
    names = chance.sample(NAMES, chance.randint(1, 3))
    drawn = [chance.choice(MARTS) for _ in names]
    views = [number for number, mart in enumerate(drawn) if "live_view" in mart]
    for number in views[1:]:
        drawn[number] = MARTS[0]
    return tuple(zip(names, drawn, strict=True))


def changed(before: Declaration, chance: Random) -> Declaration:
    """Draw the next declaration: one or two settings are others."""
    now = before
    for _ in range(chance.choice((1, 1, 2))):
        match chance.randrange(10):
            case 0 | 1 | 2:
                now = replace(now, columns=_other_columns(now, chance))
            case 3 | 4:
                now = replace(now, marts=_marts(chance))
            case 5:
                now = replace(now, keys=chance.choice(KEYS), order=chance.choice(ORDERS))
            case 6 | 7:
                now = replace(now, more=chance.choice(MORE))
            case 8:
                now = replace(now, reading=chance.choice(READINGS))
            case _:
                now = replace(now, table=chance.choice(("things", "things", "items")))
    return now


def _other_columns(now: Declaration, chance: Random) -> tuple[tuple[str, str], ...]:
    columns = dict(now.columns)
    name = chance.choice([*COLUMNS])
    if name in columns and chance.random() < 0.4 and len(columns) > 1:
        del columns[name]
    else:
        columns[name] = chance.choice(COLUMNS[name])
    return tuple(columns.items())
