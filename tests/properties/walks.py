"""Random walks over declarations: what a user may change from one day to the next, and what must come of it.

A walk has a landing folder, a lake and a declaration. Each step changes the declaration, lets files arrive, or both,
and runs. Afterwards the lake holds what a fresh lake of that declaration makes of the same files; or the run was
refused, the lake is as it was, and the next step begins from the declaration before.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any, Final

import frazil
from frazil.engine.report import RunFailedError
from frazil.errors import FrazilError
from frazil.failpoints import FAILPOINTS, FailpointReached
from frazil.lake.session import spark_session
from frazil.serve.query import query
from frazil.serve.tables import tables
from frazil.spec.parse import parse
from frazil.testing.changes import as_files, random_history, write_csv

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

    from frazil.spec import Pipeline
    from frazil.testing.changes import Record

REFUSED: Final = {2, 6}
"""Exit codes that a declaration may be refused with."""

COLUMNS: Final = {
    "name": ("{name: name}", '{name: name, expr: "upper(name)"}', '{name: name, expr: "coalesce(name, note)"}'),
    "qty": (
        "{name: qty, type: int}",
        "{name: qty, type: bigint}",
        "{name: qty}",
        '{name: qty, type: "decimal(12,2)"}',
        "{name: qty, type: int, nullable: false}",
    ),
    "note": ("{name: note}",),
    "size": ('{name: size, type: int, expr: "length(name)"}', '{name: size, expr: "cast(length(name) as string)"}'),
    "nowhere": ("{name: nowhere}",),
}
"""The ways in which each column may be declared."""

MARTS: Final = (
    "kind: current",
    "kind: current, deletes: soft",
    "kind: current, deletes: soft, live_view: live",
    "kind: current, partition_by: [id]",
    'kind: current, partition_by: ["bucket(4, id)"], sort_by: [id]',
    "kind: current, sort_by: [id]",
    "kind: current, properties: {comment: walked}",
    "kind: current, format_version: 3",
    "kind: history",
    "kind: history, deletes: mark",
    "kind: history, track_history_columns: [id]",
    'kind: history, partition_by: ["truncate(1, id)"]',
)
NAMES: Final = ("one", "two", "three")
KEYS: Final = ("[id]", "[id]", "[id, ts]")
ORDERS: Final = ("sequence_by: [ts]", "sequence_by: [ts]", "sequence_by: [ts, id]", "effective_at: ts")
READINGS: Final = ("", "", "", "", ', csv_null_value: "\\\\N"', ', csv_delimiter: ";"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What a table is declared to be; each part is YAML."""

    columns: tuple[tuple[str, str], ...]
    marts: tuple[tuple[str, str], ...]
    keys: str = "[id]"
    order: str = "sequence_by: [ts]"
    reading: str = ""
    table: str = "things"

    def yaml(self) -> str:
        """Write the table."""
        columns = ", ".join(["{name: id, type: int}", "{name: ts, type: timestamp}", *dict(self.columns).values()])
        marts = ", ".join(f"{{name: {name}, {mart}}}" for name, mart in self.marts)
        return f"""
  - name: {self.table}
    source: {{kind: dms, path: ./landing, header: true{self.reading}}}
    keys: {self.keys}
    {self.order}
    columns: [{columns}]
    marts: [{marts}]
"""


def first(chance: Random) -> Declaration:
    """Draw a declaration to begin with."""
    columns = tuple((name, chance.choice(ways)) for name, ways in COLUMNS.items() if name != "nowhere")
    return Declaration(columns=columns[: chance.randint(1, 4)], marts=_marts(chance))


def _marts(chance: Random) -> tuple[tuple[str, str], ...]:
    names = chance.sample(NAMES, chance.randint(1, 3))
    drawn = [chance.choice(MARTS) for _ in names]
    views = [number for number, mart in enumerate(drawn) if "live_view" in mart]
    for number in views[1:]:
        drawn[number] = MARTS[0]
    return tuple(zip(names, drawn, strict=True))


def changed(before: Declaration, chance: Random) -> Declaration:
    """Draw the next declaration: one or two settings are others."""
    now = before
    for _ in range(chance.choice((1, 1, 2))):
        match chance.randrange(8):
            case 0 | 1 | 2:
                now = replace(now, columns=_other_columns(now, chance))
            case 3 | 4:
                now = replace(now, marts=_marts(chance))
            case 5:
                now = replace(now, keys=chance.choice(KEYS), order=chance.choice(ORDERS))
            case 6:
                now = replace(now, reading=chance.choice(READINGS))
            case _:
                now = replace(now, table=chance.choice(("things", "things", "items")))
    return now


def _other_columns(now: Declaration, chance: Random) -> tuple[tuple[str, str], ...]:
    columns = dict(now.columns)
    name = chance.choice([*COLUMNS])
    if name in columns and chance.random() < 0.4 and len(columns) > 1:
        del columns[name]
    else:
        columns[name] = chance.choice(COLUMNS[name])
    return tuple(columns.items())


@dataclass
class Walk:
    """A walk, as far as it has come.

    Attributes:
        folder: where landing folder and lake are.
        seed: what it is drawn by.
        declared: the declaration that the lake stands at.
        refusals: codes of the runs that were refused.
    """

    folder: Path
    seed: int
    declared: Declaration | None = None
    refusals: list[str] = field(default_factory=list)

    def steps(self, count: int, patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
        """Take steps; after each, give the differences from a fresh lake or, after a refusal, from the lake before."""
        chance = Random(self.seed)
        files = iter(self._files(count).items())
        for number in range(count):
            if number == 0 or chance.random() < 0.7:
                self._deliver(files)
            wanted = first(chance) if self.declared is None else changed(self.declared, chance)
            failpoint = chance.choice(FAILPOINTS) if chance.random() < 0.3 else None
            yield [f"{self.seed}.{number} {wanted}: {what}" for what in self._step(wanted, failpoint, patch)]

    def _files(self, count: int) -> dict[str, list[Record]]:
        return as_files(random_history(self.seed, size=12 * count), self.seed, parts=count, narrow=0.3)

    def _deliver(self, files: Iterator[tuple[str, list[Record]]]) -> None:
        for name, records in files:
            if records:
                (self.folder / "landing").mkdir(parents=True, exist_ok=True)
                (self.folder / "landing" / name).write_bytes(write_csv(records))
                return

    def _step(self, wanted: Declaration, failpoint: str | None, patch: pytest.MonkeyPatch) -> list[str]:
        before = self._content(self.declared, "lake") if self.declared else {}
        if failpoint:
            patch.setenv("FRAZIL_FAILPOINT", f"{failpoint}:raise")
            self._run(wanted, "lake")
            patch.delenv("FRAZIL_FAILPOINT")
        error = self._run(wanted, "lake")
        if error is not None:
            self.refusals.append(error.code)
            if error.exit_code not in REFUSED:
                return [f"was refused with exit {error.exit_code}: {error}"]
            # A run that a failpoint ended may have done what another before the refusal allows; none is drawn so.
            return _differences(self._content(self.declared, "lake") if self.declared else {}, before)
        self.declared = wanted
        shutil.rmtree(self.folder / "fresh", ignore_errors=True)
        error = self._run(wanted, "fresh")
        if error is not None:
            return [f"a fresh lake is refused: {error}"]
        return _differences(self._content(wanted, "lake"), self._content(wanted, "fresh"))

    def pipeline(self, declared: Declaration, lake: str) -> Pipeline:
        """Build the pipeline of a declaration over one of the lakes."""
        return parse(f"pipeline: walk\nlake: {{warehouse: ./{lake}}}\ntables:{declared.yaml()}").at(self.folder)

    def _run(self, declared: Declaration, lake: str) -> FrazilError | None:
        """Run; give the error that the declaration was refused with, if it was."""
        try:
            pipeline = self.pipeline(declared, lake)
            frazil.run(pipeline, spark=spark_session(pipeline))
        except RunFailedError as error:
            return None if isinstance(error.errors[0].__cause__, FailpointReached) else error.errors[0]
        except FrazilError as error:
            return error
        return None

    def _content(self, declared: Declaration, lake: str) -> dict[str, list[str]]:
        """Read what users see of a lake: rows and columns of marts, partitions, and the quarantine."""
        pipeline = self.pipeline(declared, lake)
        located = tables(pipeline)
        found = {}
        for name, _ in declared.marts:
            content = query(pipeline, f"SELECT * FROM marts.{name}")
            order = sorted(range(len(content.columns)), key=lambda at: content.columns[at])
            found[f"columns of {name}"] = [content.columns[at] for at in order]
            found[name] = sorted(repr([row[at] for at in order]) for row in content.rows)
            found[f"layout of {name}"] = [_layout(located["marts", name])]
        bad = query(pipeline, f"SELECT _cdc_file, _cdc_row, rule, reason, raw FROM silver.{declared.table}_quarantine")
        # Fields stand in the order in which they first came, which a fresh lake sees otherwise.
        found["quarantine"] = sorted(repr([*row[:-1], sorted(json.loads(row[-1]).items())]) for row in bad.rows)
        return found


def _layout(location: str) -> str:
    """Read partitions, sort order and format of a table, and the property that walks set."""
    with open(location.removeprefix("file:").replace("///", "/"), encoding="utf-8") as file:  # noqa: PTH123
        metadata: dict[str, Any] = json.load(file)
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
