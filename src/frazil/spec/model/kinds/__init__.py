"""What is declared of each kind of source: one file a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field

from frazil.spec.model.kinds.audit_log import AuditLog
from frazil.spec.model.kinds.debezium import Debezium
from frazil.spec.model.kinds.dms import DmsFiles
from frazil.spec.model.kinds.handover import Handover
from frazil.spec.model.kinds.postgres import Postgres
from frazil.spec.model.kinds.sharded import Sharded
from frazil.spec.model.kinds.snapshot import Snapshots

__all__ = ["AuditLog", "Debezium", "DmsFiles", "Handover", "Postgres", "Sharded", "Snapshots", "Source", "with_kind"]


def with_kind(source: object) -> object:
    """Return a source with its kind: files of Amazon DMS where it says none."""
    return {"kind": "dms", **source} if isinstance(source, dict) else source


if TYPE_CHECKING:
    # The code of a kind is only given tables of its kind; the rest asks for what SourceSpec has.
    Source: TypeAlias = Any
else:
    Source = Annotated[
        DmsFiles | AuditLog | Debezium | Postgres | Snapshots | Sharded | Handover,
        Field(discriminator="kind"),
        BeforeValidator(with_kind),
    ]
    """Any of them."""
