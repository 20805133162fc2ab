"""Words for operations that are a tool's own, and rows that are only the image before an update."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.spec.model.kinds.dms import OLD_KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

BEFORE_IMAGE: Final = "before image"
"""A row that is no change of its own: the next record is the update of it."""

_SQL_SERVER: Final = {"1": "delete", "2": "insert", "3": BEFORE_IMAGE, "4": "update", "5": "upsert"}
_QLIK: Final = {"B": BEFORE_IMAGE, "D": "delete"}
_CHANGE_FEED: Final = {
    "update_preimage": BEFORE_IMAGE,
    "update_postimage": "update",
    "insert": "insert",
    "delete": "delete",
}


def words_of(field: str) -> dict[str, str]:
    """Return the words that only the tool uses which calls its op field so; other words mean what they say.

    ``__$operation`` is that of SQL Server's change tables, ``header__change_oper`` of Qlik Replicate (with any prefix),
    ``_change_type`` of a change data feed of Delta.
    """
    name = field.lower()
    if name == "__$operation":
        return _SQL_SERVER
    if name.endswith("change_oper"):
        return _QLIK
    return _CHANGE_FEED if name == "_change_type" else {}


def classes_of(field: str) -> dict[str, str]:
    """Return word of the tool -> class of the change, without before images."""
    means = {word: meaning for word, meaning in words_of(field).items() if meaning != BEFORE_IMAGE}
    return {word: "delete" if meaning == "delete" else "upsert" for word, meaning in means.items()}


def said_by(field: str, word: str) -> str:
    """Return a word of an op field in the words of all tools."""
    return words_of(field).get(word.strip(), word)


def old_key(key: str) -> str:
    """Return the field with the value that a key had before, for tools that write it as a record of its own."""
    return f"{OLD_KEY}{key}"


@dataclass(slots=True, kw_only=True)
class BeforeImages:
    """Filter that leaves the before images of a file out, and gives each update behind one the key in it.

    The last record of a file is kept, whatever it is: its update may be in another file, where nothing brings its key.

    Attributes:
        op: column with the operation.
        words: word of the tool -> its meaning.
        keys: column of a key -> column of its value before the change.
    """

    op: str
    words: Mapping[str, str]
    keys: Mapping[str, str]
    names_fields: bool = True
    _last: tuple[int, dict[str, str | None]] | None = field(default=None)

    def is_own(self, *_: str | None) -> bool:
        """Return True: a record that cannot be read is shown."""
        return True

    def among(self, fields: dict[str, Any], rows: Any, *, is_last: bool) -> NDArray[np.bool_]:
        """Return which records are kept, and add the columns of old keys to ``fields``.

        Args:
            fields: text columns of n records, in file order.
            rows: their n ordinals; a before image stands directly before its update.
            is_last: no records of the file are behind them.
        """
        count, numbers = len(fields[self.op]), np.asarray(rows)
        if not count:
            return np.ones(0, np.bool_)
        meanings = pc.utf8_trim(fields[self.op], characters=" ")
        is_image = self._says(meanings, BEFORE_IMAGE)
        before = np.concatenate([[self._last is not None], is_image[:-1]])
        row, image = self._last or (-1, {})
        is_next = before & (numbers == np.concatenate([[row], numbers[:-1]]) + 1)
        is_moved = pa.array(is_next & ~is_image & ~self._says(meanings, "delete"))
        for key, column in self.keys.items():
            shifted = pa.concat_arrays([pa.array([image.get(key)], pa.string()), fields[key].slice(0, count - 1)])
            fields[column] = pc.if_else(is_moved, shifted, None)
        self._last = None
        if is_image[-1]:
            self._last = int(numbers[-1]), {key: fields[key][count - 1].as_py() for key in self.keys}
        is_kept: NDArray[np.bool_] = ~is_image
        is_kept[-1] |= is_last
        return is_kept

    def _says(self, said: Any, meaning: str) -> NDArray[np.bool_]:
        words = pa.array([word for word, means in self.words.items() if means == meaning], pa.string())
        found: NDArray[np.bool_] = pc.is_in(said, words).to_numpy(zero_copy_only=False)
        return found
