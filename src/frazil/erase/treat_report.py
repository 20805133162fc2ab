"""What a treatment of personal data that a lake held before would do, or did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.errors import DifferenceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.erase.report import ErasedLayer


class ValuesLeftError(DifferenceError):
    """A value that was to be replaced may still be in the lake."""

    code = "FZ802"

    def __init__(self, report: TreatReport) -> None:
        self.report = report
        places = "; ".join(f"{place}: {count:,}" for place, count in report.found[:3])
        super().__init__(
            f"table {report.table!r}: values that were to be replaced are left: {places}",
            hint="another tool wrote the tables meanwhile: run the command again when nothing else does",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatReport:
    """What a treatment would do, or did.

    Attributes:
        table: the source table.
        fields: fields of the source whose values are replaced in bronze, and how.
        layers: every table, in the order of the data; ``rows`` are those of records in bronze that are written again,
            None for a table that is computed again.
        resumed: one that was killed is ended.
        rows, files: that were looked through for what is left.
        found: (place, how often) of what was found; empty is the proof.
        done: it was done, and not only looked at.
    """

    table: str
    fields: Mapping[str, str]
    layers: tuple[ErasedLayer, ...]
    resumed: bool = False
    rows: int = 0
    files: int = 0
    found: tuple[tuple[str, int], ...] = ()
    done: bool = False
