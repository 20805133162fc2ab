"""A lake by lot: tables of every kind side by side, in runs that are killed, and what the oracle says of them."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.properties.drawn_database import COLUMNS
from tests.properties.drawn_tables import DrawnTable
from tests.properties.strategies import STRATEGIES, go_by, go_by_lot

import frazil
from frazil.duck import connect, scan
from frazil.failpoints import FAILPOINTS, FailpointReached
from frazil.plan.policy import DEFAULT_POLICY
from frazil.runner.options import RunOptions
from frazil.runner.report import RunFailedError
from frazil.serve.check.check import check
from frazil.serve.query.query import result_of
from frazil.serve.tables import tables
from frazil.sources.capture import Landed
from frazil.sources.postgres.capture import PostgresCapture
from frazil.spark.session import spark_session
from frazil.spec.load.parse import parse_declaration
from frazil.testing.oracle import Change, current, history, soft

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import pytest
    from tests.properties.drawn_database import Key, Logged, Row

    from frazil.spec import Pipeline

KILLS: Final = tuple(name for name in FAILPOINTS if name.startswith(("bronze.", "silver.", "quarantine.", "mart.")))
_NAMES: Final = ("h", "id", *COLUMNS)


class DrawnLake:
    """Tables over one lake.

    Attributes:
        found: a sentence for each difference from the oracle.
        seen: how often something happened that the suite is there for.
    """

    def __init__(
        self, folder: Path, seed: int, kinds: Iterable[str], patch: pytest.MonkeyPatch, *, groups: int, steps: int
    ) -> None:
        self.folder, self.patch, self.steps = folder, patch, steps
        self.chance = Random(seed)
        self.tables = [
            DrawnTable(kind, seed, Random(f"{kind} {seed}"), groups, steps, spoils=self.chance.random() < 0.5)
            for kind in kinds
        ]
        self.found: list[str] = []
        self.seen: Counter[str] = Counter()
        patch.setattr(PostgresCapture, "land", lambda *_: Landed())
        patch.setattr(PostgresCapture, "is_whole", lambda *_: True)
        go_by_lot(self.chance, patch, share=0.3)

    def live(self, *, rebuild: bool = True) -> None:
        """Let everything arrive; compare after each run, and after a rebuild."""
        for step in range(self.steps + 1):
            for table in self.tables:
                table.deliver(self.folder)
                if step and table.chance.random() < 0.25:
                    table.deliver(self.folder, again=True)
            if self.chance.random() < 0.5:
                self.run(f"step {step}", self.chance.choice(KILLS))
            self.run(f"step {step}")
            self.compare(f"step {step}")
        if rebuild:
            self.run("the rebuild", rebuild=True)
            self.compare("the rebuild")
        self.found += [f"check: {finding}" for finding in check(self.pipeline()) if finding.ok is False]

    def pipeline(self) -> Pipeline:
        """Build the pipeline of all tables."""
        listed = "".join(table.yaml() for table in self.tables)
        return parse_declaration(f"pipeline: drawn\nlake: {{warehouse: ./lake}}\ntables:{listed}").at(self.folder)

    @contextmanager
    def _killed(self, place: str | None) -> Iterator[None]:
        if place is not None:
            self.patch.setenv("FRAZIL_FAILPOINT", f"{place}:raise")
        yield
        self.patch.delenv("FRAZIL_FAILPOINT", raising=False)

    def run(self, when: str, place: str | None = None, *, rebuild: bool = False) -> None:
        """Run once, or up to a failpoint."""
        pipeline = self.pipeline()
        usual = self.chance.random() < 0.7
        options = RunOptions(policy=DEFAULT_POLICY if usual else go_by(self.chance.choice(STRATEGIES)))
        try:
            with self._killed(place), suppress(FailpointReached):
                frazil.run(pipeline, spark=spark_session(pipeline), rebuild=rebuild, options=options)
        except RunFailedError as error:
            killed = [one for one in error.errors if isinstance(one.__cause__, FailpointReached)]
            self.seen["killed"] += len(killed)
            self.found += [f"{when}: {one.code} {one}" for one in error.errors if one not in killed]
        finally:
            self.patch.delenv("FRAZIL_FAILPOINT", raising=False)

    def compare(self, when: str) -> None:
        """Compare all marts with the oracle, and quarantine with what is wrong."""
        located = tables(self.pipeline())
        with connect(located) as read:
            # Of a change whose messages are in partitions that lag only some may have come.
            for table in (one for one in self.tables if one.partitions == 1 or not one.arrivals):
                for mart, rows in expected(table).items():
                    names = [name for name in rows[0] if not name.startswith("_cdc")] if rows else [*_NAMES]
                    listed = ", ".join(f'"{name}"' for name in names)
                    path = located["marts", f"{table.name}_{mart}"]
                    have = Counter(map(_plain, result_of(read.sql(f"SELECT {listed} FROM {scan(path)}")).rows))
                    want = Counter(_plain([row[name] for name in names]) for row in rows)
                    if have != want:
                        more, less = sorted((have - want).elements()), sorted((want - have).elements())
                        self.found.append(f"{when}: {table.name} {table.order} {mart} has {more}, lacks {less}")
                bad = scan(located["silver", f"{table.name}_quarantine"])
                found = result_of(read.sql(f"SELECT reason FROM {bad}")).rows
                wrong = {one.number for part in table.arrived for one in part.logged if one.spoiled}
                if len(found) < len(wrong):
                    self.found.append(f"{when}: {table.name} has {found} in quarantine, not {sorted(wrong)}")
                self.seen["bad"] += len(found)


def _plain(row: Iterable[Any]) -> str:
    return repr([one.replace(tzinfo=UTC) if isinstance(one, datetime) and one.tzinfo is None else one for one in row])


def expected(table: DrawnTable) -> dict[str, list[dict[str, Any]]]:
    """Ask the oracle what the marts of a table hold."""
    changes = changes_of(table)
    tracked = [name for name in COLUMNS if name != "at" or table.order == "place"]
    held, past = table.marts
    rows = current(changes, _NAMES) if held == "hard" else soft(changes, _NAMES)
    return {held: rows, past: history(changes, _NAMES, tracked, past)}


def came(table: DrawnTable) -> list[tuple[Logged, datetime | None]]:
    """Return what has arrived, in the order of the source; for Amazon DMS with the time of its file."""
    parts = sorted(table.arrived, key=lambda part: part.number)
    return [(one, table.file_time(part) if table.kind == "dms" else None) for part in parts for one in part.logged]


def changes_of(table: DrawnTable) -> list[Change]:
    """Return the accepted changes."""
    found: list[Change] = []
    rows: dict[Key, list[Row | None]] = {}  # None for one that came by a bad record
    stale: dict[Key, Row] = {}  # what keys show of rows that left by one
    truncates: list[Change] = []
    for one, file_time in came(table):
        time = file_time if table.kind == "dms" else one.time
        base = Change(
            key=one.key,
            sequence=(),
            position=f"{one.number:06}",
            row=1,
            deleted=one.op in "DT",
            values={},
            event_time=one.time if table.order == "place" else None,
            source_time=time,
            of_move=one.moves,
            bad=bool(one.spoiled),
        )
        if one.op == "T":
            truncates.append(base)
            rows.clear()
            stale.clear()
            continue
        if one.op == "D":
            rows[one.key] = []
            stale.pop(one.key, None)
            found += _deletes(table, base, table.image(one))
            continue
        texts = one.texts
        if one.moves and one.old_key is not None:
            there = rows.get(one.old_key, [])
            row = there.pop(0) if there else None
            texts = {name: texts.get(name, (row or stale.get(one.old_key, {})).get(name)) for name in COLUMNS}
            rows.setdefault(one.key, []).append(None if one.spoiled else texts)
            # Of Debezium the delete is a record of its own.
            is_bad = bool(one.spoiled) and not table.is_debezium
            image = table.image_of_move(one) if one.spoiled else texts
            left = replace(base, key=one.old_key, deleted=True, bad=is_bad)
            found += _deletes(table, left, image)
            _leave(stale, one.old_key, row, is_bad=is_bad)
        elif one.spoiled:
            rows[one.key] = rows.get(one.key) or [None]
        else:
            rows[one.key] = [{**((rows.get(one.key) or [None])[-1] or stale.get(one.key, {})), **texts}]
        if one.spoiled:
            found.append(base)
            continue
        stale.pop(one.key, None)
        values = {name: _typed(name, text) for name, text in texts.items()}
        found.append(_timed(table, replace(base, values=values | {"h": one.key[0], "id": one.key[1]}), texts))
    emptied = [
        replace(truncate, key=key, bad=key not in {change.key for change in older if not change.bad})
        for truncate in truncates
        for older in ([change for change in found if change.position < truncate.position],)
        for key in {change.key for change in older}
    ]
    return [*found, *emptied]


def _deletes(table: DrawnTable, change: Change, image: Mapping[str, str | None]) -> list[Change]:
    """Return a delete; of Debezium its tombstone too, which tells no sequence."""
    told = _timed(table, change, image)
    is_alone = not table.is_debezium or table.order != "sequenced"
    return [told] if is_alone else [told, _timed(table, replace(change, row=2, again=True), {})]


def _leave(stale: dict[Key, Row], key: Key, row: Row | None, *, is_bad: bool) -> None:
    """Keep what a key shows of a row that left by a bad record; what is known to have left is gone."""
    if not is_bad:
        stale.pop(key, None)
    elif row is not None:
        stale[key] = row


def _timed(table: DrawnTable, change: Change, texts: Mapping[str, str | None]) -> Change:
    """Give a change the time that its record tells, as its sequence or its event time."""
    at = _typed("at", texts.get("at"))
    if table.order == "place":
        return change
    return replace(change, event_time=at, sequence=(at,) if table.order == "sequenced" else ())


def _typed(name: str, text: str | None) -> Any:
    if text is None or name in ("v", "big"):
        return text
    if name == "n":
        return int(text)
    moment, _, digits = text.partition(".")
    time = datetime.fromisoformat(moment).replace(microsecond=int(digits.ljust(6, "0")[:6]))
    return time.replace(tzinfo=UTC)
