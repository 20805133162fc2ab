"""Search a file for texts: in its bytes, and in its unpacked values."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.iceberg.damage import local_path
from frazil.storage.files import storage_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

LEAST_BYTES: Final = 6
"""Files contain shorter texts by chance."""
_WORD: Final = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_.@+-")
"""Signs of a word: next to one of them, a text is a part of another one."""
_QUOTE: Final = ord('"')
_MORE: Final = 0x80
"""Bit of a byte that another one follows."""
_SLICE_BYTES: Final = 4 * 1024 * 1024
_MOST_PAIRS: Final = 16
_BATCH_ROWS: Final = 131_072


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """Occurrences of the texts in one file.

    Attributes:
        values: number of column values that equal one of the texts.
        in_bytes: whether the bytes of the file, or a record of Avro, contain one of the texts.
    """

    values: int = 0
    in_bytes: bool = False


class TextSearch:
    """Search for any number of texts in one pass.

    Args:
        texts: texts of at least six bytes each.
    """

    def __init__(self, texts: Collection[str]) -> None:
        self._values = pa.array(sorted(texts), pa.string())
        self._texts = {text.encode() for text in texts}
        self._lengths = sorted({len(text) for text in self._texts})
        self._firsts = _pairs(self._texts, self._lengths[0]) if self._texts else []

    @property
    def has_texts(self) -> bool:
        """Whether there are texts to search for."""
        return bool(self._texts)

    def look_through(self, address: str, without: Collection[str] = ()) -> Hits:
        """Search all bytes of a file and, for Parquet, each value of its string columns.

        Args:
            address: path or address of the file.
            without: names of columns whose values are not searched.

        Cost: one pass over the bytes, and one over the values, a batch of rows at a time. A remote file is copied to
        this machine's disk for the search.
        """
        with _mapped(address) as data:
            in_bytes = self.is_in(data) or (address.endswith(".avro") and any(map(self.is_in, _records(data))))
            return Hits(values=self._count(data, without) if address.endswith(".parquet") else 0, in_bytes=in_bytes)

    def is_in(self, data: pa.Buffer | bytes) -> bool:
        """Return whether the data contains a text by itself: as a word, in quotes, or after its length."""
        if not self._texts:
            return False
        whole = memoryview(data)
        every, longest = np.frombuffer(whole, np.uint8), self._lengths[-1]
        for start in range(0, len(whole), _SLICE_BYTES):
            some = every[start : start + _SLICE_BYTES + longest]
            for place in self._places(some):
                for length in self._lengths:
                    here = start + place
                    if bytes(whole[here : here + length]) in self._texts and _stands_alone(whole, here, length):
                        return True
        return False

    def _places(self, some: Any) -> Iterator[int]:
        """Yield candidate positions: every pair of bytes from there on occurs at that offset in one of the texts."""
        for odd in (0, 1):
            pairs = some[odd : odd + (len(some) - odd) // 2 * 2].view("<u2")
            last = len(pairs) - len(self._firsts)
            found = np.flatnonzero(self._firsts[0][pairs[: max(last + 1, 0)]])
            for number, first in enumerate(self._firsts[1:], 1):
                if len(found) == 0:
                    break
                found = found[first[pairs[found + number]]]
            yield from (2 * int(place) + odd for place in found)

    def _count(self, data: pa.Buffer, without: Collection[str]) -> int:
        file = pq.ParquetFile(pa.BufferReader(data))
        names = [field.name for field in file.schema_arrow if pa.types.is_string(field.type)]
        names = [name for name in names if name not in without]
        count, rows = 0, max(_BATCH_ROWS, len(self._values))
        for batch in file.iter_batches(batch_size=rows, columns=names) if names else ():
            for column in batch.columns:
                count += pc.sum(pc.is_in(column, value_set=self._values)).as_py() or 0
        return count


def _pairs(texts: Iterable[bytes], least: int) -> list[Any]:
    """Return for each offset a mask over all 65,536 pairs of bytes: the pairs that a text has there."""
    many = min(least // 2, _MOST_PAIRS)
    found = np.frombuffer(b"".join(text[: 2 * many] for text in texts), "<u2").reshape(-1, many)
    tables = []
    for column in found.T:
        table = np.zeros(65_536, bool)
        table[column] = True
        tables.append(table)
    return tables


def _stands_alone(data: memoryview, start: int, length: int) -> bool:
    """Return whether a text is not part of a longer one.

    Its length precedes it, as in Parquet, Thrift and Avro, or no word characters surround it. A text that is not a word
    itself must be in quotes, because a longer text may contain it between other words.
    """
    before, after = bytes(data[max(start - 4, 0) : start]), data[start + length : start + length + 1]
    if before == length.to_bytes(4, "little") or before.endswith((_varint(length), _varint(2 * length))):
        return True
    beside = {*before[-1:], *after}
    if _WORD.issuperset(data[start : start + length]):
        return _WORD.isdisjoint(beside)
    return beside == {_QUOTE}


def _varint(number: int) -> bytes:
    """Return a number as bytes in groups of seven bits, lowest first."""
    groups = bytearray()
    while number >= _MORE:
        groups.append(number % _MORE | _MORE)
        number //= _MORE
    return bytes([*groups, number])


@contextmanager
def _mapped(address: str) -> Iterator[pa.Buffer]:
    """Yield the bytes of a file, mapped into memory."""
    if (path := local_path(address)) is not None:
        yield _buffer(f"{path}")
        return
    with tempfile.NamedTemporaryFile(prefix="frazil-") as copy, storage_of(address).open(address) as file:
        shutil.copyfileobj(file, copy)
        copy.flush()
        yield _buffer(copy.name)


def _buffer(path: str) -> pa.Buffer:
    with pa.memory_map(path) as file:
        return file.read_buffer()


def _records(data: pa.Buffer) -> Iterator[bytes]:
    """Yield the unpacked values of each record of an Avro file."""
    for record in fastavro.reader(pa.BufferReader(data)):
        yield b"\0".join([b"", *_values(record), b""])


def _values(value: Any) -> Iterator[bytes]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _values(inner)
    elif isinstance(value, bytes):
        yield value
    elif isinstance(value, str):
        yield value.encode()
