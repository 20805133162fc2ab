"""Many random histories at once: one table keyed by (history, id), so one run tests them all."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import frazil
from frazil.testing import oracle
from frazil.testing.changes import COLUMNS, as_files, deliveries, oracle_changes, random_history, write_csv

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.testing.changes import Record

TRACKED = ("name", "qty", "note")

DECLARATION = """
pipeline: laws
lake: {warehouse: ./lake}
tables:
  - name: things
    source: {kind: dms, path: ./landing, header: true}
    keys: [h, id]
    sequence_by: [ts]
    columns:
      - {name: h, type: int}
      - {name: id, type: int}
      - {name: ts, type: timestamp}
      - {name: name, type: string}
      - {name: qty, type: int}
      - {name: note, type: string}
    marts:
      - {kind: current, name: hard}
      - {kind: current, name: soft, deletes: soft}
      - {kind: history, name: close}
      - {kind: history, name: mark, deletes: mark}
"""

MARTS = ("hard", "soft", "close", "mark")


@dataclass
class World:
    """A lake, a landing folder, and all the histories that will arrive there.

    Attributes:
        folder: where the declaration, the landing folder and the lake are.
        histories: number -> file name -> records, with the key column ``h`` in each record.
        runs: what arrives before each run: (history, file name) pairs.
    """

    folder: Path
    histories: dict[int, dict[str, list[Record]]] = field(default_factory=dict)
    runs: list[list[tuple[int, str]]] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path, seeds: range, *, size: int = 30, narrow: float = 0.0) -> World:
        """Draw a history per seed, split into files and runs."""
        world = cls(folder)
        for seed in seeds:
            files = as_files(random_history(seed, size=size), seed, narrow=narrow)
            world.histories[seed] = {name: [{**record, "h": str(seed)} for record in records] for name, records in files.items()}
            for number, names in enumerate(deliveries(files, seed)):
                if number == len(world.runs):
                    world.runs.append([])
                world.runs[number] += [(seed, name) for name in names]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
        (folder / "landing").mkdir(exist_ok=True)
        return world

    def deliver(self, number: int) -> None:
        """Put the files of one run into the landing folder; a file that is there already comes under another name."""
        for history, name in self.runs[number]:
            path = self.folder / "landing" / f"{history}" / name
            path.parent.mkdir(exist_ok=True)
            if path.exists():
                path = path.with_name(f"zz-again-{number}-{name}")
            path.write_bytes(write_csv(self.histories[history][name]))

    def run(self, spark: SparkSession, *, rebuild: bool = False) -> frazil.engine.report.RunReport:
        """Run the pipeline as a user does."""
        return frazil.run(frazil.load(self.folder), spark=spark, rebuild=rebuild)

    def differences(self, spark: SparkSession) -> list[str]:
        """Compare every mart with the oracle; a sentence per row that only one of them has."""
        pipeline = frazil.load(self.folder)
        del pipeline
        found = []
        for mart in MARTS:
            have = {_frozen(row.asDict()) for row in spark.table(f"lake.marts.{mart}").collect()}
            count = spark.table(f"lake.marts.{mart}").count()
            if count != len(have):
                found.append(f"{mart} has {count - len(have)} rows twice")
            want = {_frozen(row) for row in self.expected(mart)}
            found += [f"{mart} has {row}" for row in sorted(have - want, key=str)]
            found += [f"{mart} lacks {row}" for row in sorted(want - have, key=str)]
        return found

    def expected(self, mart: str) -> list[dict[str, Any]]:
        """What the oracle says a mart holds."""
        columns = list(COLUMNS)
        rows = []
        for history, files in self.histories.items():
            changes = oracle_changes({name: [_without_h(record) for record in records] for name, records in files.items()})
            match mart:
                case "hard":
                    mine = oracle.current(changes, columns)
                case "soft":
                    mine = oracle.soft(changes, columns)
                case _:
                    mine = oracle.history(changes, columns, TRACKED, mart)  # type: ignore[arg-type]
            rows += [{"h": history, **row} for row in mine]
        return rows


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
