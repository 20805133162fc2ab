"""Declared source: whole dumps of a table; differences between dumps are the changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field

from frazil.spec.load.problem import Problem
from frazil.spec.model.source import NEXT_SNAPSHOT, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.spec.load.problem import Path
    from frazil.spec.model.source import FoldBy, TableSpec

OP: Final = "__op"
SNAPSHOT: Final = "__snapshot"
TAKEN_AT: Final = "__taken_at"


class Snapshots(SourceSpec):
    """Dumps with all rows of a table, from a folder, or taken by Frazil from a database."""

    kind: Literal["snapshot"] = Field(default="snapshot", description="The kind of source: whole dumps.")
    path: str | None = Field(
        default=None,
        min_length=1,
        description="Folder of the dumps: each file or folder in it (CSV with header, JSON lines, Parquet) is one; "
        "their names order them, and a date or time in a name says when it was taken.",
    )
    url: str | None = Field(
        default=None,
        min_length=1,
        description="The PostgreSQL database that dumps are taken of, as a reference such as ${env:SHOP_DB}.",
    )
    table: str | None = Field(
        default=None, description="With url: the table or view, as schema.table; without a schema it is in public."
    )
    every_minutes: float = Field(
        default=0.0, ge=0, description="With url: no dump is taken while the newest is younger than this."
    )
    landing: str = Field(
        default="./landing/snapshot", description="Folder that differences are written to, one folder a table."
    )
    settle_seconds: float = Field(
        default=60.0, ge=0, description="With path: a dump whose newest file is younger waits for a later run."
    )
    max_delete_fraction: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="A dump that lacks more than this share of the rows of the one before is refused.",
    )

    @property
    def schema_and_table(self) -> tuple[str, str]:
        """Return the schema and the table of the database."""
        schema, dot, name = (self.table or "").partition(".")
        return (schema, name) if dot else ("public", schema)

    @property
    def locations(self) -> dict[str, tuple[str, ...]]:
        """Return ``path``, or ``landing`` if Frazil takes the dumps."""
        return {"landing": (self.landing,)} if self.path is None else {"path": (self.path,)}

    def landed_in(self, folder: str) -> Snapshots | None:
        """Return the source with another landing folder; None for dumps in a folder."""
        return None if self.url is None else self.model_copy(update={"landing": folder})

    @property
    def addresses(self) -> Mapping[str, str]:
        """Return ``url``."""
        return {} if self.url is None else {"url": self.url}

    @property
    def operation_field(self) -> str:
        """Return the field that says whether a row was inserted, updated or deleted."""
        return OP

    @property
    def orders_records(self) -> bool:
        """Return False: dumps order records; the records have no position."""
        return False

    @property
    def types_fields(self) -> bool:
        """Return whether fields have the types of a database; differences of other dumps are text."""
        return self.url is not None

    @property
    def own_fields(self) -> Mapping[str, str]:
        """Return the fields with the dump of a difference and the dump's time."""
        return {SNAPSHOT: "string", TAKEN_AT: "timestamp"}

    @property
    def event_time(self) -> str:
        """Return the field with the time of the dump."""
        return TAKEN_AT

    def field_names(self, declared: tuple[str, ...]) -> None:
        """Return None: all dumps name their fields."""

    @property
    def meaning(self) -> dict[str, Any]:
        """Return the kind: no setting changes the meaning of a difference."""
        return {"kind": self.kind}

    def is_bookkeeping(self, field: str) -> bool:
        """Return whether a field is Frazil's own."""
        return field in {OP, *self.own_fields}

    @property
    def retention_by(self) -> tuple[FoldBy, ...]:
        """Return that dumps order changes."""
        return ("place",)

    def places(self, name: str) -> list[str]:
        """Return the folder of the differences, which the source reads, and the dumps that they are computed from."""
        return [f"{self.landing.rstrip('/')}/{name}", *([] if self.path is None else [self.path])]

    def way_to_lost_rows(self, name: str) -> str:
        """Return that the next dump has the rows."""
        return NEXT_SNAPSHOT.format(name=name)

    def problems(self, table: TableSpec, at: Path) -> Iterator[Problem]:
        """Yield what is wrong with these settings for a table."""
        return _problems(table, at)


def _problems(table: TableSpec, at: Path) -> Iterator[Problem]:
    source, whose = table.source, f"the source of table '{table.name}'"
    if (source.path is None) == (source.url is None):
        what = "neither path nor url" if source.path is None else "both path and url"
        yield Problem(at, f"{whose} has {what}", "write path for a folder of dumps, or url and table for a database")
    elif source.url is None:
        yield from (
            Problem((*at, setting), f"{setting} of {whose} applies only with url", "leave it out")
            for setting in ("table", "every_minutes")
            if setting in source.model_fields_set
        )
    elif not all(part.strip() for part in source.schema_and_table):
        yield Problem(at, f"{whose} names no table", "write table: public.prices or the like")
    elif "settle_seconds" in source.model_fields_set:
        yield Problem((*at, "settle_seconds"), f"settle_seconds of {whose} has no use with url", "leave it out")
