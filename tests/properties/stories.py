"""Stories side by side over one lake: a table each, so that a run and a look at the lake cost little a story."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.clock import set_today
from tests.failing import Disk, leave_half_a_version
from tests.properties.story import Story
from tests.properties.story_source import BEGIN, SPOILED, write
from tests.properties.strategies import STRATEGIES, go_by, go_by_lot

import frazil
from frazil.duck import connect, scan
from frazil.failpoints import FAILPOINTS, FailpointReached
from frazil.past import correct
from frazil.plan.policy import DEFAULT_POLICY
from frazil.recover.catalog import repair_catalog
from frazil.runner.options import RunOptions
from frazil.runner.report import RunFailedError
from frazil.serve.check.check import check
from frazil.serve.corrections import read_corrections, write_corrections
from frazil.serve.query.query import result_of
from frazil.serve.tables import read_snapshot, tables
from frazil.silver.baseline import baseline_of
from frazil.sources.capture import Landed
from frazil.sources.postgres.capture import PostgresCapture
from frazil.spark.session import spark_session
from frazil.spec.load.parse import parse_declaration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pytest
    from duckdb import DuckDBPyConnection as Connection

    from frazil.catalog.catalogs import Located
    from frazil.spec import Pipeline

KILLS: Final = tuple(
    name for name in FAILPOINTS if name.startswith(("bronze.", "silver.", "quarantine.", "mart.", "merge.", "fold."))
)
_REPLAY_KILLS: Final = ("replay.before_publish", "replay.after_publish")
_DAYS_A_STEP: Final = 16
_FORCED: Final = 0.3
"""Share of the runs, and of the batches of marts, that do not go the usual way, which costs the least."""
_HALVES: Final = 0.2
"""Share of the tables of a run that was killed that have half of a next version."""


_CUTS: Final = 0.5
"""Share of the runs that were killed whose machine lost its power."""


class Stories:
    """Stories over one lake.

    Attributes:
        found: a sentence for each difference from the oracle.
        seen: how often something happened that the suite is there for.
    """

    def __init__(
        self, folder: Path, seeds: Iterable[int], patch: pytest.MonkeyPatch, *, steps: int = 4, size: int = 14
    ) -> None:
        self.folder, self.patch, self.steps = folder, patch, steps
        self.stories = [Story(seed, size, steps) for seed in seeds]
        self.chance = Random(self.stories[0].seed)
        self.found: list[str] = []
        self.seen: Counter[str] = Counter()
        self.today = BEGIN.date()
        self.disk = Disk(folder / "lake", patch)
        set_today(patch, lambda: self.today)
        patch.setattr(PostgresCapture, "land", lambda *_: Landed())
        patch.setattr(PostgresCapture, "is_whole", lambda *_: True)
        go_by_lot(self.chance, patch, share=_FORCED)

    def deliver(self, step: int) -> None:
        """Let files arrive, some of them again, and let some stories be declared otherwise."""
        self.today += dt.timedelta(days=_DAYS_A_STEP)
        for story in self.stories:
            for part in story.deliver() if step else story.arrived:
                story.files[part.number] = write(story.form, story.path(self.folder), part).name
            self._deliver_again(story, step)

    def _deliver_again(self, story: Story, step: int) -> None:
        """Put a file that has arrived under another name beside it, unless that would be other changes."""
        by_place = story.kind == "dms" and not story.sequenced
        if not step or by_place or story.chance.random() > 0.25:
            return
        files = sorted(path for path in story.path(self.folder).iterdir() if not path.name.startswith("zz-"))
        file = story.chance.choice(files)
        shutil.copy(file, file.with_name(f"zz-{step}-{file.name}"))
        self.seen["again"] += 1

    def pipeline(self, more: str = "") -> Pipeline:
        """Build the pipeline of all stories as they are declared now."""
        listed = "".join(story.yaml() for story in self.stories)
        return parse_declaration(f"pipeline: stories\nlake: {{warehouse: ./lake}}\n{more}\ntables:{listed}").at(
            self.folder
        )

    @contextmanager
    def killed(self, place: str | None) -> Iterator[None]:
        """Kill the block at a place; None to let it run."""
        if place is not None:
            self.patch.setenv("FRAZIL_FAILPOINT", f"{place}:raise")
        try:
            with suppress(FailpointReached):
                yield
        finally:
            self.patch.delenv("FRAZIL_FAILPOINT", raising=False)

    def run(self, when: str, *, kill: bool = False, rebuild: bool = False, changed: Sequence[Story] = ()) -> None:
        """Run; declarations that a baseline cannot serve are refused, and set back.

        Args:
            when: for messages.
            kill: kill a run first.
            rebuild: rebuild silver and marts.
            changed: stories with a declaration that changed since the last run.
        """
        before = {story: story.declared for story in self.stories}
        for story in changed:
            story.change()
        is_usual = self.chance.random() >= _FORCED
        options = RunOptions(policy=DEFAULT_POLICY if is_usual else go_by(self.chance.choice(STRATEGIES)))
        if kill:
            place = self.chance.choice(KILLS)
            is_cut = self.chance.random() < _CUTS
            with self.killed(place):
                self.seen["killed"] += len(self._run(f"{when}, killed at {place}", before, options, is_cut=is_cut))
            for table in sorted((self.folder / "lake").glob("*/*/")) if not is_cut else ():
                if self.chance.random() < _HALVES:
                    leave_half_a_version(table, self.chance.random())
        refused = self._run(when, before, options, rebuild=rebuild)
        if refused:
            for story in refused:
                story.declared = before[story]
            self.seen["refused"] += len(refused)
            self._run(f"{when}, set back", before, options)

    def _run(
        self, when: str, before: dict[Story, Any], options: RunOptions, *, rebuild: bool = False, is_cut: bool = False
    ) -> list[Story]:
        """Run once, where ``is_cut`` up to a power cut; return the stories that were refused, or killed."""
        pipeline, failed = self.pipeline(), list[Story]()
        try:
            frazil.run(pipeline, spark=spark_session(pipeline), rebuild=rebuild, options=options)
        except RunFailedError as error:
            errors = iter(error.errors)
            for story, table in zip(self.stories, error.report.tables, strict=True):
                for one in [next(errors) for _ in table.errors]:
                    is_killed = isinstance(one.__cause__, FailpointReached)
                    is_refused = one.code == "FZ507" and story.declared.needs_all_changes(before[story])
                    if not is_killed and not (is_refused and story.horizon):
                        self.tell(f"{when}: exit {one.exit_code}: {one}", story)
                    if is_killed or is_refused:
                        failed.append(story)
        if is_cut:
            self.disk.lose_power(self.chance)
            back = repair_catalog(pipeline, dt.datetime.now(dt.UTC), spark=spark_session(pipeline))
            self.seen["set back"] += len(back)
        self._see()
        return [*dict.fromkeys(failed)]

    def _see(self) -> None:
        """Read the lake's state: folded batches and taken records."""
        located = tables(self.pipeline())
        with connect(located) as read:
            for story in self.stories:
                if ("bronze", story.name) in located:
                    self._see_one(story, read, located)

    def _see_one(self, story: Story, read: Connection, located: Located) -> None:
        silver = read_snapshot(located.get(("silver", f"{story.name}_changes"))).bookmark
        baseline = baseline_of(silver)
        horizon = dt.datetime.fromisoformat(f"{baseline.before}+00:00") if baseline else None
        if horizon != story.horizon:
            self.seen["folded"] += 1
            if horizon is None or (story.horizon or horizon) > horizon or horizon.date() >= self.today:
                self.tell(f"the horizon went from {story.horizon} to {horizon} on {self.today}", story)
        known = result_of(
            read.sql(
                f"SELECT _cdc_file, _cdc_batch, _cdc_arrived_at, _cdc_kind FROM {scan(located['bronze', story.name])}"
            )
        ).rows
        times: dict[int, dt.datetime] = {}
        newest = dt.datetime.min.replace(tzinfo=dt.UTC)
        for _, batch, at, _ in sorted((row for row in known if row[2] is not None), key=lambda row: row[1]):
            times[batch] = newest = max(newest, at)
        batches = {Path(file).name: batch for file, batch, _, kind in known if kind == "file"}
        place = None
        if baseline is not None and baseline.position is not None:
            place = ("/".join(baseline.position.split("/")[:2]), baseline.row or 0)
        story.see(horizon, place, int(silver.get("batch", 0)), batches, times)

    def compare(self, when: str) -> None:
        """Compare all marts and quarantines with the oracle."""
        located = tables(self.pipeline())
        with connect(located) as read:
            for story in self.stories:
                for mart, rows in story.rows().items():
                    columns, have = shown(read, located["marts", mart])
                    self._note(f"{when}: {mart}", story, have, Counter(map(plain, rows)))
                    if (counted := read_snapshot(located["marts", mart]).rows) != have.total():
                        self.tell(f"{when}: {mart} has {have.total()} rows, and its files count {counted}", story)
                    if not columns >= {"id", *story.times, *story.columns()}:
                        self.tell(f"{when}: {mart} has the columns {columns}", story)
                path = located["silver", f"{story.name}_quarantine"]
                bad = result_of(read.sql(f"SELECT _cdc_position, _cdc_row, rule, reason FROM {scan(path)}"))
                late = sum(row[2] == "before_horizon" for row in bad.rows)
                if (len(bad.rows), late) != (len(story.bad()), len(story.late())):
                    self.tell(
                        f"{when}: in quarantine are {bad.rows}, not {sorted(story.bad())}, late {story.late()}", story
                    )
                self.seen["bad"] += len(bad.rows)
                self.seen["late"] += late

    def _note(self, what: str, story: Story, have: Counter[str], want: Counter[str]) -> None:
        if have != want:
            self.tell(f"{what} has {sorted((have - want).elements())}, lacks {sorted((want - have).elements())}", story)

    def tell(self, what: str, story: Story) -> None:
        """Note a difference."""
        self.found.append(f"{what} ({story.seed}, {story.form}, {story.declared}, {story.horizon}, {story.erased})")

    def check(self) -> None:
        """Run all proofs of the lake."""
        self.found += [f"check: {finding}" for finding in check(self.pipeline()) if finding.ok is False]

    def correct(self, share: float) -> None:
        """Correct some of the records in quarantine, as ``frazil replay --from`` does; the next run takes them."""
        pipeline, path = self.pipeline(), self.folder / "corrections.jsonl"
        for story, table in zip(self.stories, pipeline.tables, strict=True):
            if share < 1 and story.chance.random() < 0.5:
                continue
            write_corrections(pipeline, table.name, path)
            lines, corrected = [], set()
            for line in path.read_text(encoding="utf-8").splitlines():
                one = json.loads(line)
                event = self._event_of(story, one)
                if {event.key, event.old_key} & story.erased:
                    continue  # with its key it would be refused, and all others with it
                if event.spoiled and one["record"].get(event.spoiled) == SPOILED and story.chance.random() < share:
                    right = f"{event.key}" if event.spoiled == "id" else event.values["qty"]
                    one["record"][event.spoiled] = right
                    lines.append(json.dumps(one))
                    corrected.add(event.number)
            path.write_text("\n".join(lines), encoding="utf-8")
            if not (corrections := read_corrections(pipeline, table.name, path)):
                continue
            with self.killed(story.chance.choice(_REPLAY_KILLS) if story.chance.random() < 0.2 else None):
                correct(pipeline, table, corrections, spark_session(pipeline))
            batch = correct(pipeline, table, corrections, spark_session(pipeline))
            story.corrected |= dict.fromkeys(corrected, batch)
            self.seen["corrected"] += len(corrected)

    @staticmethod
    def _event_of(story: Story, one: dict[str, Any]) -> Any:
        """Return the event of a record in quarantine."""
        name = Path(one["file"]).name
        for part, row, event in story.events():
            if story.kind == "dms" and f"{part.number:09}." in name and row == one["row"]:
                return event
            if story.kind == "audit" and one["record"].get("audit_event_id") == f"{event.number}":
                return event
            if story.kind == "postgres" and one["record"].get("__position") == story.position(part, event)[2:]:
                return event
        raise AssertionError(one)


def shown(read: Connection, location: str, snapshot: int | None = None) -> tuple[set[str], Counter[str]]:
    """Read the columns and the rows of a table."""
    content = result_of(read.sql(f"SELECT * FROM {scan(location, snapshot)}"))
    return {*content.columns}, Counter(plain(dict(zip(content.columns, row, strict=True))) for row in content.rows)


def plain(row: dict[str, Any]) -> str:
    """Return a row as a text; of its place in the source what the oracle knows."""

    def known(name: str, value: Any) -> Any:
        return "/".join(value.split("/")[:2]) if name == "_cdc_position" else value

    return repr(sorted((name, known(name, value)) for name, value in row.items() if name != "_cdc_row"))
