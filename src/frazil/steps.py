"""The steps of a run as frozen values: ``plan`` builds them, ``runner`` does them, ``explain`` describes them.

The driver does a step without a Spark job where that gives the same rows. :class:`NeedsSpark` says why it cannot.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from frazil.sources.base import NewFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Ingest:
    """Append the records of new files, and the files themselves, to bronze in one commit."""

    table: str
    batch: int
    files: tuple[NewFile, ...]
    duplicates: tuple[NewFile, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of the files to read."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalize:
    """Turn bronze batches ``after < batch <= upto`` into typed changes and quarantined records.

    With ``rebuild`` the changes are computed from all of bronze and replace the table; ``reason`` says why.
    """

    table: str
    after: int
    upto: int
    rebuild: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldChanges:
    """Fold the changes before a horizon into the baseline of silver, and remove their records from bronze.

    Attributes:
        table: the source table.
        before: the horizon, a time in UTC as text.
        days: the declared retention in days; 0 completes a fold that was killed.
    """

    table: str
    before: str
    days: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMart:
    """Bring one mart of ``rows`` rows from batch ``after`` to batch ``upto``.

    With ``rebuild`` its rows are computed from all changes; ``reason`` says why.
    """

    table: str
    mart: str
    after: int
    upto: int
    rebuild: bool = False
    rows: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """Add a column; existing rows have NULL in it."""

    column: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """Give a column another name; it keeps its id in Iceberg, and no file is rewritten."""

    column: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WidenColumn:
    """Give a column a wider type; no file is rewritten."""

    column: str
    before: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSortOrder:
    """Set the columns that sort new files; an empty tuple turns sorting off."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetProperty:
    """Set a table property; ``format-version`` is one."""

    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveProperty:
    """Remove a table property."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLiveView:
    """Create, rename or drop the live view of a mart; None means no view."""

    before: str | None
    after: str | None


Alteration: TypeAlias = (
    AddColumn | RenameColumn | WidenColumn | SetSortOrder | SetProperty | RemoveProperty | SetLiveView
)
"""A change of a table that keeps its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """Alter a table before its next batch is written; no row changes.

    Attributes:
        table: the source table.
        name: namespace and name of the altered table.
        mart: name of the mart; empty for bronze, silver and quarantine.
        changes: the alterations, in order.
    """

    table: str
    name: str
    mart: str = ""
    changes: tuple[Alteration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshGold:
    """Recompute an aggregate after a change of its marts.

    Attributes:
        name: the aggregate.
        inputs: (mart, batch) of each mart that it reads, directly or through other aggregates.
        is_incremental: recompute only the groups that new batches touched, where possible.
        rebuild: replace the rows although no snapshot says which batches they are made of.
    """

    name: str
    inputs: tuple[tuple[str, int], ...]
    is_incremental: bool = False
    rebuild: bool = False


Step: TypeAlias = FoldChanges | Ingest | Normalize | UpdateMart | AlterTable | RefreshGold

SparkReason: TypeAlias = Literal[
    "setting",
    "column",
    "rule",
    "source",
    "corrections",
    "files",
    "large",
    "type",
    "key_change",
    "truncate",
    "snapshot",
    "early_change",
    "late",
    "unsequenced",
    "unusual",
    "ties",
    "partial",
]
"""Why Spark does a step in place of the driver."""

SPARK_REASONS: Final[Mapping[SparkReason, str]] = {
    "setting": "a column is renamed, blocked or required, or ignore_null_updates is set",
    "column": "a column has an expression or a type that Arrow does not have",
    "rule": "Arrow cannot check a rule of a column",
    "source": "the source's records have a form that only SQL reads",
    "corrections": "a corrected record is in the batch",
    "files": "Arrow cannot read or write files of the table",
    "large": "the rows to look up are too many for the driver",
    "type": "Arrow compares a type of a column in another way",
    "key_change": "a change of key is in the batch",
    "truncate": "a truncate or an unknown operation is in the batch",
    "snapshot": "a snapshot of the source ends in the batch, and may lack rows",
    "early_change": "a change comes before a truncate, delete or snapshot that silver has",
    "late": "many changes come late",
    "unsequenced": "deletes lack their sequence",
    "unusual": "many records have values in unusual forms",
    "ties": "two changes of a key differ only in content",
    "partial": "late changes are of a table whose changes lack columns",
}
"""The reasons in words, as the end of a sentence."""

DECLARED_REASONS: Final[frozenset[SparkReason]] = frozenset({"setting", "column", "rule", "source"})
"""Reasons that hold for each batch, by the declaration: a run prints no line for them."""


@dataclass(frozen=True, slots=True)
class NeedsSpark:
    """What the driver returns in place of a result that it cannot compute exactly; Spark then computes it."""

    reason: SparkReason


def spark_text(reasons: Iterable[str]) -> str:
    """Return reasons as one sentence; a reason of a newer version stays a word."""
    known = {f"{reason}": words for reason, words in SPARK_REASONS.items()}
    return "by Spark, as " + "; and as ".join(known.get(reason, reason) for reason in dict.fromkeys(reasons))


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRuns:
    """How many of the runs that wrote a table's readable snapshots needed Spark in place of the driver.

    Attributes:
        runs: number of these runs.
        by_spark: number of those that needed Spark.
        reasons: reason -> number of runs.
    """

    runs: int = 0
    by_spark: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Return the numbers in words; empty if no run needed Spark."""
        return f"{self.by_spark:,} of {self.runs:,} runs {spark_text(self.reasons)}" if self.by_spark else ""
