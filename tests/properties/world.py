"""Many random histories at once: one table keyed by (history, id), so one run tests them all."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import pytest

import frazil
from frazil import api
from frazil.engine import marts
from frazil.engine.baseline import fold_changes
from frazil.engine.normalize import contract_of
from frazil.engine.one_table import table_session
from frazil.engine.options import RunOptions
from frazil.lake.heads import head
from frazil.lake.session import spark_session
from frazil.plan.apply_strategy import MartStats, choose_strategy
from frazil.plan.policy import DEFAULT_POLICY, Policy, Reader, Strategy
from frazil.silver.baseline import baseline_of
from frazil.steps import FoldChanges
from frazil.testing import oracle
from frazil.testing.changes import COLUMNS, as_files, deliveries, oracle_changes, random_history, write_csv

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.engine.erase_report import EraseReport
    from frazil.engine.report import RunReport
    from frazil.testing.changes import Record

Place = tuple[int, str, int]
"""History, file and row of a record."""
Mart = Literal["hard", "soft", "close", "mark"]

MARTS: dict[Mart, str] = {
    "hard": "{kind: current, name: hard}",
    "soft": "{kind: current, name: soft, deletes: soft, live_view: soft_live}",
    "close": "{kind: history, name: close}",
    "mark": "{kind: history, name: mark, deletes: mark}",
}
TRACKED = ("name", "qty", "note", "share")
SHARE = "if(note = 'ada', raise_error('no share of ada'), 10 div cast(qty as int))"
"""Fails where ``note`` is ada and where ``qty`` is 0; without ``note`` the record does not know it."""
BAD = b"U,not a number,2026-01-01 00:00:00.000000,x,1,x,0\n"

DECLARATION = """
pipeline: laws
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {{kind: dms, path: ./landing, header: true}}
    keys: [h, id]
    ignore_null_updates: {ignores}
    {order}
    columns:
      - {{name: h, type: int}}
      - {{name: id, type: int}}
      - {{name: ts, type: timestamp}}
      - {{name: name, type: string}}
      - {{name: qty, type: int}}
      - {{name: note, type: string}}
      - {{name: share, type: bigint, expr: "{share}"}}
    marts:
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

STRATEGIES: tuple[Strategy, ...] = ("row_delta", "delete_append", "overwrite", "recompute")
"""The strategies for marts that have rows."""
SOME_STRATEGIES: Final = (
    "row_delta",
    pytest.param("delete_append", marks=pytest.mark.laws),
    pytest.param("overwrite", marks=pytest.mark.laws),
    pytest.param("recompute", marks=pytest.mark.laws),
)
"""All strategies; the conformance suite of the backends has each of them every time."""
READERS: dict[Strategy, Reader] = {
    "row_delta": "driver",
    "delete_append": "stream",
    "overwrite": "executors",
    "recompute": "stream",
}
"""Reader of the files for each strategy, so that every reader is tested with one."""


def go_by(strategy: Strategy) -> Policy:
    """Return a policy that applies every batch with one strategy and compacts often, however small the tables are."""
    return Policy(
        strategy=strategy,
        reader=READERS[strategy],
        compact_every=2,
        compact_partition_files=2,
        small_file_share=1.0,
        touched_share=9.0,
    )


def parts(lot: Random) -> str:
    """Draw an incremental aggregate: some of its groups and all its values, each in any order, what uses them last."""
    groups = lot.sample(PART_GROUPS[1:], lot.randint(0, 2))
    groups = [PART_GROUPS[0], *groups] if lot.random() < 0.8 or not groups else groups
    later = [*PART_LATER, "part + 1 as next"] if PART_GROUPS[1] in groups else PART_LATER
    columns = lot.sample([*groups, *PART_VALUES], len(groups) + len(PART_VALUES))
    return PARTS.format(columns=", ".join([*columns, *lot.sample(later, lot.randint(1, len(later)))]))


def go_by_lot(lot: Random, patch: pytest.MonkeyPatch) -> None:
    """Draw a strategy for each mart of each batch."""

    def choose(changes: int | None, size_bytes: int, mart: MartStats, policy: Policy) -> Strategy:
        drawn = policy if changes is None else replace(policy, strategy=lot.choice(STRATEGIES))
        return choose_strategy(changes, size_bytes, mart, drawn)

    patch.setattr(marts, "choose_strategy", choose)


@dataclass
class World:
    """A lake, a landing folder, and all the histories that arrive there.

    Attributes:
        folder: where the declaration, the landing folder and the lake are.
        marts: which marts there are.
        by_place: no column orders the changes, only their place in the source; ``ts`` is when they took effect,
            NULL where ``note`` is, and not in the files without ``note``.
        bad: every file that holds all fields ends with a record that cannot be cast.
        policy: thresholds of its runs.
        ignores_nulls: a NULL leaves the value that a row has.
        histories: number -> file name -> records, with the key column ``h`` in each record.
        runs: what arrives before each run: (history, file name) pairs.
        spoiled: place of a record that comes with a value that is none -> whether it was corrected since.
        erased: history and id of the keys that were erased.
        horizon: changes before it are folded; None where none were.
        horizons: history and file name -> the horizon when the file came first.
    """

    folder: Path
    marts: tuple[Mart, ...] = ("hard", "soft", "close", "mark")
    bad: bool = False
    by_place: bool = False
    policy: Policy = DEFAULT_POLICY
    ignores_nulls: bool = False
    histories: dict[int, dict[str, list[Record]]] = field(default_factory=dict)
    runs: list[list[tuple[int, str]]] = field(default_factory=list)
    spoiled: dict[Place, bool] = field(default_factory=dict)
    erased: set[tuple[int, str]] = field(default_factory=set)
    horizon: dt.datetime | None = None
    horizons: dict[tuple[int, str], dt.datetime | None] = field(default_factory=dict)

    @classmethod
    def at(
        cls,
        folder: Path,
        *marts: Mart,
        gold: bool = False,
        bad: bool = False,
        by_place: bool = False,
        policy: Policy = DEFAULT_POLICY,
        ignores_nulls: bool = False,
    ) -> Self:
        """Make an empty world: a declaration and an empty landing folder."""
        world = cls(folder, marts or tuple(MARTS), bad, by_place, policy, ignores_nulls)
        (folder / "landing").mkdir(parents=True)
        lines = "\n".join(f"      - {MARTS[mart]}" for mart in world.marts)
        order = "effective_at: ts" if by_place else "sequence_by: [ts]"
        ignores = f"{ignores_nulls}".lower()
        text = DECLARATION.format(order=order, ignores=ignores, share=SHARE, marts=lines, gold=GOLD if gold else "")
        (folder / "frazil.yml").write_text(text, encoding="utf-8")
        return world

    def draw(self, seeds: Iterable[int], *, size: int = 30, narrow: float = 0.0) -> Self:
        """Add a history per seed, in files and runs; ``narrow`` is the share of files without ``note``."""
        for seed in seeds:
            files = as_files(random_history(seed, size=size), seed, narrow=narrow)
            self._add(seed, files)
            for number, names in enumerate(deliveries(files, seed)):
                if number == len(self.runs):
                    self.runs.append([])
                self.runs[number] += [(seed, name) for name in names]
        return self

    def draw_evenly(self, seeds: Iterable[int], runs: int, *, size: int = 30, narrow: float = 0.0) -> Self:
        """Add a history per seed, its files spread over a number of runs, each with something in it."""
        arriving = []
        for seed in seeds:
            files = as_files(random_history(seed, size=size), seed, parts=2 * runs, narrow=narrow)
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
        """Let a share of the records, deletes apart, come with a ``qty`` that is no number."""
        for history, files in self.histories.items():
            for name, records in files.items():
                for row, record in enumerate(records, start=1):
                    if record.get("op") != "D" and lot.random() < share:
                        self.spoiled[history, name, row] = False
        return self

    def replay(self, spark: SparkSession, share: float, lot: Random) -> None:
        """Correct a share of the spoiled records that are in quarantine, as a user does."""
        path, kept = self.folder / "corrections.jsonl", []
        api.quarantine_to(self.folder, "things", path)
        for line in path.read_text(encoding="utf-8").splitlines():
            one = json.loads(line)
            history, name = one["file"].split("/")[-2:]
            place = (
                int(history),
                name.rpartition("-again-")[2].partition("-")[2] if "again" in name else name,
                one["row"],
            )
            if place in self.spoiled and lot.random() < share:
                right = self.histories[place[0]][place[1]][place[2] - 1]
                one["record"]["qty"] = right["qty"]
                kept.append((place, json.dumps(one)))
        path.write_text("\n".join(line for _, line in kept), encoding="utf-8")
        options = RunOptions(policy=self.policy)
        api.replay(self.folder, table="things", corrected=path, spark=self.session(spark), options=options)
        self.spoiled |= {place: True for place, _ in kept}

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

    def erase(self, spark: SparkSession, keys: Iterable[tuple[int, str]]) -> EraseReport:
        """Erase keys as a user does."""
        texts = [json.dumps({"id": key, "h": history}) for history, key in keys]
        return api.erase(self.folder, "things", keys=texts, spark=self.session(spark))

    def fold(self, spark: SparkSession, before: dt.datetime) -> None:
        """Fold what is older than a horizon, as a run does that is due."""
        pipeline, session = frazil.load(self.folder), self.session(spark)
        step = FoldChanges(table="things", before=f"{before:%Y-%m-%d %H:%M:%S}")
        try:
            with table_session(pipeline, pipeline.tables[0], session) as context:
                fold_changes(context, contract_of(context), step)
        finally:
            found = baseline_of(head(session, "lake.silver.things_changes").bookmark)
            self.horizon = dt.datetime.fromisoformat(f"{found.before}+00:00") if found else None

    def deliver(self, number: int) -> None:
        """Put the files of one run into the landing folder; one that is there already gets another name."""
        for history, name in self.runs[number]:
            self.horizons.setdefault((history, name), self.horizon)
            path = self.folder / "landing" / f"{history}" / name
            path.parent.mkdir(exist_ok=True)
            if path.exists():
                if self.by_place:
                    continue  # the same bytes in another place are another change
                path = path.with_name(f"zz-again-{number}-{name}")
            records = [
                {**record, "qty": "none"} if (history, name, row) in self.spoiled else record
                for row, record in enumerate(self.histories[history][name], start=1)
            ]
            has_all = bool(records) and {"op", "note"} <= records[0].keys()
            path.write_bytes(write_csv(records) + (BAD if self.bad and has_all else b""))

    def session(self, spark: SparkSession) -> SparkSession:
        """Open a session on this world's lake beside a running one."""
        del spark  # only there so that Java runs, with the settings of the tests
        return spark_session(frazil.load(self.folder))

    def run(self, spark: SparkSession, *, rebuild: bool = False) -> RunReport:
        """Run the pipeline as a user does."""
        return frazil.run(
            frazil.load(self.folder), spark=self.session(spark), rebuild=rebuild, options=RunOptions(policy=self.policy)
        )

    def live(self, spark: SparkSession) -> Self:
        """Let everything arrive and be applied, run by run."""
        for number in range(len(self.runs)):
            self.deliver(number)
            self.run(spark)
        return self

    def heads(self, spark: SparkSession) -> dict[str, int | None]:
        """Newest snapshot of every table of the lake."""
        session = self.session(spark)
        names = (
            "bronze.things",
            "silver.things_changes",
            "silver.things_quarantine",
            *map("marts.{}".format, self.marts),
        )
        return {name: head(session, f"lake.{name}").snapshot_id for name in names}

    def differences(self, spark: SparkSession) -> list[str]:
        """Compare every mart with the oracle, and the tables before them as :meth:`doubles` does.

        Returns:
            A sentence per row that is too many or too few.
        """
        session = self.session(spark)
        found = self.doubles(spark)
        for mart in self.marts:
            have = Counter(_frozen(row) for row in session.table(f"lake.marts.{mart}").toArrow().to_pylist())
            want = Counter(_frozen(row) for row in self.expected(mart))
            found += [f"{mart} has {count} x {dict(row)}" for row, count in (have - want).items()]
            found += [f"{mart} lacks {count} x {dict(row)}" for row, count in (want - have).items()]
        return found

    def doubles(self, spark: SparkSession) -> list[str]:
        """Find records that stand twice in bronze, silver or quarantine, or are lost between them."""
        session, found, sizes = self.session(spark), [], {}
        for table in ("bronze.things", "silver.things_changes", "silver.things_quarantine"):
            came = session.table(f"lake.{table}")
            if table.startswith("bronze."):
                came = came.where("_cdc_kind NOT IN ('corrected', 'erased', 'folded')")
            elif table.endswith("_changes") and self.horizon is not None:
                came = came.where(f"ts >= TIMESTAMP '{self.horizon:%Y-%m-%d %H:%M:%S}+00:00'")
            rows = came.select("_cdc_file", "_cdc_row").toArrow().to_pylist()
            seen = Counter(tuple(row.values()) for row in rows)
            found += [f"{table} has {count} x {row}" for row, count in seen.items() if count > 1]
            sizes[table] = sum(row is not None for _, row in seen)
        records, changes, bad = sizes.values()
        return [*found, f"{records} records, {changes} changes, {bad} bad"] if records != changes + bad else found

    def expected(self, mart: Mart) -> list[dict[str, Any]]:
        """Ask the oracle what a mart holds once all has arrived."""
        columns = [*COLUMNS, "share"]
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
            changes = [_with_share(change) for change in oracle.accepted(came) if not _fails(change)]
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
                    mine = oracle.history(changes, columns, TRACKED, mart)
            rows += [{"h": history, **row} for row in mine]
        return rows

    def living(self, spark: SparkSession) -> dict[int, int]:
        """Read the aggregate: history -> living keys."""
        rows = self.session(spark).table("lake.gold.living").toArrow().to_pylist()
        return {row["h"]: row["living"] for row in rows}

    def expected_living(self) -> dict[int, int]:
        """Ask the oracle what the aggregate holds."""
        return dict(Counter(row["h"] for row in self.expected("hard")))


def _fails(change: oracle.Change) -> bool:
    """Whether ``SHARE`` fails on a change: then its record is none. Of a delete nobody asks."""
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


def _frozen(row: dict[str, Any]) -> tuple[tuple[str, object], ...]:
    def plain(name: str, value: object) -> object:
        if isinstance(value, dt.datetime) and value.tzinfo is None:
            return value.replace(tzinfo=dt.UTC)
        if name == "_cdc_position" and isinstance(value, str):
            return "/".join(value.split("/")[:2])  # the folder is the world's, not the oracle's
        return value

    return tuple(sorted((name, plain(name, value)) for name, value in row.items()))
