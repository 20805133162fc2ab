"""Small random change streams of one table, as DMS would write them, and their changes for the oracle.

The table has five columns, see ``COLUMNS``. A record is a mapping from field to text, ``op`` first, as in the file;
None is NULL. The same seed gives the same stream.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, Final

from frazil.spec.model.kinds.dms import time_in_name
from frazil.testing.oracle import Change

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Record = dict[str, str | None]

COLUMNS: Final = {"id": "int", "ts": "timestamp", "name": "string", "qty": "int", "note": "string"}
"""The columns with their Spark types: ``id`` is the key, ``ts`` the sequence and the event time."""

_START = datetime(2026, 1, 1, tzinfo=UTC)
_TEXTS = (
    None,
    "",
    "ada",
    "Ünïcödé 🧊",
    'say "hi"',
    "one, two",
    "two\nlines",
    "two\r\nends",
    "NULL",
    " blanks ",
    "back\\slash",
    "O'Hara",
)


_DELETES, _LATE, _REPEATS = 0.2, 0.2, 0.1


def random_history(
    seed: int, size: int = 30, *, keys: int = 6, ties: float = 0.2, unsequenced: float = 0.0
) -> list[Record]:
    """Draw a stream of changes in the order the source wrote them.

    Deletes, one change in five, come early, twice and before re-creations; half of them carry no payload. Updates may
    be the first a key sees. One record in five has a ``ts`` up to ten seconds before its place, and one in ten repeats
    an earlier one exactly.

    Args:
        seed: same seed, same stream.
        size: number of records.
        keys: ids are 1 to this.
        ties: share of records with the ``ts`` of the change of the same key before.
        unsequenced: share of deletes without ``ts``.
    """
    rng = Random(seed)  # noqa: S311 - a stream to test with, not a secret
    records: list[Record] = []
    newest: dict[str, str] = {}
    clock = _START
    while len(records) < size:
        if records and rng.random() < _REPEATS:
            records.append(dict(rng.choice(records)))
            continue
        key = str(rng.randint(1, keys))
        clock += timedelta(seconds=rng.randint(0, 2), microseconds=rng.choice((0, 1, 500_000)))
        kind = rng.random()
        if kind < ties and key in newest:
            ts = newest[key]
        else:
            behind = rng.randint(1, 10) if kind > 1 - _LATE else 0
            ts = f"{clock - timedelta(seconds=behind):%Y-%m-%d %H:%M:%S.%f}"
        newest[key] = ts
        is_delete = rng.random() < _DELETES
        payload: Record = {
            "name": rng.choice(_TEXTS),
            "qty": rng.choice((None, "0", "-1", "1", "2147483647")),
            "note": rng.choice(_TEXTS),
        }
        if is_delete and rng.random() < 0.5:  # noqa: PLR2004 - half of them
            payload = dict.fromkeys(payload)
        records.append({"op": "D" if is_delete else rng.choice("IU"), "id": key, "ts": ts, **payload})
    lot = Random(f"{seed} without ts")  # noqa: S311 - as above; of its own, so that all else is as without them
    return [{**one, "ts": None} if one["op"] == "D" and lot.random() < unsequenced else one for one in records]


def as_files(
    records: Sequence[Record],
    seed: int,
    parts: int = 4,
    *,
    load: bool | None = None,
    op_in_load: bool = True,
    narrow: float = 0.0,
) -> dict[str, list[Record]]:
    """Split a stream into the files of a DMS task.

    No two files hold the same records, for the lake would take them for one file delivered twice: a part
    equal to an earlier one is left out. A part may be empty.

    Args:
        records: the stream, in the order of the source.
        seed: same seed, same files.
        parts: number of change files.
        load: begin with a full load file: the first upsert of each key in the head of the stream; None leaves it to the
            seed.
        op_in_load: the full load file has the op field.
        narrow: share of change files without the field ``note``.

    Returns:
        File name -> records, in the order of the names.
    """
    rng = Random(seed)  # noqa: S311 - as above
    head = rng.randrange(len(records) // 2 + 1) if (rng.random() < 0.5 if load is None else load) else 0  # noqa: PLR2004
    files: dict[str, list[Record]] = {}
    # A load names each key once.
    firsts: dict[str | None, int] = {}
    for number, record in enumerate(records[:head]):
        if record["op"] != "D":
            firsts.setdefault(record["id"], number)
    if upserts := [records[number] for number in firsts.values()]:
        files["LOAD00000001.csv"] = upserts if op_in_load else [_without("op", record) for record in upserts]
    loaded = {*firsts.values()}
    changes = [record for number, record in enumerate(records) if number not in loaded]
    cuts = sorted(rng.randint(0, len(changes)) for _ in range(parts - 1))
    clock = _START
    for start, end in pairwise((0, *cuts, len(changes))):
        clock += timedelta(milliseconds=rng.choice((1, 10, 999, 60_000, 86_400_000)))
        part = changes[start:end]
        if rng.random() < narrow:
            part = [_without("note", record) for record in part]
        if not part or part not in files.values():
            files[f"{clock:%Y%m%d-%H%M%S}{clock.microsecond // 1000:03d}.csv"] = part
    return files


def csv_field(text: str | None) -> str:
    """Write one field: NULL bare, quotes doubled, and quotes only where the text needs them or is empty."""
    if text is None:
        return "NULL"
    needs_quotes = text in ("", "NULL") or any(sign in text for sign in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if needs_quotes else text


def write_csv(records: Sequence[Record], *, header: bool = True) -> bytes:
    """Write a change file: RFC 4180 in UTF-8, lines ended by LF as DMS ends them.

    Args:
        records: all with the fields of the first; without records, ``op`` and the columns are the fields.
        header: begin with the names of the fields.
    """
    fields = tuple(records[0]) if records else ("op", *COLUMNS)
    lines = [fields] if header else []
    lines += [tuple(csv_field(record[field]) for field in fields) for record in records]
    return "".join(",".join(line) + "\n" for line in lines).encode()


def deliveries(files: Iterable[str], seed: int) -> list[list[str]]:
    """Split files into runs, in any order, some of them delivered again in a later run.

    Returns:
        The names that arrive before each run; every name at least once, no run empty.
    """
    rng = Random(seed)  # noqa: S311 - as above
    names = sorted(files)
    rng.shuffle(names)
    cuts = sorted({rng.randint(0, len(names)) for _ in range(rng.randint(0, 4))} | {0, len(names)})
    runs = [names[start:end] for start, end in pairwise(cuts)]
    for number, run in enumerate(runs):
        earlier = [name for before in runs[:number] for name in before if name not in run]
        run += [name for name in dict.fromkeys(earlier) if rng.random() < 0.2]  # noqa: PLR2004 - one in five
    return runs


def oracle_changes(files: Mapping[str, Sequence[Record]]) -> list[Change]:
    """Read the changes the files hold, typed and with their place in the source.

    A record without op is an upsert. Fields a record lacks are columns its change does not know.
    """
    return [
        _change(name, row, record) for name, records in files.items() for row, record in enumerate(records, start=1)
    ]


def _change(name: str, row: int, record: Record) -> Change:
    values = {field: _value(text, COLUMNS[field]) for field, text in record.items() if field != "op"}
    told = time_in_name(name)
    return Change(
        key=(values["id"],),
        sequence=(values.get("ts"),),
        position=f"{0 if name.startswith('LOAD') else 1}/{name}/",
        row=row,
        deleted=record.get("op") == "D",
        values=values,
        event_time=values.get("ts"),
        source_time=None if told is None else datetime.fromisoformat(told).replace(tzinfo=UTC),
    )


def _value(text: str | None, kind: str) -> Any:
    if text is None or kind == "string":
        return text
    return int(text) if kind == "int" else datetime.fromisoformat(text).replace(tzinfo=UTC)


def _without(field: str, record: Record) -> Record:
    return {name: text for name, text in record.items() if name != field}
