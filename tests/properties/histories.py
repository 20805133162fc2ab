"""Many random histories at once, as they arrive, and what their marts hold then."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any, Self

from tests.properties.world_declared import MARTS, TRACKED

from frazil.testing import oracle
from frazil.testing.changes import COLUMNS, as_files, deliveries, oracle_changes, random_history

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.properties.world_declared import Mart

    from frazil.testing.changes import Record

Place = tuple[int, str, int]
"""History, file and row of a record."""


@dataclass(kw_only=True)
class Histories:
    """Histories, each in files of its own, and the runs before which these arrive.

    Attributes:
        marts: kinds of marts.
        by_place: only the place in the source orders the changes; ``ts`` is when they took effect, NULL if ``note`` is,
            and missing in files without ``note``.
        ignores_nulls: a NULL keeps the row's value.
        computes: the table has a computed column, which fails for some records; without it Arrow handles simple types.
        histories: number -> file name -> records, with the key column ``h`` in each record.
        runs: the files that arrive before each run, as (history, file name) pairs.
        spoiled: place of a record with an invalid value -> whether it was corrected since.
        erased: history and id of the erased keys.
        horizon: changes before it are folded; None if nothing was folded.
        horizons: history and file name -> the horizon when the file first came.
    """

    marts: tuple[Mart, ...] = tuple(MARTS)
    by_place: bool = False
    ignores_nulls: bool = False
    computes: bool = True
    histories: dict[int, dict[str, list[Record]]] = field(default_factory=dict)
    runs: list[list[tuple[int, str]]] = field(default_factory=list)
    spoiled: dict[Place, bool] = field(default_factory=dict)
    erased: set[tuple[int, str]] = field(default_factory=set)
    horizon: dt.datetime | None = None
    horizons: dict[tuple[int, str], dt.datetime | None] = field(default_factory=dict)

    def draw(self, seeds: Iterable[int], *, size: int = 30, narrow: float = 0.0, unsequenced: float = 0.0) -> Self:
        """Add a history per seed, in files and runs.

        Args:
            seeds: of the histories.
            size: records of each.
            narrow: share of files without ``note``.
            unsequenced: share of deletes without ``ts``.
        """
        for seed in seeds:
            files = as_files(random_history(seed, size=size, unsequenced=unsequenced), seed, narrow=narrow)
            self._add(seed, files)
            for number, names in enumerate(deliveries(files, seed)):
                if number == len(self.runs):
                    self.runs.append([])
                self.runs[number] += [(seed, name) for name in names]
        return self

    def draw_evenly(
        self, seeds: Iterable[int], runs: int, *, size: int = 30, narrow: float = 0.0, unsequenced: float = 0.0
    ) -> Self:
        """Add a history per seed, its files spread over a number of runs, each with something in it."""
        arriving = []
        for seed in seeds:
            records = random_history(seed, size=size, unsequenced=unsequenced)
            files = as_files(records, seed, parts=2 * runs, narrow=narrow)
            self._add(seed, files)
            arriving += [(seed, name) for name, records in files.items() if records]
        Random(len(arriving)).shuffle(arriving)
        self.runs = [arriving[number::runs] for number in range(runs)]
        return self

    def draw_apart(self, seeds: Iterable[int], runs: int, *, size: int = 30, narrow: float = 0.0) -> Self:
        """Add a history per seed, all of its files in one run: no run has a key that one before has."""
        self.runs = [[] for _ in range(runs)]
        for seed in seeds:
            self._add(seed, as_files(random_history(seed, size=size), seed, narrow=narrow))
            self.runs[seed % runs] += [(seed, name) for name in self.histories[seed]]
        return self

    def draw_in_time(self, seeds: Iterable[int], runs: int, *, size: int = 30, narrow: float = 0.0) -> Self:
        """Add a history per seed, its records in the order of their times; each run has those of the same seconds."""
        for seed in seeds:
            chance = Random(seed)
            ordered = sorted(random_history(seed, size=size), key=lambda record: record["ts"] or "")
            parts: list[list[Record]] = [[] for _ in range(runs)]
            for record in ordered:
                since = dt.datetime.fromisoformat(f"{record['ts']}+00:00") - dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
                parts[max(0, min(int(since.total_seconds() * runs / size), runs - 1))].append(record)
            files = {}
            for number, records in enumerate(parts):
                lacks = {"note"} if chance.random() < narrow else set()
                files[f"20260101-{number:09}.csv"] = [
                    {name: text for name, text in record.items() if name not in lacks} for record in records
                ]
            self._add(seed, files)
            while len(self.runs) < runs:
                self.runs.append([])
            for number, (name, records) in enumerate(files.items()):
                self.runs[number] += [(seed, name)] if records else []
        return self

    def _add(self, history: int, files: dict[str, list[Record]]) -> None:
        self.histories[history] = {
            name: [{**record, "h": str(history)} for record in records] for name, records in files.items()
        }
        if self.by_place:
            for record in (record for records in self.histories[history].values() for record in records):
                if "note" not in record:
                    del record["ts"]
                elif record["note"] is None:
                    record["ts"] = None

    def spoil(self, share: float, lot: Random) -> Self:
        """Give a share of the records, except deletes, an invalid ``qty``."""
        for history, files in self.histories.items():
            for name, records in files.items():
                for row, record in enumerate(records, start=1):
                    if record.get("op") != "D" and lot.random() < share:
                        self.spoiled[history, name, row] = False
        return self

    def draw_keys(self, lot: Random, share: float) -> list[tuple[int, str]]:
        """Draw keys that some record has, and that were not erased yet."""
        keys = {
            (history, record["id"])
            for history, files in self.histories.items()
            for records in files.values()
            for record in records
            if record["id"] is not None
        }
        return [key for key in sorted(keys - self.erased) if lot.random() < share]

    def expected(self, mart: Mart) -> list[dict[str, Any]]:
        """Ask the oracle what a mart holds once all has arrived."""
        columns = [*COLUMNS, "share"] if self.computes else [*COLUMNS]
        tracked = tuple(name for name in TRACKED if name in columns)
        rows = []
        for history, files in self.histories.items():
            changes = oracle_changes(
                {name: [_without_h(record) for record in records] for name, records in files.items()}
            )
            places = [(history, name, row) for name, records in files.items() for row, _ in enumerate(records, start=1)]
            ids = [record["id"] for records in files.values() for record in records]
            came = [
                (change, self.horizons.get(place[:2]))
                for place, key, change in zip(places, ids, changes, strict=True)
                if self.spoiled.get(place, True) and (history, key) not in self.erased
            ]
            changes = oracle.accepted(came)
            if self.computes:
                changes = [_with_share(change) for change in changes if not _fails(change)]
            if self.ignores_nulls:
                changes = [_with_values(change) for change in changes]
            if self.by_place:
                changes = [replace(change, sequence=()) for change in changes]
            match mart:
                case "hard":
                    mine = oracle.current(changes, columns)
                case "soft":
                    mine = oracle.soft(changes, columns)
                case "close" | "mark":
                    mine = oracle.history(changes, columns, tracked, mart)
            rows += [{"h": history, **row} for row in mine]
        return rows

    def expected_living(self) -> dict[int, int]:
        """Ask the oracle what the aggregate holds."""
        return dict(Counter(row["h"] for row in self.expected("hard")))


def _fails(change: oracle.Change) -> bool:
    """Whether ``SHARE`` fails on a change, so that its record is invalid. Deletes are not checked."""
    values = change.values
    return not change.deleted and "note" in values and (values["note"] == "ada" or values["qty"] == 0)


def _with_share(change: oracle.Change) -> oracle.Change:
    if change.deleted or "note" not in change.values:
        return change
    qty = change.values["qty"]
    return replace(change, values={**change.values, "share": None if qty is None else int(10 / qty)})


def _with_values(change: oracle.Change) -> oracle.Change:
    """Leave out what an upsert has NULL in, but for what names and orders it."""
    if change.deleted:
        return change
    return replace(
        change,
        values={name: value for name, value in change.values.items() if value is not None or name in ("id", "ts")},
    )


def _without_h(record: Record) -> Record:
    return {name: text for name, text in record.items() if name != "h"}
