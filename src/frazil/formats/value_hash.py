"""Hash of record values, for files with bytes that cannot be reproduced, such as Parquet."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from frazil.formats.csv.form import offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence


class ValuesHash:
    """SHA-256 over the texts of a file's records, column by column, and over the bytes of its bad records.

    However records are given in pieces, the hash is the same. NULL and the empty text differ.

    Args:
        columns: how many columns the records have.
    """

    def __init__(self, columns: int) -> None:
        self._sizes = [hashlib.sha256() for _ in range(columns)]
        self._texts = [hashlib.sha256() for _ in range(columns)]
        self._rows, self._bad = hashlib.sha256(), hashlib.sha256()

    def add(self, rows: Any, columns: Sequence[Any]) -> None:
        """Add records, in the order of the file.

        Args:
            rows: their ordinals (int64).
            columns: their texts, always in the same order.

        Cost: the hash of the bytes, and no work a value.
        """
        self._rows.update(np.ascontiguousarray(rows.to_numpy(zero_copy_only=False), "<i8").data)
        for column, sizes_hash, texts_hash in zip(columns, self._sizes, self._texts, strict=True):
            texts = column.cast(pa.string())
            filled = texts.fill_null("") if texts.null_count else texts
            offsets = offsets_of(filled)
            sizes = np.diff(offsets).astype("<i4")
            if texts.null_count:
                sizes[texts.is_null().to_numpy(zero_copy_only=False)] = -1
            sizes_hash.update(sizes.data)
            if offsets[-1] > offsets[0]:
                texts_hash.update(memoryview(filled.buffers()[2])[int(offsets[0]) : int(offsets[-1])])

    def add_bad(self, row: int, raw: bytes | None) -> None:
        """Add a bad record, in the order of the file."""
        size = -1 if raw is None else len(raw)
        self._bad.update(b"%d %d " % (row, size) + (raw or b""))

    def hexdigest(self) -> str:
        """Hash of all that was added, in hex."""
        parts = (self._rows, *self._sizes, *self._texts, self._bad)
        return hashlib.sha256(b"".join(part.digest() for part in parts)).hexdigest()
