"""Declared source: whole snapshots of a table, and its changes from a source of another kind."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from frazil.spec.model.kinds.audit_log import AuditLog
from frazil.spec.model.kinds.debezium import Debezium
from frazil.spec.model.kinds.dms import DmsFiles
from frazil.spec.model.kinds.snapshot import Snapshots
from frazil.spec.model.source import NEXT_SNAPSHOT, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.spec.model.source import FoldBy

AT: Final = "__at"
SNAPSHOT: Final = "__snapshot"
STEP: Final = "__snapshot_step"
PLACE: Final = "__place"
OWN: Final = {AT: "timestamp", SNAPSHOT: "string", STEP: "string", PLACE: "string"}
"""Fields added to every record: effective time, snapshot, step of the snapshot, and position."""

BEGINS, ROW = "begins", "row"
"""Steps of a snapshot: it voids older rows, then brings each of its rows."""

TIME_SIGNS: Final = len("2026-01-31 05:00:00.000000")
OF_SNAPSHOT, OF_CHANGE = "/0/", "/1/"
"""Text after the time in a position: at the same time, the snapshot is older than the change."""


def time_text(moment: datetime) -> str:
    """Return a time in UTC as sortable text; a time without a zone is in UTC."""
    in_utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return in_utc.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


if TYPE_CHECKING:
    _Snapshots = Any
    _Changes = Any
else:
    _Snapshots = Annotated[Snapshots | DmsFiles, Field(discriminator="kind")]
    _Changes = Annotated[
        DmsFiles | AuditLog | Debezium,
        Field(discriminator="kind"),
    ]


class Handover(SourceSpec):
    """Whole snapshots of a table, and its changes from another source; the snapshot's time decides which are newer."""

    kind: Literal["handover"] = Field(
        default="handover", description="The kind of source: whole snapshots, and changes of another kind."
    )
    snapshots: _Snapshots = Field(
        description="Whole copies of the table: kind snapshot (dumps in a folder or of a database), "
        "or kind dms (each folder below path is one full load)."
    )
    changes: _Changes = Field(
        description="The changes: a source of kind dms, audit_log or debezium, as it would be declared alone."
    )
    time: str | None = Field(
        default=None,
        min_length=1,
        description="Field of the changes that says when a change happened. Left out: the one that the kind has.",
    )
    at: dict[str, Annotated[datetime, AfterValidator(_in_utc)]] = Field(
        default_factory=dict,
        description="Snapshot -> when it began to be taken, in UTC. Left out: the date or time in its name.",
    )
    overlap_seconds: float = Field(
        default=60.0,
        ge=0,
        description="Changes up to this long before a snapshot count as newer than it, as it may lack them.",
    )
    leave_out: tuple[str, ...] = Field(default=(), description="Snapshots that do not count, such as broken ones.")
    landing: str = Field(
        default="./landing/handover", description="Folder that snapshots are copied to, one folder a table."
    )
    max_delete_fraction: float = Field(
        default=0.2,
        ge=0,
        le=1,
        description="A snapshot that would delete more than this share of the rows is refused.",
    )

    @property
    def dumps(self) -> Snapshots:
        """Return the snapshots as a source of dumps."""
        if isinstance(self.snapshots, Snapshots):
            return self.snapshots.model_copy(update={"landing": self.landing})
        return Snapshots(
            path=self.snapshots.path[0], settle_seconds=self.snapshots.settle_seconds, landing=self.landing
        )

    @property
    def time_field(self) -> str | None:
        """Return the field with the time of a change; None if it is not declared and the kind has none."""
        found: str | None = self.time or self.changes.event_time
        return found

    @property
    def locations(self) -> dict[str, tuple[str, ...]]:
        """Return the locations of changes and snapshots."""
        return {**self.changes.locations, "snapshots": self.snapshots.locations.get("path", ())}

    def landed_in(self, folder: str) -> Handover | None:
        """Return the changes with another landing folder, without snapshots; None if changes are not landed."""
        changes = self.changes.landed_in(folder)
        if changes is None:
            return None
        return self.model_copy(update={"changes": changes, "landing": f"{folder}/.snapshots"})

    @property
    def addresses(self) -> dict[str, str]:
        """Return the addresses of both parts."""
        parts = {"snapshots": self.snapshots, "changes": self.changes}
        return {
            f"{name}.{setting}": address for name, part in parts.items() for setting, address in part.addresses.items()
        }

    @property
    def operation_field(self) -> str | None:
        """Return the operation field of the changes."""
        found: str | None = self.changes.operation_field
        return found

    @property
    def orders_records(self) -> bool:
        """Return True: their times order records."""
        return True

    @property
    def named_delivery(self) -> str | None:
        """Return the file name pattern of the changes."""
        found: str | None = self.changes.named_delivery
        return found

    @property
    def types_fields(self) -> bool:
        """Return False: the parts may write a value differently, so only the declaration defines types."""
        return False

    @property
    def leaves_out(self) -> bool:
        """Return whether a change may lack unchanged fields."""
        return bool(self.changes.leaves_out)

    @property
    def truncates(self) -> bool:
        """Return True: a snapshot truncates older rows."""
        return True

    @property
    def snapshot_places(self) -> str:
        """Return the LIKE pattern of positions of snapshot rows; the text after the time distinguishes them."""
        return f"_/{'_' * TIME_SIGNS}{OF_SNAPSHOT}%"

    @property
    def own_fields(self) -> Mapping[str, str]:
        """Return the fields of the kind of the changes, the effective time, and the snapshot."""
        return {**self.changes.own_fields, AT: OWN[AT], SNAPSHOT: OWN[SNAPSHOT]}

    @property
    def event_time(self) -> str:
        """Return the field with the effective time."""
        return AT

    @property
    def made_columns(self) -> Mapping[str, str]:
        """Return the made columns of the changes."""
        found: Mapping[str, str] = self.changes.made_columns
        return found

    def field_names(self, declared: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the fields of the changes' headerless files."""
        found: tuple[str, ...] | None = self.changes.field_names(declared)
        return found

    @property
    def meaning(self) -> dict[str, Any]:
        """Return the meaning of the changes, and the snapshots to leave out."""
        left_out = {"leave_out": sorted(self.leave_out)} if self.leave_out else {}
        return {"kind": self.kind, "time": self.time_field, "of": self.changes.meaning, **left_out}

    @property
    def before_prefix(self) -> str | None:
        """Return the before prefix of the changes."""
        found: str | None = self.changes.before_prefix
        return found

    @property
    def row_texts(self) -> tuple[str, ...]:
        """Return the row texts of the changes."""
        found: tuple[str, ...] = self.changes.row_texts
        return found

    def is_bookkeeping(self, field: str) -> bool:
        """Return whether a field is one of Frazil's, or bookkeeping of the changes."""
        return field.lower() in OWN or bool(self.changes.is_bookkeeping(field))

    @property
    def retention_by(self) -> tuple[FoldBy, ...]:
        """Return that the time of a change orders it."""
        return ("place",)

    def way_to_lost_rows(self, name: str) -> str:
        """Return that the next snapshot has the rows."""
        return NEXT_SNAPSHOT.format(name=name)

    def delete_limit(self, position: str) -> float | None:
        """Return the share of rows that a snapshot may delete; None for a truncate of the changes."""
        of_snapshot = position.partition("/")[2][TIME_SIGNS:].startswith(OF_SNAPSHOT)
        return self.max_delete_fraction if of_snapshot else None
