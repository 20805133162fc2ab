"""A plan: what a run will do, how much it reads, where the lake stood when that was decided; and its approval."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

from frazil.errors import BusyError, DeclarationError, Failure, SetupError, StorageError, worst_exit
from frazil.gold import tables_of
from frazil.plan.build import build
from frazil.plan.explain import as_values, explain
from frazil.silver.evolution import later_fields
from frazil.sources.base import SourceDelta
from frazil.sources.kinds import captures_of
from frazil.spec.amount import counted, html_lines
from frazil.spec.contract import on_new_column
from frazil.spec.sql.sql import upstream_gold
from frazil.steps import (
    FoldChanges,
    Ingest,
    Normalize,
    Step,
    UpdateMart,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from frazil.errors import FrazilError
    from frazil.plan.state import State, TableState
    from frazil.spec import Pipeline, Table
    from frazil.spec.model.types import OnChange
    from frazil.spec.sql.select import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps of a run; :func:`frazil.run` does exactly these, or refuses if a table has changed since.

    Attributes:
        pipeline: the declaration.
        selection: the selected source tables and aggregates.
        state: batch and snapshot of every table, and the files of the sources, each with its SHA-256.
        steps: the steps, in order.
        rebuild: silver and marts are computed from all of bronze.
        waiting: name of a capture -> number of changes by table that are not landed, None for a table that was not
            loaded yet; or the reason why this is unknown. Filled on request only.
    """

    pipeline: Pipeline
    selection: Selection
    state: State
    steps: tuple[Step, ...] = ()
    rebuild: bool = False
    waiting: Mapping[str, Mapping[str, int | None] | str] = field(default_factory=dict)

    @classmethod
    def of(cls, pipeline: Pipeline, selection: Selection, state: State, *, rebuild: bool = False) -> Self:
        """Plan a run from the state of the lake.

        Args:
            pipeline: the declaration.
            selection: the selected source tables and aggregates.
            state: state of these tables, and of those that a selected aggregate reads.
            rebuild: compute silver and marts from all of bronze, and refresh all aggregates.

        Returns:
            The plan. If a table is not selected and could not be read, the selected aggregates over it fail with its
            error.
        """
        failed: dict[str, FrazilError] = {}
        for gold in pipeline.gold:
            for table in tables_of(pipeline, gold):
                if gold.name in selection.gold and table in state.failed and table not in selection.tables:
                    failed[f"gold.{gold.name}"] = state.failed[table]
        state = replace(state, failed={**failed, **state.failed})
        every = (*selection.tables, *(f"gold.{name}" for name in selection.gold))
        steps = build(pipeline, state, tables=selection.tables, gold=selection.gold, rebuild=every if rebuild else ())
        return cls(pipeline=pipeline, selection=selection, state=state, steps=steps, rebuild=rebuild)

    @property
    def failed(self) -> dict[str, FrazilError]:
        """Selected source table, or aggregate as ``gold.<name>`` -> why it cannot be planned."""
        names = (*self.selection.tables, *(f"gold.{name}" for name in self.selection.gold))
        return {name: self.state.failed[name] for name in names if name in self.state.failed}

    @property
    def errors(self) -> list[Failure]:
        """All failures, aggregates with their namespace."""
        space = self.pipeline.lake.namespaces.gold
        return [
            Failure.of(f"{space}.{name.removeprefix('gold.')}" if name.startswith("gold.") else name, error)
            for name, error in self.failed.items()
        ]

    @property
    def unread(self) -> frozenset[str]:
        """Tables whose state only a JVM can read; the run plans them itself."""
        failed = self.state.failed.items()
        return frozenset(name for name, error in failed if isinstance(error, StorageError | SetupError))

    @property
    def exit_code(self) -> int:
        """Exit code of the worst failure; 0 without failures."""
        return worst_exit(failure.exit_code for failure in self.errors)

    @property
    def is_idle(self) -> bool:
        """Whether the plan has neither steps nor failures."""
        return not self.steps and not self.failed

    @property
    def size_bytes(self) -> int | None:
        """Bytes of the files that the steps read; None if the steps also read other data."""
        return None if self.unread else input_bytes(self.steps)

    @property
    def passed(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """Source table -> (path, reason) of ignored files at its source."""
        stands = {name: self.state.tables[name] for name in self.selection.tables if name in self.state.tables}
        return {name: stand.taken.passed for name, stand in stands.items() if stand.taken.passed}

    @property
    def warnings(self) -> dict[str, list[str]]:
        """Source table -> warnings for the user; a warning is not a failure."""
        found = {
            table.name: warnings(table, self.state.tables[table.name])
            for table in self.pipeline.tables
            if table.name in self.selection.tables and table.name in self.state.tables
        }
        return {name: texts for name, texts in found.items() if texts}

    @property
    def gold_left(self) -> dict[str, str]:
        """Aggregate -> why it is not refreshed."""
        return gold_left(self.pipeline, self.selection, {*self.failed})

    @property
    def may_capture(self) -> bool:
        """Whether a run may find changes that are not captured yet."""
        known = map(self.waiting.get, self.captures)
        return any(of is None or isinstance(of, str) or any(count != 0 for count in of.values()) for of in known)

    @property
    def captures(self) -> dict[str, tuple[str, ...]]:
        """Name of a capture that a run starts with, such as a slot or dumps -> its tables."""
        found = captures_of(self.pipeline, self.selection.tables)
        return {one.name: tuple(name for name in one.tables if name in self.selection.tables) for one in found}

    def as_values(self) -> dict[str, Any]:
        """Return the plan as plain values, for JSON."""
        return {
            "steps": as_values(self.steps),
            "captures": self.captures,
            "waiting": {name: dict(of) if isinstance(of, Mapping) else of for name, of in self.waiting.items()},
            "passed": {name: dict(passed) for name, passed in self.passed.items()},
            "warnings": self.warnings,
            "gold_left": self.gold_left,
            "errors": [asdict(failure) for failure in self.errors],
            "exit_code": self.exit_code,
        }

    def _repr_html_(self) -> str:
        notes = [f"{name}: {text}" for name, texts in self.warnings.items() for text in texts]
        steps = [*map(explain, self.steps)] or ["nothing to do"]
        return html_lines([*steps, *notes, *map(str, self.errors)])


def gold_left(pipeline: Pipeline, selection: Selection, failed: set[str]) -> dict[str, str]:
    """Return the selected aggregates that are not refreshed because an input failed, each with the reason.

    Args:
        pipeline: the declaration.
        selection: the selected aggregates.
        failed: failed source tables, and failed aggregates as ``gold.<name>``.
    """
    over = {
        gold.name: (*tables_of(pipeline, gold), *(f"gold.{name}" for name in upstream_gold(pipeline, gold)))
        for gold in pipeline.gold
        if gold.name in selection.gold
    }
    left = {name: [one for one in read if one in failed] for name, read in over.items()}
    return {name: f"{', '.join(read)} failed" for name, read in left.items() if read}


def read_only(pipeline: Pipeline, selection: Selection) -> tuple[str, ...]:
    """Return the unselected tables that selected aggregates read; a run does not change them."""
    read = {name for gold in pipeline.gold if gold.name in selection.gold for name in tables_of(pipeline, gold)} - {
        *selection.tables
    }
    return tuple(table.name for table in pipeline.tables if table.name in read)


_SHOWN = 10


def undeclared_fields(state: TableState) -> tuple[str, ...]:
    """Return the new fields without a column, which only bronze keeps."""
    if state.contract is None:
        return ()
    taken = {field for column in state.contract.columns for field in state.contract.needs(column)}
    known = taken | {name.lower() for name in state.seen_fields}
    come = {name.lower(): name for file in state.taken.files for name, _ in file.fields}
    return tuple(shown for name, shown in come.items() if name not in known)


def warnings(table: Table, state: TableState) -> list[str]:
    """Return warnings about the files to read and the files that wait, one sentence each."""
    waiting = state.taken.deferred
    found = [f"{path} waits: {reason}" for path, reason in waiting[:_SHOWN]]
    if waiting[_SHOWN:]:
        found.append(f"{counted(len(waiting) - _SHOWN, 'more file waits', 'more files wait')}")
    found += [*state.taken.notes, *state.retyped]
    if not state.bronze and state.taken == SourceDelta():
        found += [f"no file was found in {path}" for path in table.source.locations.get("path", ())]
    if state.treating:
        found.append(
            "old snapshots and files may still hold values of columns with pii: "
            f"frazil erase --select {table.name} --pii ends what was begun"
        )
    if again := state.taken.loads_again:
        found.append(_load_again(table, again[0]))
    fields = [name for name in undeclared_fields(state) if not table.source.is_bookkeeping(name)]
    if state.seen_fields:
        return [*found, *_undeclared(fields, on_new_column(table), is_later=True)]
    named = [file.fields for file in state.taken.files if not file.broken]
    later = {name.lower() for name in later_fields(named)}
    for is_later in (False, True):
        some = [name for name in fields if (name.lower() in later) == is_later]
        found += _undeclared(some, on_new_column(table), is_later=is_later)
    return found


def _load_again(table: Table, path: str) -> str:
    """Return what happens to a full load whose name an earlier one had."""
    said = f"{path} is a full load, and one of that name was taken before"
    if table.source.compares_loads:
        return (
            f"{said}: if a key of it was in an earlier one, it has to agree with the table, or the table stops (FZ417)"
        )
    # Without sequence_by, full loads precede all change files.
    loses = "" if table.sequence_by else ", and changes taken before win over its rows"
    return (
        f"{said}: rows that are in no file of it stay{loses}. If it is to replace the table, take all files from "
        f"before it away and begin again: frazil drop --select {table.name}, then frazil run"
    )


def _undeclared(fields: Sequence[str], policy: OnChange, *, is_later: bool) -> list[str]:
    """Return a warning about fields without a column; ``evolve`` would add those that the first file lacks."""
    if not fields:
        return []
    shown = ", ".join(map(repr, fields[:_SHOWN])) + (f" and {len(fields) - _SHOWN} more" if fields[_SHOWN:] else "")
    they, are = ("it", "is") if len(fields) == 1 else ("them", "are")
    text = f"{counted(len(fields), 'field')} of the source {are} in no column: {shown}. Bronze keeps {they}; "
    if policy == "quarantine":
        text += f"records with a value in {they} wait in quarantine; "
    or_evolve = ", or say evolution: {on_new_column: evolve}" if is_later and policy != "evolve" else ""
    return [f"{text}to have {they} in the marts, declare {they}{or_evolve}"]


def input_bytes(steps: Sequence[Step]) -> int | None:
    """Return the size of the files that steps ingest.

    Returns:
        Bytes; None if a step reads more than the files that its table ingests now, as in a rebuild or after a run that
        was killed.
    """
    takes = {step.table: step for step in steps if isinstance(step, Ingest)}
    for step in steps:
        if isinstance(step, FoldChanges):
            return None
        if isinstance(step, Normalize | UpdateMart) and (
            step.rebuild or step.table not in takes or step.upto > step.after + 1
        ):
            return None
    return sum(step.size_bytes for step in takes.values())


_HELP: Final = "look at it again and approve it: frazil plan --save FILE"


class ChangedPlanError(BusyError):
    """A run would no longer do what was approved."""

    code = "FZ603"
    retryable = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """An approved plan.

    Attributes:
        select: the words that chose its tables.
        rebuild: silver and marts are computed from all of bronze.
        steps: the steps in words.
        digest: see :func:`digest`.
    """

    select: tuple[str, ...]
    rebuild: bool
    steps: tuple[str, ...]
    digest: str


def digest(plan: Plan) -> str:
    """Return a hash of what a plan would do.

    Plans are the same if they have the same declaration, tables and steps. A step has its batches, and its files with
    their contents' hashes, so a new file makes another plan. Compaction of tables does not.
    """
    values = {
        "declaration": plan.pipeline.model_dump(mode="json"),
        "tables": plan.selection.tables,
        "gold": plan.selection.gold,
        "rebuild": plan.rebuild,
        "steps": as_values(plan.steps),
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()


def approved_values(plan: Plan, select: Sequence[str]) -> dict[str, Any]:
    """Return an approved plan as plain values, for a file.

    Args:
        plan: a plan without failures.
        select: the words that chose its tables.
    """
    return {
        "pipeline": plan.pipeline.pipeline,
        "select": [*select],
        "rebuild": plan.rebuild,
        "steps": [*map(explain, plan.steps)],
        "digest": digest(plan),
    }


def read_approved(path: Path) -> Approved:
    """Read a file that holds :func:`approved_values`.

    Raises:
        DeclarationError: the file cannot be read, or has another form.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        found = Approved(
            select=tuple(values["select"]),
            rebuild=values["rebuild"] is True,
            steps=tuple(values["steps"]),
            digest=values["digest"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DeclarationError(f"{path} is not a saved plan", hint="frazil plan --save FILE writes one") from error
    return found


def verify_approved(approved: Approved, plan: Plan) -> None:
    """Refuse a plan that differs from the approved one.

    Raises:
        ChangedPlanError: it differs, or a table of it cannot be planned.
    """
    if plan.errors:
        raise ChangedPlanError(f"the approved plan cannot be done: {plan.errors[0].message}", hint=_HELP)
    if digest(plan) == approved.digest:
        return
    steps = [*map(explain, plan.steps)]
    added = [f"now also: {step}" for step in steps if step not in approved.steps]
    gone = [f"not any more: {step}" for step in approved.steps if step not in steps]
    what = "\n".join([*added, *gone]) or "the declaration or the content of a file is another one"
    raise ChangedPlanError(f"the plan is not the approved one; nothing was written\n{what}", hint=_HELP)
