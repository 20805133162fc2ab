"""Replace personal data in rows of bronze before they are written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from frazil.bronze import record as r
from frazil.spec.pii import (
    DROP,
    HMAC,
    MASK,
    MASKED,
    TREATED,
    TREATING,
    PiiKeyError,
    hashed,
    is_hashed,
    key_check,
    pii_fields,
    pii_key,
    treated_fields,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from frazil.spec import Pipeline, Table

KEY_CHECK: Final = "pii_key"
"""Key of bronze's bookmark with a check value of the hmac key."""
MADE_BY: Final = "made_by"
"""Key of bronze's bookmark with the treatment that later replaced values in bronze, if there was one."""
BRONZE_MADE_BY: Final = "bronze_made_by"
"""Key of silver's bookmark with the treatment of the bronze that its changes come from."""

_BYTES: Final = (r.RAW, r.END, r.FORM)
"""Columns that hold bytes of records, or from which the bytes could be restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """Treatment of personal data in the records of a table.

    Attributes:
        ways: lower-case name of a bronze column -> ``drop``, ``mask`` or ``hmac``.
        key: key of the hashes; empty if no column is hashed.
    """

    ways: Mapping[str, str]
    key: bytes = field(default=b"", repr=False)

    @property
    def bookmark(self) -> dict[str, str]:
        """Return the check value of the key for bronze's bookmark, so that a changed key is detected."""
        return {KEY_CHECK: key_check(self.key)} if self.key else {}

    def treated(self, batch: Any, *, again: bool = False) -> Any:
        """Return rows of bronze without personal data.

        NULL stays NULL. The bytes of every row are removed too, because values in a bad record cannot be located. A
        reason keeps only its first part, which holds no text of the file.

        Args:
            batch: n rows of bronze, an Arrow record batch or table.
            again: True to keep values that look like hashes, as in records that a person corrected.

        Returns:
            The same n rows, treated.

        Cost: one hash for each distinct value of an hmac column.
        """
        arrays = []
        for name, values in zip(batch.schema.names, batch.columns, strict=True):
            way = self.ways.get(name.lower())
            if name in _BYTES or way == DROP:
                arrays.append(pa.nulls(len(values), values.type))
            elif name == r.REASON:
                arrays.append(pc.replace_substring_regex(values, r"(?s)[:(].*", ""))
            elif way == MASK:
                arrays.append(pc.if_else(values.is_valid(), pa.scalar(MASKED), None))
            elif way == HMAC:
                arrays.append(self._hashed(values, again=again))
            else:
                arrays.append(values)
        return type(batch).from_arrays(arrays, schema=batch.schema)

    def _hashed(self, values: Any, *, again: bool) -> Any:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        distinct = values.dictionary_encode()
        texts = distinct.dictionary.to_pylist()
        made = [text if again and is_hashed(text) else hashed(self.key, text) for text in texts]
        return pa.array(made, pa.string()).take(distinct.indices)


def treatment_of(pipeline: Pipeline, table: Table) -> Treatment | None:
    """Return the treatment of a table's records; None if no column has ``pii``.

    Raises:
        DeclarationError: the key is missing, or the reference to it cannot be resolved.
        PiiKeyError: the key is too short.
    """
    ways = pii_fields(table)
    if not ways:
        return None
    return Treatment(ways=ways, key=pii_key(pipeline) if HMAC in ways.values() else b"")


def treated_bookmark(table: Table, fields: Iterable[str], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of bronze's bookmark about the treatment of its fields, after a batch is added.

    Args:
        table: declared table.
        fields: names of all fields that bronze has after the batch.
        before: bookmark before the batch.
    """
    ways, kept = treated_fields(table, fields), {name: before[name] for name in (TREATING, MADE_BY) if name in before}
    return kept | ({TREATED: ways} if ways else {})


def verify_key(table: Table, bookmark: Mapping[str, Any], treatment: Treatment | None) -> None:
    """Refuse a key that differs from the key of bronze's hashes.

    Args:
        table: declared table, for messages.
        bookmark: bronze's bookmark.
        treatment: treatment of this run; None without personal data.

    Raises:
        PiiKeyError: the keys differ.
    """
    before = bookmark.get(KEY_CHECK)
    if before is None or treatment is None or not treatment.key or treatment.bookmark[KEY_CHECK] == before:
        return
    raise PiiKeyError(
        f"pii_key: table {table.name!r} has values that were made with another key",
        hint=f"set the key back; or read the files again with this one: frazil drop --select {table.name}, "
        "then frazil run (the files must still be at the source)",
    )
