"""A lake in which many random histories arrive: one table keyed by (history, id), so one run tests them all."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from tests.properties.histories import Histories
from tests.properties.world_declared import BAD, MARTS, declaration

import frazil
from frazil import api
from frazil.lake.refs import head
from frazil.plan.policy import DEFAULT_POLICY, Policy
from frazil.runner.options import RunOptions
from frazil.runner.sessions import table_session
from frazil.runner.steps.baseline import fold_changes
from frazil.runner.steps.normalize import contract_of
from frazil.silver.baseline import baseline_of
from frazil.spark.session import spark_session
from frazil.steps import FoldChanges
from frazil.testing.changes import write_csv

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from random import Random

    from pyspark.sql import SparkSession
    from tests.properties.world_declared import Mart

    from frazil.erase.report import EraseReport
    from frazil.runner.report import RunReport


@dataclass(kw_only=True)
class World(Histories):
    """A lake, a landing folder, and all the histories that arrive there.

    Attributes:
        folder: where the declaration, the landing folder and the lake are.
        bad: every file that holds all fields ends with a record that cannot be cast.
        policy: thresholds of its runs.
    """

    folder: Path
    bad: bool = False
    policy: Policy = DEFAULT_POLICY

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
        computes: bool = True,
    ) -> Self:
        """Make an empty world: a declaration and an empty landing folder."""
        world = cls(
            folder=folder,
            marts=marts or tuple(MARTS),
            bad=bad,
            by_place=by_place,
            policy=policy,
            ignores_nulls=ignores_nulls,
            computes=computes,
        )
        (folder / "landing").mkdir(parents=True)
        text = declaration(world, gold=gold)
        (folder / "frazil.yml").write_text(text, encoding="utf-8")
        return world

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

    def erase(self, spark: SparkSession, keys: Iterable[tuple[int, str]]) -> EraseReport:
        """Erase keys as a user does."""
        texts = [json.dumps({"id": key, "h": history}) for history, key in keys]
        return api.erase(self.folder, "things", keys=texts, spark=self.session(spark))

    def fold(self, spark: SparkSession, before: dt.datetime) -> None:
        """Fold changes older than a horizon, like a run."""
        pipeline, session = frazil.load(self.folder), self.session(spark)
        step = FoldChanges(table="things", before=f"{before:%Y-%m-%d %H:%M:%S}")
        try:
            with table_session(pipeline, pipeline.tables[0], session) as context:
                fold_changes(replace(context, policy=self.policy), contract_of(context), step)
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
        """Deliver and apply everything, run by run."""
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
                is_newer = f"ts >= TIMESTAMP '{self.horizon:%Y-%m-%d %H:%M:%S}+00:00'"
                came = came.where(f"{is_newer} OR NOT coalesce(array_contains(_cdc_known, 'ts'), true)")
            rows = came.select("_cdc_file", "_cdc_row").toArrow().to_pylist()
            seen = Counter(tuple(row.values()) for row in rows)
            found += [f"{table} has {count} x {row}" for row, count in seen.items() if count > 1]
            sizes[table] = sum(row is not None for _, row in seen)
        records, changes, bad = sizes.values()
        return [*found, f"{records} records, {changes} changes, {bad} bad"] if records != changes + bad else found

    def living(self, spark: SparkSession) -> dict[int, int]:
        """Read the aggregate: history -> living keys."""
        rows = self.session(spark).table("lake.gold.living").toArrow().to_pylist()
        return {row["h"]: row["living"] for row in rows}


def _frozen(row: dict[str, Any]) -> tuple[tuple[str, object], ...]:
    def plain(name: str, value: object) -> object:
        if isinstance(value, dt.datetime) and value.tzinfo is None:
            return value.replace(tzinfo=dt.UTC)
        if name == "_cdc_position" and isinstance(value, str):
            return "/".join(value.split("/")[:2])  # the folder is the world's, not the oracle's
        return value

    return tuple(sorted((name, plain(name, value)) for name, value in row.items()))
