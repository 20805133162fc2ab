"""Random walks over declarations: what a user may change from one day to the next, and what must come of it.

A walk has a landing folder, a table and a declaration of it. Each step changes the declaration, lets files arrive, or
both, and runs. Afterwards the marts hold what a fresh lake of that declaration makes of the same files; or the table
was refused, its marts are as they were, and the next step begins from the declaration before.

Walks go side by side, each as a table of one pipeline: a run and a look at the lake cost much less a table that way.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.properties.drawn_declarations import Declaration, changed, first

import frazil
from frazil.catalog.catalogs import NoLakeError
from frazil.duck import connect, scan
from frazil.errors import DeclarationProblems, FrazilError
from frazil.failpoints import FAILPOINTS, FailpointReached
from frazil.iceberg.metadata import local_path
from frazil.plan.policy import DEFAULT_POLICY, Policy
from frazil.runner.options import RunOptions
from frazil.runner.report import RunFailedError
from frazil.serve.query.query import result_of
from frazil.serve.tables import tables
from frazil.spark.session import spark_session
from frazil.spec.load.parse import parse_declaration
from frazil.testing.changes import as_files, random_history, write_csv

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pytest
    from duckdb import DuckDBPyConnection as Connection

    from frazil.catalog.catalogs import Located
    from frazil.spec import Pipeline
    from frazil.testing.changes import Record

REFUSED: Final = {2, 6}
"""Exit codes that a declaration may be refused with."""
KILLS: Final = tuple(
    name
    for name in FAILPOINTS
    if not name.startswith(("gold.", "fold.", "maintain.", "certificate.", "capture.", "replay.", "cut.", "rollback."))
)
"""Failpoints that a run of tables can reach."""
BUSY: Final = Policy(compact_every=2, compact_partition_files=2, small_file_share=1.0, plain=False, driver_scan_bytes=0)
"""Compacts often, however small the tables are, and lets Spark type all values and find all rows."""


@dataclass(eq=False)
class Walk:
    """A walk, and its progress.

    Attributes:
        seed: seed of the draw, and its number.
        landing: its folder.
        steps: number of steps.
        declared: the declaration of the last run.
        wanted: the declaration of the next run.
    """

    seed: int
    landing: Path
    steps: int
    declared: Declaration | None = None
    wanted: Declaration = field(init=False)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        history = random_history(self.seed, size=12 * self.steps)
        self.files = iter(as_files(history, self.seed, parts=self.steps, narrow=0.3).items())

    def go_on(self, number: int) -> None:
        """Let a file arrive, or none, and draw what is wanted next."""
        if number == 0 or self.chance.random() < 0.7:
            self._deliver(self.files)
        self.wanted = first(self.chance) if self.declared is None else changed(self.declared, self.chance)

    def _deliver(self, files: Iterator[tuple[str, list[Record]]]) -> None:
        for name, records in files:
            if records:
                self.landing.mkdir(parents=True, exist_ok=True)
                (self.landing / name).write_bytes(write_csv(records))
                return


class Walks:
    """Walks side by side over one lake.

    Attributes:
        found: a sentence per difference from a fresh lake or, where a table was refused, from the lake before.
        refused: codes of the refusals, one for each.
    """

    def __init__(self, folder: Path, seeds: Iterable[int], steps: int, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.steps, self.patch = folder, steps, patch
        self.walks = [Walk(seed, folder / "landing" / f"{seed}", steps) for seed in seeds]
        self.chance = Random(self.walks[0].seed)
        self.found: list[str] = []
        self.refused: list[str] = []
        self.fresh = 0
        self._known: dict[str, dict[str, list[str]]] = {}

    def take(self) -> None:
        """Take all steps.

        A fresh lake costs as much as a step: there is one halfway and one at the end, when every walk that was refused
        has gone back to the declaration before.
        """
        refused: list[Walk] = []
        for number in range(self.steps):
            for walk in self.walks:
                walk.go_on(number)
            refused = self._step(f"step {number}", self.walks, kill=self.chance.random() < 0.3)
            if number == self.steps // 2:
                self._compare(f"step {number}", [walk for walk in self.walks if walk not in refused])
        for walk in refused:
            walk.wanted = walk.declared or walk.wanted
        refused = self._step("back", [walk for walk in refused if walk.declared]) if refused else []
        self._compare("end", [walk for walk in self.walks if walk.declared and walk not in refused])

    def _step(self, when: str, walks: Iterable[Walk], *, kill: bool = False) -> list[Walk]:
        """Run with what is wanted, which is then declared; give the walks that were refused."""
        wanted = {walk: walk.wanted for walk in walks}
        before = self._located("lake")
        policy = self.chance.choice((DEFAULT_POLICY, BUSY))
        if kill:
            self.patch.setenv("FRAZIL_FAILPOINT", f"{self.chance.choice(KILLS)}:raise")
            self._judge(f"{when}, to be killed", self._run(wanted, "lake", policy))
            self.patch.delenv("FRAZIL_FAILPOINT")
        refused = self._run(wanted, "lake", policy)
        self._judge(when, refused)
        self.refused += [error.code for errors in refused.values() for error in errors]
        after = self._located("lake")
        with connect(after) as read:
            for walk in refused:
                if walk.declared:
                    self._note(when, walk, self._content(read, walk, before), self._content(read, walk, after))
        for walk in wanted.keys() - refused.keys():
            walk.declared = walk.wanted
        return [*refused]

    def _judge(self, when: str, failed: Mapping[Walk, Sequence[FrazilError]]) -> None:
        for walk, error in ((walk, error) for walk, errors in failed.items() for error in errors):
            if error.exit_code not in REFUSED and not isinstance(error.__cause__, FailpointReached):
                self._tell(when, walk, f"was refused with exit {error.exit_code}: {error}")

    def _compare(self, when: str, walks: Iterable[Walk]) -> None:
        """Compare with a fresh lake of what is declared, over the same files."""
        declared = {walk: walk.declared for walk in walks if walk.declared}
        self.fresh += 1
        lake = f"fresh-{self.fresh}"
        refused = self._run(declared, lake, DEFAULT_POLICY)
        have, want = self._located("lake"), self._located(lake)
        for walk, errors in refused.items():
            self._tell(when, walk, f"a fresh lake is refused: {errors[0]}")
        with connect(have) as read, connect(want) as read_fresh:
            for walk in declared.keys() - refused.keys():
                self._note(when, walk, self._content(read, walk, have), self._content(read_fresh, walk, want))

    def _note(self, when: str, walk: Walk, have: dict[str, list[str]], want: dict[str, list[str]]) -> None:
        for what in _differences(have, want):
            self._tell(when, walk, what)

    def _tell(self, when: str, walk: Walk, what: str) -> None:
        self.found.append(f"{walk.seed}, {when}, from {walk.declared} to {walk.wanted}: {what}")

    def pipeline(self, declared: Mapping[Walk, Declaration], lake: str) -> Pipeline:
        """Build the pipeline of declarations over one of the lakes."""
        listed = "".join(declaration.yaml(walk.seed) for walk, declaration in declared.items())
        return parse_declaration(f"pipeline: walks\nlake: {{warehouse: ./{lake}}}\ntables:{listed}").at(self.folder)

    def _run(self, wanted: Mapping[Walk, Declaration], lake: str, policy: Policy) -> dict[Walk, list[FrazilError]]:
        """Run; give the errors that declarations were refused with.

        What a declaration says by itself refuses the whole pipeline, so such a one does not come along.
        """
        refused: dict[Walk, list[FrazilError]] = {}
        for walk, declaration in wanted.items():
            try:
                self.pipeline({walk: declaration}, lake)
            except DeclarationProblems as error:
                refused[walk] = [error]
        rest = {walk: declaration for walk, declaration in wanted.items() if walk not in refused}
        if not rest:
            return refused
        pipeline = self.pipeline(rest, lake)
        try:
            frazil.run(pipeline, spark=spark_session(pipeline), options=RunOptions(policy=policy))
        except RunFailedError as error:
            raised = iter(error.errors)
            for walk, table in zip(rest, error.report.tables, strict=True):
                if table.errors:
                    refused[walk] = [next(raised) for _ in table.errors]
        return refused

    def _located(self, lake: str) -> Located:
        """Give the tables of a lake, as they are at this moment: their metadata files."""
        try:
            return tables(self.pipeline({self.walks[0]: first(Random(0))}, lake))
        except NoLakeError:
            return {}

    def _content(self, read: Connection, walk: Walk, located: Located) -> dict[str, list[str]]:
        """Read what users see of a walk's table: rows and columns of marts, partitions, and the quarantine."""
        assert walk.declared
        quarantine = f"{walk.declared.table}_{walk.seed}_quarantine"
        paths = [("marts", f"{name}_{walk.seed}") for name, _ in walk.declared.marts] + [("silver", quarantine)]
        content: dict[str, list[str]] = {}
        for path in paths:
            location = located[path]
            if location not in self._known:
                self._known[location] = (_bad if path[0] == "silver" else _mart)(read, location)
            content |= {f"{what} of {path[1]}": lines for what, lines in self._known[location].items()}
        return content


def _mart(read: Connection, location: str) -> dict[str, list[str]]:
    content = result_of(read.sql(f"SELECT * FROM {scan(location)}"))
    order = sorted(range(len(content.columns)), key=lambda at: content.columns[at])
    return {
        "columns": [content.columns[at] for at in order],
        "rows": sorted(repr([row[at] for at in order]) for row in content.rows),
        "layout": [_layout(location)],
    }


def _bad(read: Connection, location: str) -> dict[str, list[str]]:
    content = result_of(read.sql(f"SELECT _cdc_file, _cdc_row, rule, reason, raw FROM {scan(location)}"))
    # Fields stand in the order in which they first came, which a fresh lake sees otherwise.
    return {"records": sorted(repr([*row[:-1], sorted(json.loads(row[-1]).items())]) for row in content.rows)}


def _layout(location: str) -> str:
    """Read partitions, sort order and format of a table, and the property that walks set."""
    path = local_path(location)
    assert path
    metadata: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    spec = next(spec for spec in metadata["partition-specs"] if spec["spec-id"] == metadata["default-spec-id"])
    order = next(order for order in metadata["sort-orders"] if order["order-id"] == metadata["default-sort-order-id"])
    parts = [(part["name"], part["transform"]) for part in spec["fields"]]
    kept = (len(order["fields"]), metadata["format-version"], metadata["properties"].get("comment"))
    return f"{parts} {kept}"


def _differences(have: dict[str, list[str]], want: dict[str, list[str]]) -> list[str]:
    found = []
    for name in sorted(have.keys() | want.keys()):
        left, right = have.get(name, []), want.get(name, [])
        if left != right:
            found.append(f"{name}: has {_beyond(left, right)}, lacks {_beyond(right, left)}")
    return found


def _beyond(some: list[str], others: list[str]) -> list[str]:
    rest = list(others)
    return [one for one in some if one not in rest or rest.remove(one)][:3]  # type: ignore[func-returns-value]
