"""The declaration of the world that many random histories arrive in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from random import Random

    from tests.properties.histories import Histories

Mart = Literal["hard", "soft", "close", "mark"]

MARTS: dict[Mart, str] = {
    "hard": "{kind: current, name: hard}",
    "soft": "{kind: current, name: soft, deletes: soft, live_view: soft_live}",
    "close": "{kind: history, name: close}",
    "mark": "{kind: history, name: mark, deletes: mark}",
}
TRACKED = ("name", "qty", "note", "share")
SHARE = """\
      - name: share
        type: bigint
        expr: "if(note = 'ada', raise_error('no share of ada'), 10 div cast(qty as int))"
"""
"""Fails where ``note`` is ada and where ``qty`` is 0; without ``note`` the record does not know it."""
BAD = b"U,not a number,2026-01-01 00:00:00.000000,x,1,x,0\n"

DECLARATION = """
pipeline: laws
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {{kind: dms, path: ./landing, header: true}}
    keys: [h, id]
    max_bad_fraction: 1
    ignore_null_updates: {ignores}
    {order}
    columns:
      - {{name: h, type: int}}
      - {{name: id, type: int}}
      - {{name: ts, type: timestamp}}
      - {{name: name, type: string}}
      - {{name: qty, type: int}}
      - {{name: note, type: string}}
{computed}    marts:
{marts}
{gold}
"""
GOLD = """gold:
  - {name: everything, sql: "select sum(living) as living, count(*) as histories from {{ living }}"}
  - {name: living, materialized: incremental, sql: "select h, count(*) as living from {{ hard }} group by h"}"""
PARTS = """
  - name: parts
    materialized: incremental
    sql: "select {columns} from {{{{ hard }}}} where id <> 2 group by h, coalesce(qty, 0) % 3, name\""""
PART_GROUPS: Final = ("h", "coalesce(qty, 0) % 3 as part", "name")
PART_VALUES: Final = ("count(*) as records", "sum(qty) as total", "max(note) as newest")
PART_LATER: Final = ("total / 2 as half", "records > 1 as many", "coalesce(newest, name) as said")
"""Expressions over values that are selected before them, by their names."""


def parts(lot: Random) -> str:
    """Draw an incremental aggregate: some of its groups and all its values, each in any order, what uses them last."""
    groups = lot.sample(PART_GROUPS[1:], lot.randint(0, 2))
    groups = [PART_GROUPS[0], *groups] if lot.random() < 0.8 or not groups else groups
    later = [*PART_LATER, "part + 1 as next"] if PART_GROUPS[1] in groups else PART_LATER
    columns = lot.sample([*groups, *PART_VALUES], len(groups) + len(PART_VALUES))
    return PARTS.format(columns=", ".join([*columns, *lot.sample(later, lot.randint(1, len(later)))]))


def declaration(of: Histories, *, gold: bool) -> str:
    """Write the declaration of the table that some histories are of."""
    return DECLARATION.format(
        order="effective_at: ts" if of.by_place else "sequence_by: [ts]",
        ignores=f"{of.ignores_nulls}".lower(),
        computed=SHARE if of.computes else "",
        marts="\n".join(f"      - {MARTS[mart]}" for mart in of.marts),
        gold=GOLD if gold else "",
    )
