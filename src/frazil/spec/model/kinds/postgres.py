"""Declared source: tables of a PostgreSQL database."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from pydantic import Field

from frazil.spec.load.problem import Problem
from frazil.spec.model.source import SourceSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.spec.load.problem import Path
    from frazil.spec.model.source import FoldBy, TableSpec

OP: Final = "__op"
POSITION: Final = "__position"
BEHIND: Final = "+"
"""End of the position of a reloaded row: after the truncate at that position, and before all changes (``-``)."""
COMMITTED_AT: Final = "__committed_at"
XID: Final = "__xid"
UNCHANGED: Final = "__unchanged"
OLD: Final = "__old_"
"""Prefix of fields with the values before a change."""

ERASED: Final = "erased"
"""Op of an erased record, which keeps only its position."""

OWN_FIELDS: Final[Mapping[str, str]] = MappingProxyType(
    {OP: "string", POSITION: "string", COMMITTED_AT: "timestamp", XID: "bigint", UNCHANGED: "string"}
)


class Postgres(SourceSpec):
    """A table of a PostgreSQL database: its rows, then its changes by logical replication, landed as files."""

    kind: Literal["postgres"] = Field(default="postgres", description="The kind of source: a table of PostgreSQL.")
    url: str = Field(
        min_length=1,
        description="Address of the database as libpq takes it; a reference such as ${env:SHOP_DB}.",
    )
    table: str = Field(description="The table, as schema.table; without a schema it is in public.")
    publication: str = Field(
        default="frazil", description="Publication that the table is added to; created if missing."
    )
    slot: str = Field(
        default="frazil",
        pattern="^[a-z0-9_]{1,63}$",
        description="Replication slot; created if missing. Tables of one slot are captured together.",
    )
    landing: str = Field(
        min_length=1, description="Folder that the changes are landed in; relative to the declaration."
    )
    max_delete_fraction: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="Rows that are read again and lack more than this share of those before are refused.",
    )
    on_rename: Literal["fail", "follow"] = Field(
        default="fail",
        description="A column that has another name now: fail (the table stops until renames says so) or follow (a new "
        "column of that name, filled by reading all rows again; the old one keeps its values).",
    )

    @property
    def schema_and_name(self) -> tuple[str, str]:
        """Return the table's schema and its name."""
        schema, dot, name = self.table.partition(".")
        return (schema, name) if dot else ("public", self.table)

    @property
    def locations(self) -> dict[str, tuple[str, ...]]:
        """Return the folder of the table's files."""
        return {"landing": (f"{self.landing.rstrip('/')}/{table_folder(*self.schema_and_name)}",)}

    def landed_in(self, folder: str) -> Postgres:
        """Return the source with another landing folder."""
        return self.model_copy(update={"landing": folder})

    @property
    def addresses(self) -> dict[str, str]:
        """Return the address of the database."""
        return {"url": self.url}

    @property
    def operation_field(self) -> str:
        """Return the op field."""
        return OP

    @property
    def orders_records(self) -> bool:
        """Return True: changes have positions."""
        return True

    @property
    def server_places(self) -> bool:
        """Return True: positions are those of the database that wrote them."""
        return True

    @property
    def types_fields(self) -> bool:
        """Return True: landing files have the types of the database."""
        return True

    @property
    def leaves_out(self) -> bool:
        """Return True: an update may lack large unchanged values."""
        return True

    @property
    def truncates(self) -> bool:
        """Return True: a truncate is a change."""
        return True

    @property
    def snapshot_places(self) -> str:
        """Return the LIKE pattern of positions of reloaded rows."""
        return f"%{BEHIND}"

    def field_names(self, declared: tuple[str, ...]) -> None:
        """Return None: all files name their fields."""

    @property
    def meaning(self) -> dict[str, Any]:
        """Return the kind: no other setting changes the meaning of records."""
        return {"kind": self.kind}

    @property
    def before_prefix(self) -> str:
        """Return the prefix of fields with old keys."""
        return OLD

    def is_bookkeeping(self, field: str) -> bool:
        """Return whether a field is not a column of the table."""
        return field.lower() in OWN_FIELDS or field.lower().startswith(OLD)

    @property
    def own_fields(self) -> Mapping[str, str]:
        """Return the fields that are added to the columns of the table."""
        return OWN_FIELDS

    @property
    def event_time(self) -> str:
        """Return the field with the time of the commit."""
        return COMMITTED_AT

    @property
    def retention_by(self) -> tuple[FoldBy, ...]:
        """Return that the place in the write-ahead log orders changes."""
        return ("place",)

    def problems(self, table: TableSpec, at: Path) -> Iterator[Problem]:
        """Yield what is wrong with these settings for a table."""
        return _problems(table, at)


def table_folder(schema: str, name: str) -> str:
    """Return the folder name of a table's landing files, quoted for shells and glob patterns."""
    return quote(f"{schema}.{name}", safe="")


def _problems(table: TableSpec, at: Path) -> Iterator[Problem]:
    source, whose = table.source, f"the source of table '{table.name}'"
    if not all(part.strip() for part in source.schema_and_name):
        yield Problem((*at, "table"), f"{whose} names no table", "write public.orders or the like")
    if any(sign in source.landing for sign in "*?["):
        yield Problem((*at, "landing"), f"landing of {whose} is a pattern", "name one folder")
