"""Personal data in rows of bronze is replaced before any of them is written."""

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
"""Key of bronze's bookmark: by it the key of hmac columns is known again."""
MADE_BY: Final = "made_by"
"""Key of bronze's bookmark: names the treatment that replaced values which bronze held before, if any did."""
BRONZE_MADE_BY: Final = "bronze_made_by"
"""Key of silver's bookmark: the name of the bronze that its changes were made of."""

_BYTES: Final = (r.RAW, r.END, r.FORM)
"""Columns that hold bytes of records, or by which they could be written again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """What is done to the records of a table with columns of personal data.

    Attributes:
        ways: lower-case name of a column of bronze -> ``drop``, ``mask`` or ``hmac``.
        key: of the hashes; empty where no column has any.
    """

    ways: Mapping[str, str]
    key: bytes = field(default=b"", repr=False)

    @property
    def bookmark(self) -> dict[str, str]:
        """Return what bronze's bookmark keeps of the key, so that another one is noticed."""
        return {KEY_CHECK: key_check(self.key)} if self.key else {}

    def treated(self, batch: Any, *, again: bool = False) -> Any:
        """Return rows of bronze without personal data.

        NULL stays NULL. Of every row the bytes go, too: nobody can say where in a bad record a value stands; of its
        reason only the first part stays, which holds no text of the file.

        Args:
            batch: n rows of bronze, an Arrow record batch or table.
            again: values that are written like hashes are hashes already, as in records that a person corrected.

        Returns:
            The n rows.

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
    """Return what is done to the records of a table; None where no column says ``pii``.

    Raises:
        DeclarationError: there is no key, or the reference to it leads nowhere.
        PiiKeyError: the key is too short.
    """
    ways = pii_fields(table)
    if not ways:
        return None
    return Treatment(ways=ways, key=pii_key(pipeline) if HMAC in ways.values() else b"")


def treated_bookmark(table: Table, fields: Iterable[str], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return what bronze's bookmark keeps of how its fields are treated, once a batch is in it.

    Args:
        table: the declaration.
        fields: names of all fields that bronze then has.
        before: the bookmark until now.
    """
    ways, kept = treated_fields(table, fields), {name: before[name] for name in (TREATING, MADE_BY) if name in before}
    return kept | ({TREATED: ways} if ways else {})


def verify_key(table: Table, bookmark: Mapping[str, Any], treatment: Treatment | None) -> None:
    """Refuse another key than the one that bronze's values were made with.

    Raises:
        PiiKeyError: it is another.
    """
    before = bookmark.get(KEY_CHECK)
    if before is None or treatment is None or not treatment.key or treatment.bookmark[KEY_CHECK] == before:
        return
    raise PiiKeyError(
        f"pii_key: table {table.name!r} has values that were made with another key",
        hint=f"set the key back; or read the files again with this one: frazil drop --select {table.name}, "
        "then frazil run (the files must still be at the source)",
    )
