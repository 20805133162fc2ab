"""Records that take the place of others: what a person corrected, as rows of bronze beside the ones that came."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.bronze import record as r

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frazil.bronze.read import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A record that takes the place of one that came.

    Attributes:
        file, row: where that one stands.
        position: its position; the correction has the same.
        fields: column of bronze -> text, NULL as None; columns that are missing are not carried.
        text: the correction as a person wrote it.
    """

    file: str
    row: int
    position: str
    fields: Mapping[str, str | None]
    text: str


def corrected_rows(corrections: Sequence[Correction], batch: Batch) -> Any:
    """Return an Arrow table of bronze with a row for each correction."""

    def value(one: Correction, name: str) -> object:
        own = {
            r.KIND: r.CORRECTED,
            r.FILE: one.file,
            r.ROW: one.row,
            r.POSITION: one.position,
            r.BATCH: batch.number,
            r.ARRIVED_AT: batch.arrived_at,
            r.KNOWN: None if one.fields.keys() >= {*batch.columns} else [*one.fields],
            r.RAW: one.text.encode(),
        }
        return own.get(name, one.fields.get(name))

    schema = batch.schema
    arrays = [pa.array([value(one, field.name) for one in corrections], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)
