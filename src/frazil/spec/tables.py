"""Namespace, name, role and owner of every table and view of a declaration; no other module builds these names.

The name alone is not enough: users swap names and move namespaces, and two pipelines can share a catalog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from frazil.errors import DeclarationError
from frazil.spec.model.mart import Current
from frazil.spec.model.pipeline import CATALOG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.spec.model.mart import Gold, History
    from frazil.spec.model.pipeline import Pipeline, Table

Role: TypeAlias = Literal["bronze", "silver", "quarantine", "mart", "view", "gold", "erased"]
"""Role of a table. Bookmarks store it, so the words keep their meaning; ``silver`` is the table of typed changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeTable:
    """A table or view of the lake.

    Attributes:
        namespace, name: name in the catalog.
        role: role of the table.
        made_of: name of the source table; for an aggregate its own name.
        mart: declaration of the mart, also for its live view.
    """

    namespace: str
    name: str
    role: Role
    made_of: str
    mart: Current | History | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return (self.namespace, self.name)

    @property
    def path(self) -> tuple[str, str, str]:
        """Catalog, namespace and name."""
        return (CATALOG, self.namespace, self.name)

    @property
    def full_name(self) -> str:
        """Namespace and name as one text, such as ``marts.orders``."""
        return f"{self.namespace}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTables:
    """The tables and views of one source table; ``changes`` is the table of typed changes in silver."""

    bronze: LakeTable
    changes: LakeTable
    quarantine: LakeTable
    marts: tuple[LakeTable, ...]
    views: tuple[LakeTable, ...]

    @property
    def computed(self) -> tuple[LakeTable, ...]:
        """Return the tables that are computed from bronze, in the order of the data."""
        return (self.changes, self.quarantine, *self.marts)


def source_tables(pipeline: Pipeline, table: Table) -> SourceTables:
    """Return the tables and views of one source table, with marts in the order of the declaration."""
    spaces = pipeline.lake.namespaces

    def made(namespace: str, name: str, role: Role, mart: Current | History | None = None) -> LakeTable:
        return LakeTable(namespace=namespace, name=name, role=role, made_of=table.name, mart=mart)

    return SourceTables(
        bronze=made(spaces.bronze, table.name, "bronze"),
        changes=made(spaces.silver, f"{table.name}_changes", "silver"),
        quarantine=made(spaces.silver, quarantine_name(table.name), "quarantine"),
        marts=tuple(made(spaces.marts, table.mart_name(mart), "mart", mart) for mart in table.marts),
        views=tuple(
            made(spaces.marts, mart.live_view, "view", mart)
            for mart in table.marts
            if isinstance(mart, Current) and mart.live_view is not None
        ),
    )


ERASED: Final = "erased"
"""Key of bronze's bookmark: true if keys were erased."""

ERASE_SALT: Final = "frazil.erase.salt"
"""Property of the table of erased keys: the key of the hash, in hexadecimal digits."""

ERASE_UNFINISHED: Final = "frazil.erase.unfinished"
"""Property of the table of erased keys: the name of an unfinished erase."""


def erased_table(pipeline: Pipeline, table: Table) -> LakeTable:
    """Return the table with the hashes of a source table's erased keys.

    :func:`lake_tables` leaves it out: dropping all tables must keep it.
    """
    space = pipeline.lake.namespaces.silver
    return LakeTable(namespace=space, name=f"{table.name}_erased", role="erased", made_of=table.name)


def quarantine_name(table: str) -> str:
    """Return the name of the quarantine of a source table."""
    return f"{table}_quarantine"


def gold_table(pipeline: Pipeline, gold: Gold) -> LakeTable:
    """Return the table of an aggregate."""
    return LakeTable(namespace=pipeline.lake.namespaces.gold, name=gold.name, role="gold", made_of=gold.name)


def lake_tables(pipeline: Pipeline) -> Iterator[LakeTable]:
    """List every table and view of a declaration: those of each source table, then the aggregates."""
    for table in pipeline.tables:
        made = source_tables(pipeline, table)
        yield from (made.bronze, *made.computed, *made.views)
    for gold in pipeline.gold:
        yield gold_table(pipeline, gold)


class OtherOwnerError(DeclarationError):
    """A table of the lake belongs to another pipeline, another source table or another layer."""

    code = "FZ108"

    def __init__(self, name: str, owner: str, wanted: str) -> None:
        self.name, self.owner, self.wanted = name, owner, wanted
        super().__init__(
            f"{name} belongs to {owner}, and the declaration wants it for {wanted}",
            hint="give this pipeline namespaces or table names of its own; or, where the table is not needed any more, "
            "remove it with frazil drop, run with the declaration that it belongs to",
        )


def role_of(bookmark: Mapping[str, Any]) -> Role | None:
    """Return the role in a bookmark; for older bookmarks without one, infer it from other entries, else None."""
    if "role" in bookmark:
        role: Role = bookmark["role"]
        return role
    signs: dict[str, Role] = {"gold": "gold", "fields": "bronze", "since": "silver"}
    return next((role for sign, role in signs.items() if sign in bookmark), None)


def belongs(table: LakeTable, bookmark: Mapping[str, Any], *, pipeline: str) -> bool:
    """Return whether a table of the lake is the declared one.

    Args:
        table: the table of the declaration.
        bookmark: bookmark of its newest commit; empty for a table never written, which belongs to its first writer.
        pipeline: name of the pipeline.

    Returns:
        False for a mart of another source table of the same pipeline, which can be rebuilt from this table's changes.
        True otherwise.

    Raises:
        OtherOwnerError: the table belongs to another pipeline, has another role, or has another table's records.
    """
    if not bookmark:
        return True
    made_of, found = table.made_of, role_of(bookmark) or table.role
    theirs, source = bookmark.get("pipeline", pipeline), bookmark.get("gold" if found == "gold" else "table", made_of)
    if theirs == pipeline and found == table.role and (source == made_of or found == "mart"):
        return bool(source == made_of)
    owner = f"pipeline {theirs!r}, as the {found} of {source!r}"
    raise OtherOwnerError(table.full_name, owner, f"the {table.role} of {made_of!r} of pipeline {pipeline!r}")
