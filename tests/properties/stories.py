"""Stories side by side over one lake: a table each, so that a run and a look at the lake cost little a story."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.properties.story import Story
from tests.properties.story_source import SPOILED, write
from tests.properties.world import STRATEGIES, go_by, go_by_lot

import frazil
from frazil.engine.correct import correct
from frazil.engine.options import RunOptions
from frazil.engine.report import RunFailedError
from frazil.failpoints import FAILPOINTS, FailpointReached
from frazil.lake.duck import connect
from frazil.lake.duck_sql import scan
from frazil.lake.session import spark_session
from frazil.plan.policy import DEFAULT_POLICY
from frazil.serve.check import check
from frazil.serve.corrections import read_corrections, write_corrections
from frazil.serve.query import result_of
from frazil.serve.tables import tables
from frazil.sources.capture import Landed
from frazil.sources.postgres.capture import PostgresCapture
from frazil.spec.parse import parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from frazil.spec import Pipeline

KILLS: Final = tuple(
    name for name in FAILPOINTS if name.startswith(("bronze.", "silver.", "quarantine.", "mart.", "merge."))
)
_REPLAY_KILLS: Final = ("replay.before_publish", "replay.after_publish")


class Stories:
    """Stories over one lake.

    Attributes:
        found: a sentence for each difference from the oracle.
        seen: how often something happened that the suite is there for.
    """

    def __init__(
        self, folder: Path, seeds: Iterable[int], patch: pytest.MonkeyPatch, *, steps: int = 5, size: int = 12
    ) -> None:
        self.folder, self.patch, self.steps = folder, patch, steps
        self.stories = [Story(seed, size, steps) for seed in seeds]
        self.chance = Random(self.stories[0].seed)
        self.found: list[str] = []
        self.seen: Counter[str] = Counter()
        patch.setattr(PostgresCapture, "land", lambda *_: Landed())
        go_by_lot(self.chance, patch)

    def live(self) -> None:
        """Let everything arrive, be declared otherwise, corrected and killed; then rebuild."""
        for step in range(self.steps + 1):
            for story in self.stories:
                parts = story.deliver() if step else story.arrived
                for part in parts:
                    write(story.form, story.path(self.folder), part)
                if step and story.chance.random() < 0.5:
                    story.change()
                self._deliver_again(story, step)
            self._run(f"step {step}", kill=self.chance.random() < 0.4)
            self._compare(f"step {step}")
            self._correct(0.5 if step < self.steps else 1.0)
        self._run("the end")
        self._compare("the end")
        self._run("the rebuild", rebuild=True)
        self._compare("the rebuild")
        self.found += [f"check: {finding}" for finding in check(self._pipeline()) if finding.ok is False]

    def _deliver_again(self, story: Story, step: int) -> None:
        """Put a file that has arrived under another name beside it, unless that would be other changes."""
        by_place = story.kind == "dms" and not story.sequenced
        if not step or by_place or story.chance.random() > 0.25:
            return
        files = sorted(path for path in story.path(self.folder).iterdir() if not path.name.startswith("zz-"))
        file = story.chance.choice(files)
        shutil.copy(file, file.with_name(f"zz-{step}-{file.name}"))
        self.seen["again"] += 1

    def _pipeline(self) -> Pipeline:
        listed = "".join(story.yaml() for story in self.stories)
        return parse(f"pipeline: stories\nlake: {{warehouse: ./lake}}\ntables:{listed}").at(self.folder)

    def _run(self, when: str, *, kill: bool = False, rebuild: bool = False) -> None:
        pipeline, policies = self._pipeline(), (DEFAULT_POLICY, *map(go_by, STRATEGIES))
        options = RunOptions(policy=self.chance.choice(policies))
        if kill:
            place = self.chance.choice(KILLS)
            self.patch.setenv("FRAZIL_FAILPOINT", f"{place}:raise")
            try:
                frazil.run(pipeline, spark=spark_session(pipeline), options=options)
            except RunFailedError as error:
                self._judge(f"{when}, killed at {place}", error)
                self.seen["killed"] += len(error.errors)
            self.patch.delenv("FRAZIL_FAILPOINT")
        try:
            frazil.run(pipeline, spark=spark_session(pipeline), rebuild=rebuild, options=options)
        except RunFailedError as error:
            self._judge(when, error)

    def _judge(self, when: str, failed: RunFailedError) -> None:
        for error in failed.errors:
            if not isinstance(error.__cause__, FailpointReached):
                self.found.append(f"{when}: exit {error.exit_code}: {error}")

    def _compare(self, when: str) -> None:
        """Compare all marts and quarantines with the oracle."""
        located = tables(self._pipeline())
        with connect(located) as read:
            for story in self.stories:
                for mart, rows in story.marts().items():
                    content = result_of(read.sql(f"SELECT * FROM {scan(located['marts', mart])}"))
                    have = [dict(zip(content.columns, row, strict=True)) for row in content.rows]
                    self._note(f"{when}: {mart}", story, _shown(have), _shown(rows))
                    wanted = {*content.columns} >= {"id", story.time, *story.columns()}
                    if not wanted:
                        self._tell(f"{when}: {mart} has the columns {content.columns}", story)
                path = located["silver", f"t{story.seed}_quarantine"]
                bad = result_of(read.sql(f"SELECT _cdc_position, _cdc_row, rule, reason FROM {scan(path)}"))
                if len(bad.rows) != len(story.bad()):
                    self._tell(f"{when}: in quarantine are {bad.rows}, not {sorted(story.bad())}", story)
                self.seen["bad"] += len(bad.rows)

    def _note(self, what: str, story: Story, have: Counter[str], want: Counter[str]) -> None:
        if have != want:
            self._tell(
                f"{what} has {sorted((have - want).elements())}, lacks {sorted((want - have).elements())}", story
            )

    def _tell(self, what: str, story: Story) -> None:
        self.found.append(f"{what} ({story.form}, {story.declared})")

    def _correct(self, share: float) -> None:
        """Correct some of the records in quarantine, as ``frazil replay --from`` does; the next run takes them."""
        pipeline, path = self._pipeline(), self.folder / "corrections.jsonl"
        for story, table in zip(self.stories, pipeline.tables, strict=True):
            if share < 1 and story.chance.random() < 0.5:
                continue
            write_corrections(pipeline, table.name, path)
            lines, corrected = [], set()
            for line in path.read_text(encoding="utf-8").splitlines():
                one = json.loads(line)
                event = self._event_of(story, one)
                if event.spoiled and one["record"].get(event.spoiled) == SPOILED and story.chance.random() < share:
                    right = f"{event.key}" if event.spoiled == "id" else event.values["qty"]
                    one["record"][event.spoiled] = right
                    lines.append(json.dumps(one))
                    corrected.add(event.number)
            path.write_text("\n".join(lines), encoding="utf-8")
            if not (corrections := read_corrections(pipeline, table.name, path)):
                continue
            if story.chance.random() < 0.2:
                self.patch.setenv("FRAZIL_FAILPOINT", f"{story.chance.choice(_REPLAY_KILLS)}:raise")
                with suppress(FailpointReached):
                    correct(pipeline, table, corrections, spark_session(pipeline))
                self.patch.delenv("FRAZIL_FAILPOINT")
            with suppress(FailpointReached):
                correct(pipeline, table, corrections, spark_session(pipeline))
            story.corrected |= corrected
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
            if story.kind == "postgres" and one["record"].get("__position") == story._position(part, event)[2:]:
                return event
        raise AssertionError(one)


def _shown(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    def plain(name: str, value: Any) -> Any:
        return "/".join(value.split("/")[:2]) if name == "_cdc_position" else value

    return Counter(
        repr(sorted((name, plain(name, value)) for name, value in row.items() if name != "_cdc_row")) for row in rows
    )
