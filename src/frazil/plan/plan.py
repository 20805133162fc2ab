"""A plan: what a run will do, how much it reads, and where the lake stood when that was decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from frazil.errors import Failure, SetupError, StorageError, worst_exit
from frazil.gold.template import tables_of
from frazil.plan.build import build
from frazil.plan.explain import as_values
from frazil.silver.evolution import later_fields
from frazil.sources.kinds import captures_of
from frazil.spec.amount import counted
from frazil.spec.contract import on_new_column
from frazil.spec.sql.gold_order import upstream_gold
from frazil.steps import FoldChanges, Ingest, Normalize, UpdateMart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.errors import FrazilError
    from frazil.plan.state import State, TableState
    from frazil.spec import Pipeline, Table
    from frazil.spec.model.evolution import OnChange
    from frazil.spec.sql.select import Selection
    from frazil.steps import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run will do; :func:`frazil.run` does exactly this, or refuses it if a table has moved since.

    Attributes:
        pipeline: the declaration.
        selection: the source tables and aggregates that it looks at.
        state: where every table stands, by batch and snapshot, and what the sources have, each file with its SHA-256.
        steps: what will be done, in order.
        rebuild: whether silver and marts are computed from all of bronze.
        waiting: what is captured -> changes by table that are not landed, None for a table that was not loaded yet; or
            why nobody knows. Only where somebody asked.
    """

    pipeline: Pipeline
    selection: Selection
    state: State
    steps: tuple[Step, ...] = ()
    rebuild: bool = False
    waiting: Mapping[str, Mapping[str, int | None] | str] = field(default_factory=dict)

    @classmethod
    def of(cls, pipeline: Pipeline, selection: Selection, state: State, *, rebuild: bool = False) -> Self:
        """Plan a run from where the lake stands.

        Args:
            pipeline: the declaration.
            selection: the source tables and aggregates to look at.
            state: of these tables, and of those that a selected aggregate reads.
            rebuild: compute silver and marts from all of bronze, and the aggregates in any case.

        Returns:
            The plan. An aggregate over a table that is not selected and could not be read fails with that table's
            error; every other failure is in ``state`` already.
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
        """Selected source table, or aggregate as ``gold.<name>`` -> why nothing can be planned for it."""
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
        """Names of tables whose state could not be read without a JVM: the run plans those itself."""
        failed = self.state.failed.items()
        return frozenset(name for name, error in failed if isinstance(error, StorageError | SetupError))

    @property
    def exit_code(self) -> int:
        """Exit code of the worst failure; 0 where nothing failed."""
        return worst_exit(failure.exit_code for failure in self.errors)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do and nothing failed."""
        return not self.steps and not self.failed

    @property
    def size_bytes(self) -> int | None:
        """Bytes of the files that the steps read; None where they do not tell how much there is to do."""
        return None if self.unread else input_bytes(self.steps)

    @property
    def passed(self) -> dict[str, tuple[tuple[str, str], ...]]:
        """Source table -> (path, reason) of files at its source that are no files of it."""
        stands = {name: self.state.tables[name] for name in self.selection.tables if name in self.state.tables}
        return {name: stand.taken.passed for name, stand in stands.items() if stand.taken.passed}

    @property
    def warnings(self) -> dict[str, list[str]]:
        """Source table -> sentences on what the user should look at; nothing failed."""
        found = {
            table.name: warnings(table, self.state.tables[table.name])
            for table in self.pipeline.tables
            if table.name in self.selection.tables and table.name in self.state.tables
        }
        return {name: texts for name, texts in found.items() if texts}

    @property
    def gold_left(self) -> dict[str, str]:
        """Aggregate -> why it is left as it is, though it may be due."""
        return gold_left(self.pipeline, self.selection, {*self.failed})

    @property
    def captures(self) -> dict[str, tuple[str, ...]]:
        """What a run captures before it plans for itself, such as a slot or dumps -> the tables that come from it."""
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


def gold_left(pipeline: Pipeline, selection: Selection, failed: set[str]) -> dict[str, str]:
    """Return the selected aggregates that are not refreshed because what they read failed, each with the reason.

    Args:
        pipeline: the declaration.
        selection: which aggregates.
        failed: source tables, and aggregates as ``gold.<name>``.
    """
    over = {
        gold.name: (*tables_of(pipeline, gold), *(f"gold.{name}" for name in upstream_gold(pipeline, gold)))
        for gold in pipeline.gold
        if gold.name in selection.gold
    }
    left = {name: [one for one in read if one in failed] for name, read in over.items()}
    return {name: f"{', '.join(read)} failed" for name, read in left.items() if read}


def read_only(pipeline: Pipeline, selection: Selection) -> tuple[str, ...]:
    """Return the tables that are not selected and that a selected aggregate reads: they are read, never changed."""
    read = {name for gold in pipeline.gold if gold.name in selection.gold for name in tables_of(pipeline, gold)} - {
        *selection.tables
    }
    return tuple(table.name for table in pipeline.tables if table.name in read)


_SHOWN = 10


def undeclared_fields(state: TableState) -> tuple[str, ...]:
    """Names of fields that come for the first time and that no column takes; bronze keeps them."""
    if state.contract is None:
        return ()
    taken = {field for column in state.contract.columns for field in state.contract.needs(column)}
    known = taken | {name.lower() for name in state.seen_fields}
    come = {name.lower(): name for file in state.taken.files for name, _ in file.fields}
    return tuple(shown for name, shown in come.items() if name not in known)


def warnings(table: Table, state: TableState) -> list[str]:
    """Write what a user should know of what is about to be taken, and of what is not: a sentence each."""
    waiting = state.taken.deferred
    found = [f"{path} waits: {reason}" for path, reason in waiting[:_SHOWN]]
    if waiting[_SHOWN:]:
        found.append(f"{counted(len(waiting) - _SHOWN, 'more file waits', 'more files wait')}")
    found += state.taken.notes
    if state.treating:
        found.append(
            "old snapshots and files may still hold values of columns with pii: "
            f"frazil erase --table {table.name} --pii ends what was begun"
        )
    if again := state.taken.loads_again:
        # Without one, full loads stand before all change files.
        loses = "" if table.sequence_by else ", and changes taken before win over its rows"
        found.append(
            f"{again[0]} is a full load, and one of that name was taken before: rows that are in no file of it "
            f"stay{loses}. If it is to replace the table, take all files from before it away and begin again: "
            f"frazil drop --select {table.name}, then frazil run"
        )
    fields = [name for name in undeclared_fields(state) if not table.source.is_bookkeeping(name)]
    if state.seen_fields:
        return [*found, *_undeclared(fields, on_new_column(table), is_later=True)]
    named = [file.fields for file in state.taken.files if not file.broken]
    later = {name.lower() for name in later_fields(named)}
    for is_later in (False, True):
        some = [name for name in fields if (name.lower() in later) == is_later]
        found += _undeclared(some, on_new_column(table), is_later=is_later)
    return found


def _undeclared(fields: Sequence[str], policy: OnChange, *, is_later: bool) -> list[str]:
    """Say which fields are in no column; ``evolve`` would take those that came later than the first file."""
    if not fields:
        return []
    shown = ", ".join(map(repr, fields[:_SHOWN])) + (f" and {len(fields) - _SHOWN} more" if fields[_SHOWN:] else "")
    they, are = ("it", "is") if len(fields) == 1 else ("them", "are")
    text = f"{counted(len(fields), 'field')} of the source {are} in no column: {shown}. Bronze keeps {they}; "
    if policy == "quarantine":
        text += f"records with a value in {they} wait in quarantine; "
    or_evolve = ", or say on_new_column: evolve" if is_later and policy != "evolve" else ""
    return [f"{text}to have {they} in the marts, declare {they}{or_evolve}"]


def input_bytes(steps: Sequence[Step]) -> int | None:
    """Sum up the files that steps take.

    Returns:
        Bytes, or None where they do not tell how much there is to do: a step reads more than what its table takes
        now, as in a rebuild or where an earlier run was killed.
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
