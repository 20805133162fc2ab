"""The rules over tables with several sources: shards, and snapshots beside changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.spec.contract import is_closed
from frazil.spec.load.problem import Problem
from frazil.spec.model.column import Column
from frazil.spec.model.kinds.dms import DmsFiles
from frazil.spec.model.kinds.sharded import meaning_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.spec.load.problem import Path
    from frazil.spec.model.pipeline import Table
    from frazil.spec.model.source import SourceSpec


def shard_tables(table: Table) -> Mapping[str, Table]:
    """Return each shard as a table of its own, by name; empty for a table without shards."""
    shards: dict[str, SourceSpec] = getattr(table.source, "shards", {})
    if not shards:
        return {}
    column = table.source.column.lower()
    keys = tuple(key for key in table.keys if key.lower() != column)
    columns = None if table.columns is None else tuple(one for one in table.columns if one.name.lower() != column)
    return {
        name: table.model_copy(update={"source": source, "keys": keys, "columns": columns})
        for name, source in shards.items()
    }


def sharded_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Yield problems of a table's shards; ``at`` is the path of the source."""
    source, whose = table.source, f"table '{table.name}'"
    if source.column not in table.keys or len(table.keys) == 1:
        hint = f"write keys: [{source.column}, …]: rows of two shards may have the same key"
        yield Problem(at, f"the keys of {whose} are not those of its shards and '{source.column}'", hint)
    made = next((one for one in table.columns or () if one.name == source.column), Column(name=source.column))
    if made.type != "string" or made.expr is not None:
        yield Problem(at, f"column '{source.column}' of {whose} is the name of the shard, a string", "declare it so")
    first = source.first
    places: dict[str, str] = {}
    for name, one in shard_tables(table).items():
        here, shard = (*at, "shards", name), one.source
        if not name.strip():
            yield Problem(here, f"a shard of {whose} has no name")
        if meaning_of(shard) != meaning_of(first) or _form(shard) != _form(first):
            yield Problem(
                here, f"shard '{name}' of {whose} is read in another way than the first", "give both one form"
            )
        for path in shard.places(one.name):
            for other, place in places.items():
                if place != name and meet(path, other):
                    hint = "each shard needs folders of its own, a landing folder too"
                    yield Problem(here, f"shards '{place}' and '{name}' of {whose} lie in one folder: {path}", hint)
            places[path] = name


def _form(shard: SourceSpec) -> tuple[object, ...]:
    return (shard.kind, shard.types_fields, shard.orders_records, shard.field_names(()), shard.event_time)


def meet(one: str, other: str) -> bool:
    """Return whether one of two folders or patterns contains the other."""
    first, second = fixed_part(one), fixed_part(other)
    return f"{first}/".startswith(f"{second}/") or f"{second}/".startswith(f"{first}/")


def fixed_part(path: str) -> str:
    """Return the folder above all files of a pattern; a path without a pattern is returned unchanged."""
    signs = [path.index(sign) for sign in "*?[" if sign in path]
    return path[: min(signs)].rpartition("/")[0] if signs else path.rstrip("/")


def changes_table(table: Table) -> Table | None:
    """Return the changes of a handover as a table of their own; None for other kinds."""
    if table.source.kind != "handover":
        return None
    return table.model_copy(update={"source": table.source.changes})


def handover_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Yield problems of a table's snapshots and changes; ``at`` is the path of the source."""
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
    """Yield parts of the source that share a folder, so that one would read the files of the other."""
    source = table.source
    changes = [path.rstrip("/") for paths in source.changes.locations.values() for path in paths]
    own = [f"{source.landing.rstrip('/')}/{table.name}", *([] if source.dumps.path is None else [source.dumps.path])]
    for path in own:
        for other in changes:
            if meet(path.rstrip("/"), other):
                message = f"{path} of table '{table.name}' has snapshots and shares a folder with changes: {other}"
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
