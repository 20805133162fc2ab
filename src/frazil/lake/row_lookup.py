"""Find rows of a table by their values, and where they are, without Spark.

Spark plans, compiles and broadcasts for half a second of CPU before it reads a key. Arrow reads the columns of a few
million rows and looks their values up in a fraction of that.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.host import usable_cores
from frazil.steps import NeedsSpark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow.parquet as pq
    from numpy.typing import NDArray

    from frazil.lake.table_files import TableFiles

AT_FILE: Final = "_cdc_at_file"
AT_POS: Final = "_cdc_at_pos"
"""Where a row is: its file, and its number in it."""

_PORTION_BYTES: Final = 64 * 1024 * 1024
"""Columns of a row group are read together as far as they take no more memory."""
_SPAN: Final = 1 << 25
"""Numbers that lie within so many are looked up in a table of marks, which is some ten times as fast as a hash."""


def find_rows(
    files: TableFiles,
    values: pa.Table,
    also: Sequence[str] = (),
    flag: str | None = None,
    *,
    most: int | None = None,
) -> pa.Table | NeedsSpark:
    """Return the rows of a table with one of some values.

    Args:
        files: of the table.
        values: rows of some columns of the table, repeats allowed; a row with a NULL matches nothing. Integers may have
            another width than the table's.
        also: further columns of the table to return.
        flag: a boolean column; only rows with true match. The column is not returned.
        most: approximate limit of matching rows; None for no limit.

    Returns:
        The columns of ``values`` and ``also`` of each matching row, in the table's types, with ``_cdc_at_file`` and
        ``_cdc_at_pos``. Spark is needed if it compares a column's type differently, a file has no column ids, or more
        than ``most`` rows match.

    Raises:
        OSError: a file cannot be read.
        pyarrow.ArrowException: it is damaged.
        StorageError: its store does not answer.

    Cost: reads the columns ``values`` and ``flag`` of all files, and ``also`` of row groups with a match. Each core
        holds the first columns of a row group, and up to 64 MiB or one column of ``also``, in memory.
    """
    names = values.column_names
    kinds = {name: files.fields[name][1] for name in dict.fromkeys((*names, *also)) if name in files.fields}
    if {*names, *also} - {*kinds} or not all(_compares(values.schema.field(name).type, kinds[name]) for name in names):
        return NeedsSpark("type")
    for name in names:
        values = _fitting(values, name, kinds[name])
    if flag is not None:
        if files.fields.get(flag, (0, None))[1] != pa.bool_():
            return NeedsSpark("type")
        files = files.of_partition(flag, True)
    looked_for = [_Values(name, values[name]) for name in names]
    look = _Look(files=files, values=looked_for, kinds=kinds, flag=flag, room=_Room(most))
    with ThreadPoolExecutor(usable_cores()) as pool:
        found = [*pool.map(look.rows_of, files.rows)]
    shape = pa.schema([*kinds.items(), (AT_POS, pa.int64()), (AT_FILE, pa.string())])
    pieces = [shape.empty_table()]
    for some in found:
        if isinstance(some, NeedsSpark):
            return some
        pieces += some
    rows = pa.concat_tables(pieces)
    # Each column has one of its values, but perhaps of different rows.
    return rows.join(values, keys=names, join_type="left semi") if len(names) > 1 else rows


def count_matching_rows(files: TableFiles, flags: Mapping[str, bool]) -> int | NeedsSpark:
    """Count the rows of a table where each flag column is NULL or has its given value.

    Args:
        files: the files of the table.
        flags: boolean columns -> the value to count.

    Raises:
        As :func:`find_rows`.

    Cost: reads these columns; without any, only the places of deleted rows.
    """
    number = 0
    for address in files.rows:
        lives = files.lives(address)
        if flags:
            with files.open(address) as file:
                inside = files.inside(file, flags)
                if inside is None:
                    return NeedsSpark("files")
                for name, wanted in flags.items():
                    if (mine := inside[name]) is not None:
                        holds = pc.equal(file.read(columns=[mine], use_threads=False)[mine], wanted)
                        lives &= np.asarray(pc.fill_null(holds, fill_value=True))
        number += int(lives.sum())
    return number


def _compares(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether Arrow compares values of two types as Spark does."""
    if pa.types.is_floating(other):
        return False  # in Spark NaN is equal to itself, and zero has no sign
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return True
    if pa.types.is_decimal(one) and pa.types.is_decimal(other):
        return bool(one.scale == other.scale and one.precision <= other.precision)
    return bool(one == other)


def _fitting(values: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    """Keep the rows whose value in a column is one of a type, as that type."""
    if pa.types.is_integer(kind) and values.schema.field(name).type.bit_width > kind.bit_width:
        most = 2 ** (kind.bit_width - 1)
        fits = pc.and_(pc.greater_equal(values[name], -most), pc.less(values[name], most))
        values = values.filter(pc.fill_null(fits, fill_value=False))
    return values.set_column(values.schema.get_field_index(name), name, values[name].cast(kind))


class _Values:
    """Values of a column that rows are looked for by."""

    def __init__(self, name: str, values: pa.ChunkedArray) -> None:
        self.name, self._values = name, pc.drop_null(pc.unique(values))
        self.lowest = self.highest = 0
        self._marks: NDArray[np.bool_] | None = None
        self._is_number = pa.types.is_integer(values.type) and len(self._values) > 0
        if self._is_number:
            numbers = self._values.to_numpy()
            self.lowest, self.highest = int(numbers.min()), int(numbers.max())
            if self.highest - self.lowest < _SPAN:
                # One flag for each number from the lowest on; the last one is False, for numbers out of range.
                self._marks = np.zeros(self.highest - self.lowest + 2, np.bool_)
                self._marks[numbers - self.lowest] = True

    def may_be_in(self, group: pq.RowGroupMetaData, column: str | None) -> bool:
        """Return whether a row group may have one of the values, by the bounds of its column."""
        if column is None or not len(self._values):
            return False
        if not self._is_number:
            return True
        chunks = (group.column(number) for number in range(group.num_columns))
        bounds = next((one.statistics for one in chunks if one.path_in_schema == column), None)
        if bounds is None or not bounds.has_min_max:
            return True
        return bool(bounds.min <= self.highest and bounds.max >= self.lowest)

    def are_in(self, column: pa.ChunkedArray) -> NDArray[np.bool_]:
        """Return of each row whether it has one of the values."""
        marks = self._marks
        if marks is None or column.null_count:
            return np.asarray(pc.is_in(column, value_set=self._values))
        numbers = column.to_numpy()
        is_near = (numbers >= self.lowest) & (numbers <= self.highest)
        return marks[np.where(is_near, numbers - self.lowest, -1)]


class _Room:
    """Counts down how many more rows may match; None for no limit."""

    def __init__(self, most: int | None) -> None:
        self._left = most

    def takes(self, rows: int) -> bool:
        """Take ``rows`` from the limit; return whether it suffices. Concurrent threads may exceed it slightly."""
        if self._left is None:
            return True
        self._left -= rows
        return self._left >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """A look for values in the files of a table.

    Attributes:
        kinds: column to give -> type.
        flag: column that must be true.
        room: for what is found.
    """

    files: TableFiles
    values: Sequence[_Values]
    kinds: Mapping[str, pa.DataType]
    flag: str | None
    room: _Room

    @property
    def _flags(self) -> tuple[str, ...]:
        return () if self.flag is None else (self.flag,)

    def rows_of(self, address: str) -> list[pa.Table] | NeedsSpark:
        """Return the matching rows of a file; Spark is needed if it has no column ids, or too many rows match."""
        with ExitStack() as opened:
            file = opened.enter_context(self.files.open(address))
            inside = self.files.inside(file, (*self.kinds, *self._flags))
            if inside is None:
                return NeedsSpark("files")
            texts = self._few_texts(file.metadata, inside)
            others = opened.enter_context(self.files.open(address, texts)) if texts else file
            found, lives, begin = [], self.files.lives(address), 0
            for number in range(file.num_row_groups):
                group = file.metadata.row_group(number)
                end = begin + group.num_rows
                if all(values.may_be_in(group, inside[values.name]) for values in self.values):
                    rows = self._group(file, others, number, inside, lives[begin:end])
                    if rows is None:
                        return NeedsSpark("large")
                    places = pc.add(rows[AT_POS], begin)
                    paths = pa.repeat(pa.scalar(address), rows.num_rows)
                    found.append(rows.set_column(rows.num_columns - 1, AT_POS, places).append_column(AT_FILE, paths))
                begin = end
        return found

    def _group(
        self,
        file: pq.ParquetFile,
        others: pq.ParquetFile,
        number: int,
        inside: Mapping[str, str | None],
        lives: NDArray[np.bool_],
    ) -> pa.Table | None:
        """Return the matching rows of a row group, with their positions in it; None if too many rows match.

        Args:
            file: the file.
            others: the same file, opened for the columns that are only returned.
            number: number of the row group.
            inside: column of the table -> its name in the file.
            lives: mask of the rows that are not deleted.
        """
        names = [values.name for values in self.values]
        keys = self._read(file, number, inside, [*names, *self._flags])
        for values in self.values:
            lives = lives & values.are_in(keys[values.name])
        for name in self._flags:
            lives = lives & np.asarray(pc.fill_null(keys[name], fill_value=False))
        at = pa.array(np.flatnonzero(lives), pa.int64())
        if not self.room.takes(len(at)):
            return None
        columns = {name: keys[name].take(at) for name in names}
        rest = [name for name in self.kinds if name not in names]
        # Row groups without a match are not read.
        for some in self._portions(file.metadata.row_group(number), inside, rest) if len(at) else ():
            read = self._read(others, number, inside, some, at)
            columns |= {name: read[name] for name in some}
        return pa.table(
            {name: columns.get(name, []) for name in self.kinds} | {AT_POS: at},
            pa.schema([*self.kinds.items(), (AT_POS, pa.int64())]),
        )

    def _few_texts(self, file: pq.FileMetaData, inside: Mapping[str, str | None]) -> list[str]:
        """Return the dictionary-encoded text columns that are returned but not searched.

        They are read as dictionaries, since decoding all texts before picking the wanted ones is the slowest part.
        """
        looked_for = {values.name for values in self.values}
        wanted = (inside[name] for name, kind in self.kinds.items() if kind == pa.string() and name not in looked_for)
        names = {name for name in wanted if name is not None}
        groups = map(file.row_group, range(file.num_row_groups))
        chunks = (group.column(number) for group in groups for number in range(group.num_columns))
        # A chunk with the encoding PLAIN has some texts outside its dictionary.
        return sorted(names - {chunk.path_in_schema for chunk in chunks if "PLAIN" in chunk.encodings})

    @staticmethod
    def _portions(
        group: pq.RowGroupMetaData, inside: Mapping[str, str | None], names: Sequence[str]
    ) -> Iterator[list[str]]:
        """Split the columns of a row group into portions of limited memory."""
        chunks = (group.column(number) for number in range(group.num_columns))
        sizes = {chunk.path_in_schema: chunk.total_uncompressed_size for chunk in chunks}
        some: list[str] = []
        size = 0
        for name in names:
            more = sizes.get(inside[name] or "", 0)
            if some and size + more > _PORTION_BYTES:
                yield some
                some, size = [], 0
            some, size = [*some, name], size + more
        if some:
            yield some

    def _read(
        self,
        file: pq.ParquetFile,
        number: int,
        inside: Mapping[str, str | None],
        names: Sequence[str],
        at: pa.Array | None = None,
    ) -> pa.Table:
        """Read columns of a row group, or of its rows ``at``, in the table's types; what the file lacks is NULL."""
        there = [name for name in map(inside.get, names) if name is not None]
        rows = file.read_row_group(number, columns=there, use_threads=False)
        size = file.metadata.row_group(number).num_rows
        if at is not None:
            rows, size = rows.take(at), len(at)
        pairs = ((name, inside[name], self.files.fields[name][1]) for name in names)
        return pa.table(
            {name: pa.nulls(size, kind) if mine is None else rows[mine].cast(kind) for name, mine, kind in pairs}
        )
