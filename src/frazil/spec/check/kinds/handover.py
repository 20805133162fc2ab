"""The rules over a table with snapshots and changes: what orders them, and what each part may say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.spec.check.kinds.sharded import meet
from frazil.spec.contract import is_closed
from frazil.spec.load.problem import Problem
from frazil.spec.model.kinds.dms import DmsFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.model.pipeline import Table


def changes_table(table: Table) -> Table | None:
    """Return the table of the changes as it would be declared alone; None for a table that has no snapshots."""
    if table.source.kind != "handover":
        return None
    return table.model_copy(update={"source": table.source.changes})


def handover_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Find what is wrong with snapshots and changes of one table; ``at`` is the path of the source."""
    source, whose = table.source, f"table '{table.name}'"
    for setting, value in (("sequence_by", table.sequence_by), ("effective_at", table.effective_at)):
        if value:
            hint = "leave it out; if it is a time, name it with time in the source"
            yield Problem(at, f"{whose} is a handover, which its times order, and has {setting}", hint)
    if not is_closed(table):
        hint = 'declare all columns with their types, without "*": both parts write values in their own way'
        yield Problem(at, f"{whose} is a handover and declares no columns of its own", hint)
    if source.time_field is None:
        hint = "write time: updated_at or the like: the field that every change of a row sets"
        yield Problem((*at, "time"), f"nothing says when a change of {whose} happened", hint)
    yield from _snapshots(table, at)
    yield from _places(table, at)


def _places(table: Table, at: Path) -> Iterator[Problem]:
    """Find parts of which the files of one would be taken for those of another."""
    source = table.source
    changes = [path.rstrip("/") for paths in source.changes.locations.values() for path in paths]
    own = [f"{source.landing.rstrip('/')}/{table.name}", *([] if source.dumps.path is None else [source.dumps.path])]
    for path in own:
        for other in changes:
            if meet(path.rstrip("/"), other):
                message = f"{path} of table '{table.name}' has snapshots, and lies in one folder with changes: {other}"
                yield Problem(at, message, "give changes, snapshots and landing a folder each")
    if len(own) > 1 and meet(*(path.rstrip("/") for path in own)):
        yield Problem(
            at, f"snapshots of table '{table.name}' lie in one folder with copies of them: {own[1]}", "set landing"
        )


def _snapshots(table: Table, at: Path) -> Iterator[Problem]:
    source, here = table.source, (*at, "snapshots")
    whose = f"the snapshots of table '{table.name}'"
    if isinstance(source.snapshots, DmsFiles):
        if len(source.snapshots.path) != 1 or any(sign in source.snapshots.path[0] for sign in "*?["):
            hint = "write one folder; each folder in it is one full load"
            yield Problem((*here, "path"), f"{whose} are not in one folder", hint)
        for setting in ("cdc_path", "cdc_table", "change_seq", "before_image_prefix"):
            if setting in source.snapshots.model_fields_set:
                yield Problem(
                    (*here, setting), f"{setting} of {whose} has no use: they have no changes", "leave it out"
                )
        return
    for setting in ("landing", "max_delete_fraction"):
        if setting in source.snapshots.model_fields_set:
            yield Problem(
                (*here, setting),
                f"{setting} of {whose} is not theirs",
                f"write it beside them: {setting} of the source",
            )
    if source.snapshots.url is not None and source.snapshots.every_minutes <= 0:
        hint = "write every_minutes: 1440 or the like: each one is read and applied as a whole"
        yield Problem((*here, "every_minutes"), f"{whose} would be taken at every run", hint)
