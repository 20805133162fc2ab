"""Declared settings of each kind of source, one module for each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import Field

from frazil.spec.model.kinds.audit_log import AuditLog
from frazil.spec.model.kinds.debezium import Debezium
from frazil.spec.model.kinds.dms import DmsFiles
from frazil.spec.model.kinds.handover import Handover
from frazil.spec.model.kinds.postgres import Postgres
from frazil.spec.model.kinds.sharded import Sharded
from frazil.spec.model.kinds.snapshot import Snapshots

__all__ = ["AuditLog", "Debezium", "DmsFiles", "Handover", "Postgres", "Sharded", "Snapshots", "Source"]


if TYPE_CHECKING:
    # Code of a kind gets tables of its kind only; all other code uses SourceSpec.
    Source: TypeAlias = Any
else:
    Source = Annotated[
        DmsFiles | AuditLog | Debezium | Postgres | Snapshots | Sharded | Handover,
        Field(discriminator="kind"),
    ]
    """A source of any kind."""
