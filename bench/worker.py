"""One contender's run, in a process of its own: started by ``bench.process``, tells it what happens in JSON lines."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.contenders import contender
from bench.contenders.contender import Task
from bench.footprint import footprint
from bench.meter import Meter, tree_rss_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.contenders.contender import Contender

    Tell = Callable[[dict[str, Any]], None]

_WARM_READS, _READS = 3, 5


def main(order_file: str, pipe: int) -> None:
    """Do what an order says.

    Args:
        order_file: JSON of a :class:`bench.process.Order`.
        pipe: number of the open file to tell to.
    """
    order: dict[str, Any] = json.loads(Path(order_file).read_text(encoding="utf-8"))
    task = Task(home=Path(order["home"]), columns=order["columns"], tables=tuple(order["tables"]), heap=order["heap"])

    def tell(row: dict[str, Any]) -> None:
        os.write(pipe, (json.dumps(row) + "\n").encode())

    tell({"began": "open"})
    who = contender(order["contender"], task)
    with Meter() as meter:
        who.open()
    tell({"phase": "open", **meter.reading.as_values()})
    if order["load"]:
        _load(who, _paths(order["load"]), tell)
    for number, files in enumerate(order["batches"]):
        _apply(who, number - order["warm"], _paths(files), tell)
    if order["read"]:
        _read(who, tell)
    tell({"began": "export"})
    for mart, folder in order["export"].items():
        Path(folder).parent.mkdir(parents=True, exist_ok=True)
        if who.jobs() is None:  # Spark makes the folder itself and minds one that is there
            Path(folder).mkdir()
        who.export(mart, Path(folder))
    who.close()


def _load(who: Contender, files: Sequence[Path], tell: Tell) -> None:
    tell({"began": "load"})
    jobs = who.jobs()
    with Meter() as meter:
        who.load(files)
    written = footprint(who.tables_folder)
    tell(
        {"phase": "load", "jobs": _since(jobs, who.jobs()), "written_bytes": sum(written.files.values())}
        | meter.reading.as_values()
    )


def _apply(who: Contender, number: int, files: Sequence[Path], tell: Tell) -> None:
    """Apply one batch; those before number 0 only warm up."""
    phase = "apply" if number >= 0 else "warm"
    tell({"began": phase})
    before, jobs = footprint(who.tables_folder), who.jobs()
    with Meter() as meter:
        parts = who.apply(files)
    after = footprint(who.tables_folder)
    row = {
        "phase": phase,
        "batch": number,
        "jobs": _since(jobs, who.jobs()),
        "written_bytes": after.written_since(before),
        "replaced_bytes": after.replaced_since(before),
        "rss_bytes": tree_rss_bytes(),
    }
    tell(row | meter.reading.as_values())
    for part, reading in parts.items():
        share = {"other_share": meter.reading.other_share}
        tell({"phase": phase, "part": part, "batch": number} | reading.as_values() | share)


def _read(who: Contender, tell: Tell) -> None:
    """Read the table a few times; beside a fresh copy of it where the contender can make one.

    The first times are not told: they compile.
    """
    copied = getattr(who, "compacted", None)
    copy = copied() if copied is not None else None
    for number in range(-_WARM_READS, _READS):
        tell({"began": "read"})
        with Meter() as meter:
            who.read()
        if number >= 0:
            tell({"phase": "read", "batch": number, **meter.reading.as_values()})
        if copy is not None:
            with Meter() as meter:
                who.read_all(copy)  # type: ignore[attr-defined]
            if number >= 0:
                tell({"phase": "read-copy", "batch": number, **meter.reading.as_values()})


def _paths(names: Sequence[str]) -> list[Path]:
    return [Path(name) for name in names]


def _since(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
