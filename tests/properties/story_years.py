"""Stories over years: cuts, rollbacks, upkeep and erasures between runs, with kills."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from tests.properties.stories import Stories, plain, shown

from frazil import api
from frazil.duck import connect
from frazil.erase.report import OccurrencesLeftError
from frazil.failpoints import FAILPOINTS
from frazil.iceberg.metadata import metadata_of
from frazil.iceberg.time_travel import tags_of
from frazil.runner.maintain import maintain
from frazil.serve.cuts import FoldedPointError
from frazil.serve.tables import tables
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from tests.properties.story import Story

_KILLS: Final = {
    what: tuple(name for name in FAILPOINTS if name.startswith(f"{what}."))
    for what in ("cut", "rollback", "maintain", "erase")
}
_BRIEF: Final = "upkeep: {expire_after_days: 0, retain_last: 1}"

Rows = dict[str, Counter[str]]
"""Mart -> its rows, and how often each."""


class Years(Stories):
    """Stories of a lake over years: cuts stay unchanged, and the end result depends on the changes alone."""

    def live(self) -> None:
        """Let everything arrive, be declared otherwise, corrected, gone back from, kept, erased and killed; rebuild."""
        self.cuts: dict[str, dict[Story, tuple[Rows, object]]] = {}
        for step in range(self.steps + 1):
            self.deliver(step)
            changed = [story for story in self.stories if step and story.chance.random() < 0.5]
            self.run(f"step {step}", kill=self.chance.random() < 0.4, changed=changed)
            self.compare(f"step {step}")
            self.cut(f"cut-{step}")
            for story in self.stories:
                self._age(story, f"step {step}")
            self.correct(0.5 if step < self.steps else 1.0)
        self.run("the end")
        self.compare("the end")
        self.compare_cuts("the end")
        self.run("the rebuild", rebuild=True)
        self.compare("the rebuild")
        self.check()

    def _age(self, story: Story, when: str) -> None:
        """Draw what comes of a story's tables until the next run."""
        match story.chance.choices(("", "rollback", "maintain", "erase"), (66, 20, 8, 6))[0]:
            case "rollback":
                self.roll_back(story, when)
            case "maintain":
                self.maintain(story)
            case "erase":
                self.erase(story)

    def _place(self, what: str) -> str | None:
        return self.chance.choice(_KILLS[what]) if self.chance.random() < 0.4 else None

    def cut(self, name: str) -> None:
        """Mark where all stories stand."""
        if self.found or self.chance.random() < 0.4:
            return
        pipeline = self.pipeline()
        with self.killed(self._place("cut")):
            api.cut(pipeline, name, spark=spark_session(pipeline))
        api.cut(pipeline, name, spark=spark_session(pipeline))
        self.cuts[name] = {
            story: ({mart: Counter(map(plain, rows)) for mart, rows in story.rows().items()}, story.horizon)
            for story in self.stories
        }
        self.seen["cut"] += 1

    def compare_cuts(self, when: str) -> None:
        """Compare what each cut reads with what there was when it was made."""
        for story in self.stories:
            for name, kept in self.cuts.items():
                if story in kept:
                    self._compare_cut(f"{when}: {name}", story, kept[story][0], name)

    def _compare_cut(self, when: str, story: Story, kept: Rows, name: str | None) -> None:
        located = tables(self.pipeline())
        with connect(located) as read:
            for mart, rows in kept.items():
                location = located["marts", mart]
                tags = tags_of(metadata_of(location))
                if name is not None and name not in tags:
                    self.tell(f"{when}: {mart} is not part of the cut", story)
                    continue
                _, have = shown(read, location, None if name is None else tags[name])
                self._note(f"{when}: {mart}", story, have, rows)

    def roll_back(self, story: Story, when: str) -> None:
        """Let a story's marts be what they were at a cut; the next run catches up."""
        names = [name for name, kept in self.cuts.items() if story in kept]
        if not names:
            return
        name = story.chance.choice(names)
        rows, horizon = self.cuts[name][story]
        pipeline = self.pipeline()
        try:
            plan = api.rollback_plan(pipeline, story.name, name)
        except FoldedPointError:
            if horizon == story.horizon:
                self.tell(f"{when}: no rollback to {name}, and nothing was folded since", story)
            self.seen["no rollback"] += 1
            return
        place = self._place("rollback")
        with self.killed(place):
            api.rollback(pipeline, plan, spark=spark_session(pipeline))
        if place is None:
            self._compare_cut(f"{when}: back at {name}", story, rows, None)
        self.seen["rollback"] += 1

    def maintain(self, story: Story) -> None:
        """Compact a story's tables and let their old snapshots go."""
        pipeline = self.pipeline(_BRIEF)
        with self.killed(self._place("maintain")):
            maintain(pipeline, spark_session(pipeline), select=[story.name])
        self.seen["maintain"] += 1

    def erase(self, story: Story) -> None:
        """Erase a key, with those that are the same row; a killed erase is ended, after a run or without."""
        subjects = story.some_subject()
        if not subjects:
            return
        key, pipeline, place = story.chance.choice(sorted(subjects)), self.pipeline(), self._place("erase")
        try:
            with self.killed(place):
                api.erase(pipeline, story.name, keys=[f"{key}"], spark=spark_session(pipeline))
            if place is not None:
                if story.chance.random() < 0.3:
                    self.run("a killed erase")
                api.erase(pipeline, story.name, keys=[f"{key}"], spark=spark_session(pipeline))
        except OccurrencesLeftError as error:
            self.tell(f"erase of {subjects}: {error}", story)
        story.erased |= subjects
        for kept in self.cuts.values():
            kept.pop(story, None)
        self.seen["erase"] += 1
