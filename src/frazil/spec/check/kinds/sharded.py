"""The rules over a table in shards: they mean the same, lie apart, and are told apart by the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.spec.load.problem import Problem
from frazil.spec.model.column import Column
from frazil.spec.model.kinds.sharded import meaning_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.spec.load.problem import Path
    from frazil.spec.model.pipeline import Table
    from frazil.spec.model.source import SourceSpec


def shard_tables(table: Table) -> Mapping[str, Table]:
    """Return the table of each shard as it would be declared alone; none of a table that has none."""
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


def places_of(table: Table) -> list[str]:
    """Return the folders and patterns of the files that are read for the table of a shard."""
    source = table.source
    if source.kind == "snapshot":
        # What is read are the differences, and the dumps to find these.
        return [f"{source.landing.rstrip('/')}/{table.name}", *([] if source.path is None else [source.path])]
    return [path.rstrip("/") for paths in source.locations.values() for path in paths]


def sharded_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Find what is wrong with the shards of one table; ``at`` is the path of the source."""
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
        for path in places_of(one):
            for other, place in places.items():
                if place != name and meet(path, other):
                    hint = "each shard needs folders of its own, a landing folder too"
                    yield Problem(here, f"shards '{place}' and '{name}' of {whose} lie in one folder: {path}", hint)
            places[path] = name


def _form(shard: SourceSpec) -> tuple[object, ...]:
    return (shard.kind, shard.types_fields, shard.orders_records, shard.field_names(()), shard.event_time)


def meet(one: str, other: str) -> bool:
    """Return whether one of two folders or patterns lies in the other."""
    first, second = fixed_part(one), fixed_part(other)
    return f"{first}/".startswith(f"{second}/") or f"{second}/".startswith(f"{first}/")


def fixed_part(path: str) -> str:
    """Return the folder that all files of a pattern lie in; a path without a pattern as it is."""
    signs = [path.index(sign) for sign in "*?[" if sign in path]
    return path[: min(signs)].rpartition("/")[0] if signs else path.rstrip("/")
