"""Random histories of a lake whose tables other engines alter and write between the runs, and during them."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final
from unittest.mock import patch

from tests.end_to_end.foreign_acts import ACTS, Target

from frazil import api
from frazil.api import running
from frazil.errors import FrazilError
from frazil.runner.report import RunFailedError
from frazil.spark.session import spark_session
from frazil.testing import oracle
from frazil.testing.changes import COLUMNS, as_files, oracle_changes, random_history, write_csv

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.end_to_end.engines import Engines

    from frazil.testing.changes import Record

KEYS: Final = 6
GOLD: Final = (
    "select qty, count(*) as living, max(name) as name, max(note) as note from {{ hard }} where qty is not null "
    "group by qty"
)
SHOWN: Final = {
    "marts.hard": [*COLUMNS],
    "marts.soft": [*COLUMNS, "is_deleted"],
    "marts.close": [*COLUMNS, "valid_from", "valid_to", "is_current", "is_deleted"],
    "gold.living": ["qty", "living", "name", "note"],
}
TABLES: Final = {
    "bronze.things": 2,
    "silver.things_changes": 3,
    "marts.hard": 3,
    "marts.soft": 2,
    "marts.close": 3,
    "gold.living": 3,
}
"""Table -> how often it is drawn."""
ROW_ACTS: Final = {"update rows", "delete rows", "insert rows"}
"""After these a run is not promised to heal the rows, but `check` finds them."""
COLUMN_ACTS: Final = {"rename a column", "drop a column", "swap two columns", "drop a column and add it again"}
NOT_FOR_BRONZE: Final = {"widen a type"}
"""All columns of bronze are texts."""
MIDDLE: Final = (
    "bronze.before_publish",
    "silver.before_publish",
    "mart.before_rows",
    "mart.before_publish",
    "gold.before_publish",
)
"""Failpoints at which another engine acts in the middle of a run."""
REBUILD: Final = {"FZ503", "FZ710", "FZ702"}
"""Where bronze is not the table: what `run --full-refresh` repairs."""
AGAIN: Final = {"FZ600", "FZ601"}
MOST_WAYS: Final = 4


Refused = list[tuple[str, str]]
"""What a run came to: code and message of each error; nothing where it was done."""


class StuckError(AssertionError):
    """A pipeline for which there is no way out."""


@dataclass(kw_only=True)
class ForeignHands:
    """A pipeline, and what others do to its tables.

    Attributes:
        folder: of its declaration.
        prefix: of the names of its namespaces.
        files: all that arrive in the end: name -> records.
        landed: those that have.
        acts: act and engine -> how often it was done.
        hurt: layers with rows that others wrote, since all was right.
        said: what happened, a line each.
        faults: what must not have happened.
    """

    lot: Random
    engines: Engines
    folder: Path
    prefix: str
    files: dict[str, list[Record]]
    landed: dict[str, list[Record]] = field(default_factory=dict)
    acts: Counter[str] = field(default_factory=Counter)
    hurt: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    number: int = 0

    def live(self, rounds: int) -> None:
        """Let files arrive and others act, round by round; after each the tables must be right, or a run refuse."""
        first, *others = sorted(self.files)
        try:
            self._arrive([first])
            self._settle(self._run())
            for number in range(rounds):
                self.say(f"round {number}")
                done = [self._act() for _ in range(self.lot.choice((1, 1, 2, 3)))]
                self._look(done)
                self._arrive(others[number * len(others) // rounds : (number + 1) * len(others) // rounds])
                with self._beside():
                    codes = self._run()
                self._settle(codes)
        except StuckError as error:
            self.faults.append(f"{error}")
        except Exception as error:
            error.add_note("\n".join(self.said))
            raise

    def say(self, line: str) -> None:
        """Note what happened."""
        self.said.append(f"{time.strftime('%H:%M:%S')} {line}")

    def _arrive(self, names: list[str]) -> None:
        for name in names:
            self.landed[name] = self.files[name]
            (self.folder / "landing" / name).write_bytes(write_csv(self.files[name]))

    def _act(self, engine: str = "", act: str = "", table: str = "") -> tuple[str, str]:
        """Let an engine alter a table, each of them drawn where it is not given; the act and the table."""
        table = table or self.lot.choices([*TABLES], [*TABLES.values()])[0]
        acts = [act for act in ACTS if not (table.startswith("bronze") and act in NOT_FOR_BRONZE)]
        act = act or self.lot.choice([one for one in acts if not engine or engine in ACTS[one]])
        engine = engine or self.lot.choice([*ACTS[act]])
        self.number += 1
        key, value = ("qty", "1") if table.startswith("gold") else ("id", f"{self.lot.randint(1, KEYS)}")
        target = Target(
            engines=self.engines,
            lot=self.lot,
            name=f"{self.prefix}{table}",
            key=key,
            where=f"{key} = '{value}'" if table.startswith("bronze") else f"{key} = {value}",
            number=self.number,
        )
        try:
            ACTS[act][engine](target)
        except Exception as error:  # noqa: BLE001 - an engine may refuse what it is told
            self.say(f"    {engine} refuses to {act} {table}: {f'{error}'[:300]}")
            self.acts[f"{act} refused"] += 1
            return "", table
        self.say(f"    {engine}: {act} {table} ({target.column}, {target.where}) [{self.number}]")
        self.acts[f"{act} by {engine}"] += 1
        if act in ROW_ACTS:
            self.hurt.add(table.partition(".")[0])
        return act, table

    @contextmanager
    def _beside(self) -> Iterator[None]:
        """Let others act between plan and start of a run, or in its middle, or not."""
        how = self.lot.choice(("", "", "", "planned", "middle"))
        place = self.lot.choice(MIDDLE)
        if how == "planned":
            planned = running._plan

            def plan_and_be_second(*given: Any, **named: Any) -> Any:
                found = planned(*given, **named)
                self.say("    between plan and start:")
                self._act()
                return found

            with patch.object(running, "_plan", plan_and_be_second):
                yield
        elif how == "middle":

            def act(*_: Any) -> None:
                self.say(f"    at {place}:")
                self._act(self.lot.choice(("trino", "pyiceberg")))

            system = SimpleNamespace(environ=os.environ, getpid=os.getpid, kill=act)
            with patch("frazil.failpoints.os", system), patch.dict(os.environ, FRAZIL_FAILPOINT=f"{place}:stop"):
                yield
        else:
            yield

    def _look(self, done: list[tuple[str, str]]) -> None:
        """Plan, ask for the status and check, which must say what would be read wrong."""
        codes = [one.code for one in api.plan(self.folder).errors]
        api.status(self.folder)
        wrong = self._check()
        self.say(f"    plan says {codes}, check finds {wrong}")
        [(act, table), *others] = done
        must_say = act in COLUMN_ACTS and not others and not table.startswith("gold")
        if must_say and not any("FZ710" in one for one in wrong):
            self.faults.append(f"{act} of {table} is not found by check: {wrong}")

    def _check(self) -> list[str]:
        try:
            found = [proof for proof in api.check(self.folder) if proof.ok is False]
        except FrazilError as error:
            return [f"{error.code} {error.message}"]
        return [f"{one.code} {one.law} {one.table}: {one.detail}" for one in found]

    def _run(self, *, rebuild: bool = False) -> Refused:
        """Run; code and message of each error."""
        try:
            spark = self.engines.spark if self.lot.random() < 0.3 else None  # given one, it plans in Java
            api.run(self.folder, spark=spark, rebuild=rebuild)
        except RunFailedError as error:
            found = [(one.code, one.message) for one in error.report.errors]
        except FrazilError as error:
            found = [(error.code, error.message)]
        else:
            found = []
        self.say(f"    run{' --full-refresh' if rebuild else ''}: {found or 'done'}")
        return found

    def _settle(self, codes: Refused) -> None:
        """Run until it is done, by the ways out that are documented, and see that the tables are right then."""
        for _ in range(MOST_WAYS):
            if codes:
                codes = self._way_out(codes)
        if codes:
            raise StuckError(f"no way out of {codes}")
        if not api.plan(self.folder).is_idle:
            # Bronze was set back: its files come with the run after the one that makes the other tables of it again.
            codes = self._run()
        wrong, found = self.wrong_rows(), self._check()
        hurt, self.hurt = self.hurt, set()
        if not (wrong or found or codes):
            return
        self.say(f"    wrong: {wrong[:4]}; check finds {found}; others wrote {hurt}")
        of_marts = [one for one in wrong if not one.startswith("gold")]
        if codes or not hurt or (hurt == {"gold"} and (of_marts or found)):
            self.faults.append(f"after a run: {codes} {wrong[:4]}; check finds {found}")
        elif of_marts and not found:
            self.faults.append(f"check does not find {wrong[:4]}")
        self._repair(bronze="bronze" in hurt)

    def _way_out(self, codes: Refused) -> Refused:
        """Do what docs/recovery.md says."""
        known = {code for code, _ in codes}
        of_bronze = any("bronze" in said.partition(":")[0] for _, said in codes)
        if known & REBUILD and of_bronze:
            self._take_again()
            return self._run()
        if known & REBUILD:
            return self._run(rebuild=True)
        if "FZ703" in known:
            self.say(f"    doctor --repair: {api.repair(self.folder)}")
            return self._run()
        if known <= AGAIN:
            return self._run()
        raise StuckError(f"no way out is written down: {codes}")

    def _repair(self, *, bronze: bool) -> None:
        """Remove the rows that others wrote."""
        if bronze:
            self._take_again()
        codes = self._run(rebuild=not bronze)
        wrong, found = self.wrong_rows(), self._check()
        if codes or wrong or found:
            raise StuckError(f"after the repair: {codes} {wrong[:4]} {found}")

    def _take_again(self) -> None:
        self.say(f"    drop: {api.drop(self.folder, api.droppable(self.folder, ['things']))}")

    def wrong_rows(self) -> list[str]:
        """Compare all tables with the oracle."""
        changes = oracle_changes(self.landed)
        want = {
            "marts.hard": oracle.current(changes, [*COLUMNS]),
            "marts.soft": oracle.soft(changes, [*COLUMNS]),
            "marts.close": oracle.history(changes, [*COLUMNS], ("name", "qty", "note"), "close"),
        }
        want["gold.living"] = _living(want["marts.hard"])
        found = []
        for table, columns in SHOWN.items():
            try:
                rows = api.query(self.folder, f"SELECT {', '.join(columns)} FROM {self.prefix}{table}").rows
            except FrazilError as error:
                found.append(f"{table} cannot be read: {error}")
                continue
            have, right = Counter(rows), Counter(tuple(row[name] for name in columns) for row in want[table])
            found += [f"{table} has {count} x {row}" for row, count in (have - right).items()]
            found += [f"{table} lacks {count} x {row}" for row, count in (right - have).items()]
        return found


def _living(rows: list[oracle.Row]) -> list[oracle.Row]:
    groups: dict[int, list[oracle.Row]] = {}
    for row in rows:
        if row["qty"] is not None:
            groups.setdefault(row["qty"], []).append(row)

    def greatest(some: list[oracle.Row], name: str) -> str | None:
        texts = [row[name] for row in some if row[name] is not None]
        return max(texts, key=str.encode) if texts else None

    return [
        {"qty": qty, "living": len(some), "name": greatest(some, "name"), "note": greatest(some, "note")}
        for qty, some in groups.items()
    ]


def new_hands(seed: int, engines: Engines, folder: Path, tag: int = 0) -> ForeignHands:
    """Draw a history; its pipeline shares the lake with others, in namespaces of its own."""
    (folder / "landing").mkdir()
    prefix = f"h{tag}_{seed}_"
    things = {
        "name": "things",
        "source": {"kind": "dms", "path": "./landing", "header": True},
        "keys": ["id"],
        "sequence_by": ["ts"],
        "max_bad_fraction": 1,
        "columns": [{"name": column, "type": kind} for column, kind in COLUMNS.items()],
        "marts": [
            {"kind": "current", "name": "hard"},
            {"kind": "current", "name": "soft", "deletes": "soft"},
            {"kind": "history", "name": "close"},
        ],
    }
    lake = {
        "warehouse": f"{engines.lake}",
        "namespaces": {layer: f"{prefix}{layer}" for layer in ("bronze", "silver", "marts", "gold")},
    }
    declared = {
        "pipeline": f"{prefix}hands",
        "lake": lake,
        "tables": [things],
        "gold": [{"name": "living", "materialized": "incremental", "sql": GOLD}],
    }
    (folder / "frazil.yml").write_text(json.dumps(declared))
    spark_session(api.load(folder))
    return ForeignHands(
        lot=Random(seed),
        engines=engines,
        folder=folder,
        prefix=prefix,
        files=as_files(random_history(seed, size=60, keys=KEYS), seed, parts=8),
    )
