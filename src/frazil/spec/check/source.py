"""The rules over sources and folders: paths that exist, a lake outside of them, and what each kind says of itself."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from frazil.errors import DeclarationError
from frazil.spec.check.composed import changes_table, handover_problems, shard_tables, sharded_problems
from frazil.spec.load.problem import Problem
from frazil.spec.location import embedded_catalog, locate, warehouse
from frazil.spec.model.pipeline import EmbeddedCatalog
from frazil.spec.model.stores import is_store
from frazil.spec.secrets import broken_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.location import Location
    from frazil.spec.model.pipeline import Pipeline, Table
    from frazil.spec.model.source import SourceSpec


def source_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Yield problems of a table's source; ``at`` is the path of the source."""
    for setting, paths in table.source.locations.items():
        if not all(path.strip() for path in paths):
            yield Problem((*at, setting), f"an empty {setting} in the source of table '{table.name}'")
    shards = shard_tables(table)
    if shards:
        yield from sharded_problems(table, at)
    parts = [((*at, "shards", name), one) for name, one in shards.items()]
    if (changes := changes_table(table)) is not None:
        yield from handover_problems(table, at)
        snapshots = table.model_copy(update={"source": table.source.snapshots})
        parts += [((*at, "changes"), changes), ((*at, "snapshots"), snapshots)]
    for here, one in parts or ((at, table),):
        yield from one.source.problems(one, here)


_ANY_DEPTH: Final = "**"


def path_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Yield folders that cannot be resolved, and sources whose recursive search would include the warehouse."""
    lake: tuple[str, ...] | None = None
    try:
        lake = _parts(warehouse(pipeline))
        if isinstance(pipeline.lake.catalog, EmbeddedCatalog):
            embedded_catalog(pipeline)
    except DeclarationError as error:
        yield from _unknown(("lake", "warehouse"), pipeline.lake.warehouse, error)
    for index, table in enumerate(pipeline.tables):
        yield from _landing(table.source, ("tables", index, "source"))
        for setting, paths in table.source.locations.items():
            for number, path in enumerate(paths):
                at = ("tables", index, "source", setting, number)
                try:
                    parts = _parts(locate(path, setting=setting, folder=pipeline.folder))
                except DeclarationError as error:
                    yield from _unknown(at, path, error)
                    continue
                if lake is not None and _meets(parts, lake):
                    yield Problem(
                        at,
                        f"the warehouse {pipeline.lake.warehouse} is below {setting} '{path}' of the source of table "
                        f"'{table.name}': the source would read its files",
                        "give the lake a folder beside the landing folder",
                    )


def _landing(source: SourceSpec, at: Path) -> Iterator[Problem]:
    """Yield landing folders in object stores: captures write to local folders only."""
    for name, shard in getattr(source, "shards", {}).items():
        yield from _landing(shard, (*at, "shards", name))
    landing = getattr(source, "landing", None)
    if landing is not None and is_store(landing):
        yield Problem((*at, "landing"), f"'{landing}' is no folder of this machine, and captures land in one")


def _unknown(at: Path, text: str, error: DeclarationError) -> Iterator[Problem]:
    """Yield a folder that cannot be resolved; other rules report empty texts and unknown references."""
    if text.strip() and not broken_reference(text):
        yield Problem(at, error.message, error.hint)


def _parts(place: Location) -> tuple[str, ...]:
    if place.path is not None:
        return place.path.resolve().parts
    scheme, _, rest = place.uri.partition("://")
    return ("s3" if scheme in {"s3a", "s3n"} else scheme, *filter(None, rest.split("/")))


def _meets(pattern: tuple[str, ...], warehouse: tuple[str, ...]) -> bool:
    """Return whether a pattern matches the warehouse, a folder above it, or folders inside it."""
    for wanted, part in zip_longest(pattern, warehouse):
        if wanted is None or part is None or wanted == _ANY_DEPTH:
            # A folder in the warehouse can be a landing folder if the path has no pattern.
            return wanted is None or wanted == _ANY_DEPTH or any(set(text) & set("*?[") for text in pattern)
        if not fnmatchcase(part, wanted):
            return False
    return True
