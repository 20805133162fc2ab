"""Random statements that change the keys of many rows at once, as Amazon DMS writes them with before images."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from frazil.testing import Change

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from frazil.testing.changes import Record

FIELDS: Final = ("op", "id", "v", "BI_id")
COLUMNS: Final = ("id", "v")
_KEYS: Final = 7


def random_shifts(seed: int, statements: int = 14) -> tuple[list[Record], dict[int, str]]:
    """Return the records of some statements, and the table that they leave: key -> value.

    Within a statement the changes are in any order, so a row may get a key before the other row leaves it: shifts,
    swaps and cycles. Some rows have equal values.
    """
    rng = Random(seed)
    table: dict[int, str] = {}
    records: list[Record] = []
    for number in range(statements):
        kind = rng.choice(("insert", "insert", "update", "delete", "shift", "shift", "cycle"))
        if kind == "insert" or not table:
            free = [key for key in range(1, _KEYS + 1) if key not in table]
            for key in rng.sample(free, min(len(free), rng.randint(1, 3))):
                table[key] = rng.choice("abc")
                records.append({"op": "I", "id": f"{key}", "v": table[key], "BI_id": None})
        elif kind == "update":
            key = rng.choice([*table])
            table[key] = f"{table[key][0]}{number}"
            records.append({"op": "U", "id": f"{key}", "v": table[key], "BI_id": f"{key}"})
        elif kind == "delete":
            key = rng.choice([*table])
            records.append({"op": "D", "id": f"{key}", "v": table.pop(key), "BI_id": None})
        else:
            moves = _shifted(rng, [*table]) if kind == "shift" else _cycled(rng, [*table])
            left = {new: table.pop(old) for old, new in moves.items()}
            table |= left
            moved: list[Record] = [
                {"op": "U", "id": f"{new}", "v": left[new], "BI_id": f"{old}"} for old, new in moves.items()
            ]
            rng.shuffle(moved)
            records += moved
    return records, table


def _shifted(rng: Random, keys: list[int]) -> dict[int, int]:
    """``id = id + 1`` from a key on, or ``id = id - 1`` of all."""
    if rng.random() < 0.3:
        return {key: key - 1 for key in keys}
    least = rng.choice(keys)
    return {key: key + 1 for key in keys if key >= least}


def _cycled(rng: Random, keys: list[int]) -> dict[int, int]:
    """Rows that take each other's keys."""
    some = rng.sample(keys, rng.randint(1, len(keys)))
    return {} if len(some) == 1 else dict(zip(some, [*some[1:], some[0]], strict=True))


def as_parts(records: Sequence[Record], seed: int, parts: int) -> list[list[Record]]:
    """Split records anywhere, also within a statement."""
    cuts = sorted(Random(seed).sample(range(1, len(records)), parts - 1))
    return [[*records[start:end]] for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True)]


def spoiled(records: Sequence[Record], chance: Random) -> tuple[set[int], dict[int, str]]:
    """Return which records are bad, and the rows whose last record is not; each row is followed by itself."""
    bad, table = set[int](), dict[int, list[str | None]]()
    for number, record in enumerate(records):
        old, new, value = int(record["BI_id"] or 0), int(record["id"] or 0), record["v"]
        if record["op"] == "D":
            table[new] = []
            continue
        shown = None if chance.random() < 0.25 else value
        bad |= {number} if shown is None else set()
        if record["op"] == "U" and old != new:
            table[old].pop(0)
            table.setdefault(new, []).append(shown)
        else:
            table[new] = [shown]
    return bad, {key: rows[-1] for key, rows in table.items() if rows and rows[-1] is not None}


def changes_of(records: Sequence[Record], bad: Collection[int] = (), *, bad_deletes: bool = True) -> list[Change]:
    """Return what the records say, for the oracle.

    Args:
        records: from :func:`random_shifts`.
        bad: which of them are.
        bad_deletes: so are the deletes of changes of key, which are no records of their own.
    """
    found = []
    for row, record in enumerate(records, start=1):
        key, values = int(record["id"] or 0), {"id": int(record["id"] or 0), "v": record["v"]}
        moves = record["op"] == "U" and record["BI_id"] != record["id"]
        change = Change((key,), (), "1/", row, record["op"] == "D", values, None, of_move=moves, bad=row - 1 in bad)
        found.append(change)
        if moves:
            left = replace(change, key=(int(record["BI_id"] or 0),), deleted=True, values={})
            found.append(replace(left, bad=change.bad and bad_deletes))
    return found
