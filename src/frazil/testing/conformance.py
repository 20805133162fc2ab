"""Conformance suite for sources: random histories in a source's form must give the oracle's tables.

To test another kind of source, write a :class:`Form` for it, and run every case of :data:`CASES` on it.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, Final, Protocol

from frazil.spec.model.kinds.dms import time_in_name
from frazil.testing.changes import COLUMNS, oracle_changes, random_history
from frazil.testing.oracle import current, history

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from frazil.testing.changes import Record
    from frazil.testing.oracle import Change

_DECLARATION: Final = """\
pipeline: conformance
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {source}
    keys: [id]
    sequence_by: [{sequence_by}]
    columns: [{columns}]
    marts: [{{kind: current}}, {{kind: history, track_history_columns: [name, qty, note]}}]
"""
_ARRIVALS: Final = 4
_RECORDS_AN_ARRIVAL: Final = 15
_FAILPOINTS: Final = ("bronze.before_publish", "bronze.after_publish", "silver.after_publish", "mart.before_publish")


def arrivals_of(seed: int) -> list[list[Record]]:
    """Return the history of a world, as what arrives at each moment, in the order of the source."""
    records = random_history(seed, size=_ARRIVALS * _RECORDS_AN_ARRIVAL)
    return [records[start : start + _RECORDS_AN_ARRIVAL] for start in range(0, len(records), _RECORDS_AN_ARRIVAL)]


def changes_of(arrivals: Sequence[Sequence[Record]], times: Mapping[int, datetime] | None = None) -> list[Change]:
    """Return the changes that arrivals say, for :mod:`frazil.testing.oracle`.

    Args:
        arrivals: what arrives, in the order of the source.
        times: number of an arrival -> the time that the name of its file says.
    """
    return [
        replace(change, source_time=(times or {}).get(number, change.source_time))
        for number, records in enumerate(arrivals)
        for change in oracle_changes({f"{number:06}.csv": records})
    ]


class Form(Protocol):
    """Writes changes as a kind of source delivers them."""

    @property
    def source(self) -> str:
        """The source of a table, as YAML in one line; it reads what :meth:`write` writes."""

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        """Write what arrives at one moment.

        Args:
            landing: the folder, ``./landing`` of the declaration.
            number: order of the files: records of a greater number are newer.
            records: in the order of the source, each with ``op`` and the fields of :data:`frazil.testing.COLUMNS`.

        Returns:
            The files.
        """

    def spoil(self, file: Path) -> int:
        """Add unreadable records to a file; return how many."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Runs a pipeline.

    Attributes:
        run: bring the lake of a declaration level; the path is the declaration's folder.
        query: run a SELECT; return the rows, each by column.
        check: return whether all proofs hold, and what they say.
    """

    run: Callable[[Path], object]
    query: Callable[[Path, str], list[dict[str, Any]]]
    check: Callable[[Path], tuple[bool, str]]


@dataclass(frozen=True, slots=True)
class World:
    """A folder with a declaration, a landing folder and a lake, and a history that arrives there.

    Attributes:
        form: writes the history.
        engine: runs the pipeline.
        folder: an empty folder, or one that does not exist.
        seed: of the history, see :func:`arrivals_of`.
        sequence_by: what the declaration orders changes by; empty for a kind that orders them by ``ts`` itself.
        times: number of an arrival -> the time that the name of its file says, as Amazon DMS names files.
    """

    form: Form
    engine: Engine
    folder: Path
    seed: int
    sequence_by: str = "ts"
    times: dict[int, datetime] = field(default_factory=dict)

    def declare(self) -> list[list[Record]]:
        """Write the declaration; return what arrives, in the order of the source."""
        (self.folder / "landing").mkdir(parents=True)
        columns = ", ".join(f"{{name: {name}, type: {kind}}}" for name, kind in COLUMNS.items())
        text = _DECLARATION.format(source=self.form.source, sequence_by=self.sequence_by, columns=columns)
        (self.folder / "frazil.yml").write_text(text, encoding="utf-8")
        return arrivals_of(self.seed)

    def write(self, number: int, records: Sequence[Record]) -> list[Path]:
        """Let something arrive."""
        files = self.form.write(self.folder / "landing", number, records)
        if "kind: dms" in self.form.source and (told := time_in_name(files[0].name)):
            with suppress(ValueError):  # digits that are no time
                self.times[number] = datetime.fromisoformat(told).replace(tzinfo=UTC)
        return files

    def run(self) -> None:
        """Run once."""
        self.engine.run(self.folder)

    def expect(self, arrivals: Sequence[Sequence[Record]]) -> None:
        """Assert that both marts hold what the oracle says, and that the lake proves itself."""
        changes = changes_of(arrivals, self.times)
        times = ["valid_from", "valid_to", "is_current"]
        for mart, rows, extra in (
            ("things", current(changes, [*COLUMNS]), []),
            ("things_history", history(changes, [*COLUMNS], ["name", "qty", "note"]), times),
        ):
            names = [*COLUMNS, *extra]
            found = self.engine.query(self.folder, f"SELECT {', '.join(names)} FROM marts.{mart}")
            if _shown(found, names) != _shown(rows, names):
                raise AssertionError(f"{mart} differs from the oracle")
        holds, proofs = self.engine.check(self.folder)
        if not holds:
            raise AssertionError(proofs)

    def quarantined(self) -> int:
        """Count the records in quarantine."""
        [row] = self.engine.query(self.folder, "SELECT count(*) AS n FROM silver.things_quarantine")
        return int(row["n"])


def keeps_order(world: World) -> None:
    """ORDER: all at once, in the order of the source."""
    arrivals = world.declare()
    for number, records in enumerate(arrivals):
        world.write(number, records)
    world.run()
    world.expect(arrivals)


def takes_late_arrivals(world: World) -> None:
    """LATE: one arrival a run, in any order."""
    arrivals = world.declare()
    for number in Random(world.seed).sample(range(len(arrivals)), len(arrivals)):  # noqa: S311 - a test's lot
        world.write(number, arrivals[number])
        world.run()
    world.expect(arrivals)


def takes_nothing_twice(world: World) -> None:
    """ONCE: files that come again, at the same place and at another."""
    arrivals = world.declare()
    for number, records in enumerate(arrivals):
        files = world.write(number, records)
        if number % 2:
            world.run()
        for file in files:
            shutil.copy(file, file.with_name(f"zz-{file.name}"))
            os.utime(file)
    world.run()
    world.run()
    world.expect(arrivals)


def goes_on_after_a_crash(world: World) -> None:
    """ONCE, NOTHING-LOST: a run that dies, and is run again."""
    arrivals = world.declare()
    for number, records in enumerate(arrivals):
        world.write(number, records)
        os.environ["FRAZIL_FAILPOINT"] = f"{_FAILPOINTS[number % len(_FAILPOINTS)]}:raise"
        try:
            with suppress(Exception):
                world.run()
        finally:
            del os.environ["FRAZIL_FAILPOINT"]
    world.run()
    world.expect(arrivals)


def keeps_what_nobody_can_read(world: World) -> None:
    """NOTHING-LOST: records that cannot be read are in quarantine, and all others are where they belong."""
    arrivals = world.declare()
    spoilt = 0
    for number, records in enumerate(arrivals):
        [file, *_] = world.write(number, records)
        if number % 2:
            spoilt += world.form.spoil(file)
            world.run()
    world.expect(arrivals)
    if (found := world.quarantined()) != spoilt:
        raise AssertionError(f"{found} records are in quarantine, {spoilt} cannot be read")


CASES: Final[Mapping[str, Callable[[World], None]]] = {
    case.__name__: case
    for case in (
        keeps_order,
        takes_late_arrivals,
        takes_nothing_twice,
        goes_on_after_a_crash,
        keeps_what_nobody_can_read,
    )
}
"""Name -> a case: a function of a :class:`World` in an empty folder, which raises AssertionError."""


def _shown(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    return sorted(repr([row[name] for name in names]) for row in rows)
