"""DMS files of a shop's orders, of any size: for ``frazil init --sample``, tests and benchmarks.

A full load in files of ascending ids, then one change file a batch: 70 % updates, 20 % inserts, 10 % deletes.
Built in columns, written a chunk at a time: memory does not grow with the size.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import DeclarationError
from frazil.testing.changes import csv_field
from frazil.testing.sample_files import Keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from frazil.testing.sample_files import SampleFiles

    Numbers = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]

COLUMNS: Final = {
    "id": "bigint",
    "customer_id": "int",
    "category": "string",
    "product_name": "string",
    "quantity": "int",
    "price": "decimal(12,2)",
    "status": "string",
    "note": "string",
    "updated_at": "timestamp",
}

CHUNK_ROWS: Final = 250_000
_HEADER: Final = (",".join(("op", *COLUMNS)) + "\n").encode()

_SECOND = 1_000_000
_HOUR = 3600 * _SECOND
_CHANGES_BEGIN = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * _SECOND
_LOAD_BEGINS = _CHANGES_BEGIN - 30 * 24 * _HOUR
_TIES = 0.005

_CATEGORIES = ("toys", "books", "garden", "kitchen", "music", "sport", "shoes", "lights", "games", "tools")
_STATUSES = ("new", "paid", "packed", "sent", "returned", "closed")
_KINDS = ("lamp", "chair", "kettle", "tent", "drum", "spade", "puzzle", "boots", "atlas", "saw")
_LOOKS = (
    "{0}",
    "small {0}",
    "{0}, red",
    '{0} "Polar"',
    '{0}, "Nordic", 12"',
    "Größe L {0}",
    "{0} & co",
    "old {0}",
)
_NOTES = ("", "call first", "gift, wrapped", 'says "fragile"', "back\\door", "ring twice", "été", "-")
_NASTY_NOTES = ("two\nlines", "two\r\nends", "NULL", " blanks ", '"', "😀")

_BAD: Final = (
    b"U,1,7,toys\n",  # too few fields
    b"U,1,7,toys,lamp,1,9.99,new,NULL,2026-01-01 00:00:00,more\n",  # too many
    b"U,1,7,toys,caf\xe9,1,9.99,new,NULL,2026-01-01 00:00:00\n",  # not UTF-8
    b"X,1,7,toys,lamp,1,9.99,new,NULL,2026-01-01 00:00:00\n",  # unknown op
    b"U,NULL,7,toys,lamp,1,9.99,new,NULL,2026-01-01 00:00:00\n",  # no key
    b"U,1,7,toys,lamp,1,9.99,new,NULL,NULL\n",  # no sequence
    b"U,1,7,toys,lamp,many,9.99,new,NULL,2026-01-01 00:00:00\n",  # no number
    b"U,1,7,toys,lamp,1,9.999,new,NULL,2026-01-01 00:00:00\n",  # digits the type cannot hold
    b"U,99999999999999999999,7,toys,lamp,1,9.99,new,NULL,2026-01-01 00:00:00\n",  # out of range
    b"U,1,7,toys,lamp,1,9.99,new,NULL,now\n",  # words for times
    b"U,1,7,toys,lamp,1,9.99,new,NULL,2026-02-30 00:00:00\n",  # no such day
)


@dataclass(frozen=True, slots=True)
class Generated:
    """The generated files.

    Attributes:
        load: the full load files, ascending in id.
        batches: the change files, in order.
        bad: records that no contract accepts, over all files.
    """

    load: tuple[Path, ...]
    batches: tuple[Path, ...]
    bad: int


def generate(folder: Path, files: SampleFiles) -> Generated:
    """Write the files of one table, same bytes for the same settings.

    ``updated_at`` rises with every change but for late ones, repeats, and a few ties (1 in 200, of one key).
    Updates and deletes may name a key that is already deleted. Half of the deletes carry no payload.

    Args:
        folder: where the files go; made if missing, files of the same names are replaced.
        files: how many, how large and how nasty.

    Raises:
        DeclarationError: a number is out of its range.
    """
    rows, batches, changes, parts = files.rows, files.batches, files.changes, files.parts
    if rows < 1 or parts < 1 or min(batches, changes) < 0:
        raise DeclarationError("rows and parts begin at 1, batches and changes at 0")
    if not (0 <= files.late <= 1 and 0 <= files.duplicates < 1):
        raise DeclarationError("shares lie from 0 to 1")
    if files.keys not in get_args(Keys):
        raise DeclarationError(f"there are no '{files.keys}' keys", hint=f"they are {', '.join(get_args(Keys))}")
    folder.mkdir(parents=True, exist_ok=True)
    shop = _Shop(files)
    load = []
    for part in range(parts):
        load.append(folder / f"LOAD{part + 1:08X}.csv")
        with load[-1].open("wb") as file:
            file.write(_HEADER)
            for first, last in _chunks(rows * part // parts + 1, rows * (part + 1) // parts + 1):
                file.write(_bytes(shop.load(first, last)))
    written = []
    for batch in range(batches):
        begin = _CHANGES_BEGIN + batch * _HOUR
        end_time = datetime.fromtimestamp((begin + _HOUR) // _SECOND, UTC)
        written.append(folder / f"{end_time:%Y%m%d-%H%M%S}000.csv")
        step = max(1, _HOUR // max(changes, 1))
        with written[-1].open("wb") as file:
            file.write(_HEADER)
            for start, end in _chunks(0, changes):
                lines = shop.changes(end - start, begin, start, step)
                spoilt = files.nasty and start == 0
                file.write(shop.spoil(lines) if spoilt else _bytes(lines))
    return Generated(tuple(load), tuple(written), bad=len(_BAD) * batches if files.nasty and changes else 0)


def sample_declaration(path: str) -> str:
    """Write a frazil.yml for the generated files.

    Args:
        path: their folder, relative to the declaration's folder.
    """
    columns = "\n".join(f"      - {{name: {name}, type: '{kind}'}}" for name, kind in COLUMNS.items())
    return f"""\
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: {json.dumps(path)}, format: csv, header: true, op: op}}
    keys: [id]
    sequence_by: [updated_at]
    columns:
{columns}
    marts:
      - {{kind: current, deletes: hard}}
      - {{kind: history, deletes: close}}
"""


class _Shop:
    """The state that goes from chunk to chunk: the generator of numbers and the newest id."""

    def __init__(self, files: SampleFiles) -> None:
        self.rng = np.random.default_rng(files.seed)
        self.rows, self.newest_id = files.rows, files.rows
        self.keys, self.late, self.duplicates = files.keys, files.late, files.duplicates
        self.categories, self.statuses = _pool(_CATEGORIES), _pool(_STATUSES)
        self.products = _pool([look.format(kind) for kind in _KINDS for look in _LOOKS])
        self.notes = _pool((*_NOTES, *_NASTY_NOTES) if files.nasty else _NOTES)

    def load(self, first: int, last: int) -> Any:
        """Draw the rows of the full load with ids in ``[first, last)``."""
        size = last - first
        times = self.rng.integers(_LOAD_BEGINS, _CHANGES_BEGIN, size)
        inserts = np.zeros(size, np.int8)
        return self._lines(inserts, np.arange(first, last), times, np.zeros(size, np.bool_))

    def changes(self, size: int, begin: int, done: int, step: int) -> Any:
        """Draw the next records of a batch.

        Args:
            size: number of records to draw.
            begin: when the batch began.
            done: number of records that the batch already has.
            step: time between two records, in the unit of ``begin``.
        """
        fresh = max(size - round(size * self.duplicates), 1)
        ops = np.searchsorted((0.2, 0.9), self.rng.random(fresh), side="right").astype(np.int8)
        newest = self.newest_id + np.cumsum(ops == 0)
        ids = np.where(ops == 0, newest, self._keys(newest))
        self.newest_id = int(newest[-1])
        times = begin + (done + np.arange(fresh)) * step + self.rng.integers(0, step, fresh)

        ties = np.flatnonzero((self.rng.random(fresh) < _TIES) & (ops != 0))
        ties = ties[ties > 0]
        ids[ties], times[ties] = ids[ties - 1], times[ties - 1]
        late = np.flatnonzero(self.rng.random(fresh) < self.late)
        times[late] = self.rng.integers(_LOAD_BEGINS, begin, late.size)

        gone = (ops == 2) & (self.rng.random(fresh) < 0.5)  # noqa: PLR2004 - deletes, half of them
        repeated = self.rng.integers(0, fresh, size - fresh)
        again_at = np.minimum(repeated + self.rng.integers(0, 1000, repeated.size), fresh)
        places = np.argsort(np.concatenate([np.arange(fresh), again_at]), kind="stable")
        picked = np.concatenate([np.arange(fresh), repeated])[places]
        return self._lines(ops, ids, times, gone).take(pa.array(picked))

    def spoil(self, lines: Any) -> bytes:
        """Put the bad records between the lines, in their order, anywhere."""
        cuts = sorted(self.rng.integers(0, len(lines) + 1, len(_BAD)).tolist())
        starts, ends = [0, *cuts], [*cuts, len(lines)]
        pieces = (_bytes(lines.slice(start, end - start)) for start, end in zip(starts, ends, strict=True))
        return b"".join(piece + bad for piece, bad in zip(pieces, (*_BAD, b""), strict=True))

    def _keys(self, newest: Numbers) -> Numbers:
        size = newest.size
        uniform = self.rng.integers(1, newest, endpoint=True)
        recent = newest - np.minimum(self.rng.exponential(self.rows / 100, size).astype(np.int64), newest - 1)
        hot_keys = min(max(self.rows // 1000, 1), 1000)
        hot = 1 + self.rng.integers(0, hot_keys, size) * (self.rows // hot_keys)
        kind = self.rng.random(size)
        by_choice = {
            "uniform": uniform,
            "recent": recent,
            "hot": hot,
            "mixed": np.select([kind < 0.2, kind < 0.8], [uniform, recent], hot),  # noqa: PLR2004
        }
        return by_choice[self.keys]

    def _lines(self, ops: npt.NDArray[np.int8], ids: Numbers, times: Numbers, gone: Flags) -> Any:
        """Write records as text, one string a line; those that are ``gone`` have no payload."""
        rng, size = self.rng, ids.size
        customers = max(self.rows // 10, 1)
        cents = rng.integers(0, 100, size)
        euros = np.floor(rng.exponential(80.0, size)).astype(np.int64)
        price = pc.binary_join_element_wise(_text(euros, gone), _CENTS.take(pa.array(cents)), ".")
        fields = [
            _OPS.take(pa.array(ops)),
            _text(ids),
            _text(rng.integers(1, customers, size, endpoint=True), gone),
            self._any(self.categories, gone),
            self._any(self.products, gone),
            _text(rng.integers(1, 20, size), gone),
            price,
            self._any(self.statuses, gone),
            self._any(self.notes, gone | (rng.random(size) < 0.7)),  # noqa: PLR2004 - most have none
            pa.array(times).cast(pa.timestamp("us")).cast(pa.string()),
        ]
        lines = pc.binary_join_element_wise(*fields, ",", null_handling="replace", null_replacement="NULL")
        return pc.binary_join_element_wise(lines, "\n", "")

    def _any(self, pool: Any, gone: Flags) -> Any:
        return pool.take(pa.array(self.rng.integers(0, len(pool), gone.size), mask=gone))


def _pool(texts: Sequence[str]) -> Any:
    return pa.array([csv_field(text) for text in texts])


_OPS: Final = _pool(("I", "U", "D"))
_CENTS: Final = _pool([f"{cents:02d}" for cents in range(100)])


def _text(numbers: Numbers, gone: Flags | None = None) -> Any:
    return pa.array(numbers, mask=gone).cast(pa.string())


def _bytes(lines: Any) -> bytes:
    """Join lines, whose text is already in one buffer."""
    _, offsets, text = lines.buffers()
    bounds = np.frombuffer(offsets, np.int32)
    return bytes(text[int(bounds[lines.offset]) : int(bounds[lines.offset + len(lines)])]) if text else b""


def _chunks(start: int, end: int) -> Iterator[tuple[int, int]]:
    for first in range(start, end, CHUNK_ROWS):
        yield first, min(first + CHUNK_ROWS, end)
