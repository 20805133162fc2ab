"""Declared source: a table in shards, which are several sources of one kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from frazil.spec.model.kinds.audit_log import AuditLog
from frazil.spec.model.kinds.debezium import Debezium
from frazil.spec.model.kinds.dms import DmsFiles
from frazil.spec.model.kinds.postgres import Postgres
from frazil.spec.model.kinds.snapshot import Snapshots
from frazil.spec.model.source import SourceSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.spec.model.source import FoldBy

    Shard = Any
else:
    Shard = Annotated[
        DmsFiles | AuditLog | Debezium | Postgres | Snapshots,
        Field(discriminator="kind"),
    ]

_OF_A_SHARD: Final = frozenset({"table"})
"""Settings that may differ between shards although changes depend on them."""


class Sharded(SourceSpec):
    """A table in several databases, schemas or folders; the name of the shard is a key column."""

    kind: Literal["sharded"] = Field(default="sharded", description="The kind of source: several of one other kind.")
    column: str = Field(default="shard", min_length=1, description="The column with the name of the shard: a key.")
    shards: dict[str, Shard] = Field(
        min_length=1, description="Name of a shard -> its source, each as it would be declared alone."
    )

    @property
    def first(self) -> Any:
        """Return the first shard; the others have the same kind and meaning."""
        return next(iter(self.shards.values()))

    @property
    def locations(self) -> dict[str, tuple[str, ...]]:
        """Return the locations of all shards."""
        each = (paths for shard in self.shards.values() for paths in shard.locations.values())
        return {"shards": tuple(path for paths in each for path in paths)}

    @property
    def addresses(self) -> dict[str, str]:
        """Return the addresses of all shards."""
        return {
            f"shards.{name}.{setting}": address
            for name, shard in self.shards.items()
            for setting, address in shard.addresses.items()
        }

    def landed_in(self, folder: str) -> Sharded | None:
        """Return the shards with numbered landing folders in another folder; None if some shard is not landed."""
        found = {name: one.landed_in(f"{folder}/{number}") for number, (name, one) in enumerate(self.shards.items())}
        return None if None in found.values() else self.model_copy(update={"shards": found})

    @property
    def operation_field(self) -> str | None:
        """Return the operation field of the shards."""
        found: str | None = self.first.operation_field
        return found

    @property
    def orders_records(self) -> bool:
        """Return whether records of a shard have their own position."""
        return bool(self.first.orders_records)

    @property
    def named_delivery(self) -> str | None:
        """Return the file name pattern of the shards."""
        found: str | None = self.first.named_delivery
        return found

    @property
    def server_places(self) -> bool:
        """Return whether positions of a shard are those of its server."""
        return bool(self.first.server_places)

    @property
    def types_fields(self) -> bool:
        """Return whether fields of the shards have types."""
        return bool(self.first.types_fields)

    @property
    def leaves_out(self) -> bool:
        """Return whether a record of a shard may lack unchanged fields."""
        return bool(self.first.leaves_out)

    @property
    def truncates(self) -> bool:
        """Return whether a record may truncate its shard."""
        return bool(self.first.truncates)

    @property
    def snapshot_places(self) -> str | None:
        """Return the LIKE pattern of snapshot positions of the shards."""
        found: str | None = self.first.snapshot_places
        return found

    @property
    def shard_column(self) -> str:
        """Return the column with the name of the shard."""
        return self.column

    @property
    def own_fields(self) -> Mapping[str, str]:
        """Return the fields that the shards' kind adds."""
        found: Mapping[str, str] = self.first.own_fields
        return found

    @property
    def event_time(self) -> str | None:
        """Return the event time of the shards."""
        found: str | None = self.first.event_time
        return found

    @property
    def made_columns(self) -> Mapping[str, str]:
        """Return the made columns of the shards."""
        found: Mapping[str, str] = self.first.made_columns
        return found

    def field_names(self, declared: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the shard column, then the fields of headerless files."""
        others = tuple(name for name in declared if name.lower() != self.column.lower())
        found: tuple[str, ...] | None = self.first.field_names(others)
        return (self.column, *found) if found else found

    @property
    def meaning(self) -> dict[str, Any]:
        """Return the meaning of a shard's records; a new shard does not change it."""
        return {"kind": self.kind, "column": self.column, "of": meaning_of(self.first)}

    @property
    def before_prefix(self) -> str | None:
        """Return the before prefix of the shards."""
        found: str | None = self.first.before_prefix
        return found

    @property
    def row_texts(self) -> tuple[str, ...]:
        """Return the row texts of the shards."""
        found: tuple[str, ...] = self.first.row_texts
        return found

    def is_bookkeeping(self, field: str) -> bool:
        """Return whether a field is the source's own; the shard column belongs to the table."""
        return field.lower() != self.column.lower() and bool(self.first.is_bookkeeping(field))

    @property
    def retention_by(self) -> tuple[FoldBy, ...]:
        """Return that times order changes of shards whose records never empty a shard: these can share a horizon."""
        return ("time",) if "time" in self.first.retention_by and not self.first.truncates else ()


def meaning_of(shard: SourceSpec) -> dict[str, Any]:
    """Return the meaning of a shard without the settings in which shards may differ."""
    return {name: value for name, value in shard.meaning.items() if name not in _OF_A_SHARD}
