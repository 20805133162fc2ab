"""Read Parquet files as canonical text, so that records of every format look the same."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from frazil.formats.parquet_text import ValuesHash, as_text, int96_text, spark_type_of_arrow
from frazil.formats.records import VALUES, Bad, Parsed, check_names, parts_of
from frazil.storage.files import storage_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.formats.records import OwnFilter

BATCH_ROWS: Final = 32_768
_INT96: Final = "INT96"


def parquet_columns(path: str, uri: str, named: Mapping[str, str] | None = None) -> tuple[tuple[str, str], ...]:
    """Read the names and Spark types of a file's fields from its footer.

    Args:
        path: names the file in errors.
        uri: opens it.
        named: field name, exactly as in the file -> its name here; other fields keep their names.

    Raises:
        pyarrow.ArrowException, OSError: the footer is missing or damaged.
        DuplicateFieldsError: two names are equal without regard to case.
    """
    with closing(opened(uri)) as parquet:
        fields = parquet.schema_arrow
    names = [(named or {}).get(name, name) for name in fields.names]
    check_names(path, names)
    return tuple((name, spark_type_of_arrow(field.type)) for name, field in zip(names, fields, strict=True))


def opened(uri: str, **options: Any) -> Any:
    """Return Arrow's reader of a local or stored Parquet file. The caller must close it.

    Raises:
        pyarrow.ArrowException, OSError: the footer is missing or damaged.
    """
    if "://" not in uri:
        return pq.ParquetFile(uri, **options)
    file = storage_of(uri).open(uri)
    try:
        return pq.ParquetFile(file, **options)
    except BaseException:
        file.close()
        raise


def count_rows(uri: str) -> int:
    """Return the number of rows in a file's footer; 1 if the footer is missing or damaged."""
    try:
        with closing(opened(uri)) as parquet:
            return int(parquet.metadata.num_rows)
    except (pa.ArrowException, OSError):
        return 1


def first_line(error: Exception) -> str:
    """The first line of a message of Arrow, which may go on with a trace."""
    return (str(error).splitlines() or [type(error).__name__])[0]


class ParquetFile:
    """The records of a Parquet file, its values as canonical text (:mod:`frazil.formats.parquet_text`).

    A record with a value that has no text is bad, with all its values. If the file cannot be decoded from some record
    on, the following records are bad without values, and the first of them has the stored file as its parts.

    Args:
        uri: the file.
        names: target columns of its fields, in file order.
        own: filter of records; None to keep all.
        rejected: reason to reject all records; None to accept them.
    """

    head: Final = None

    def __init__(
        self,
        uri: str,
        names: tuple[str, ...],
        *,
        own: OwnFilter | None = None,
        rejected: str | None = None,
    ) -> None:
        self._uri, self._names, self._own, self._rejected = uri, names, own, rejected
        self._hash = ValuesHash(len(self._names))

    def form(self) -> dict[str, Any]:
        """Return the hash of the values: the bytes do not follow from them."""
        return {"content": VALUES, "content_sha256": self._hash.hexdigest()}

    def __iter__(self) -> Iterator[Parsed]:
        """Read all records in order; once only."""
        row = 1
        with ExitStack() as stack:
            parquet = stack.enter_context(closing(opened(self._uri, coerce_int96_timestamp_unit="us")))
            count = parquet.metadata.num_rows
            batches = parquet.iter_batches(batch_size=BATCH_ROWS, use_threads=False)
            finer = stack.enter_context(closing(_Int96(self._uri, parquet)))
            while row <= count:
                try:
                    batch = next(batches)
                    nanos = finer.read(batch.num_rows)
                except (OSError, pa.ArrowException, StopIteration) as error:
                    yield from self._undecoded(row, count, first_line(error))
                    return
                parsed, row = self._parsed(batch, nanos, row), row + batch.num_rows
                yield self._hashed(self._kept(parsed, is_last=row > count))

    def _undecoded(self, row: int, count: int, error: str) -> Iterator[Parsed]:
        yield self._hashed(Parsed(bad=[Bad(number, f"unreadable: {error}") for number in range(row, count + 1)]))
        yield from parts_of(self._uri, row)

    def _kept(self, parsed: Parsed, *, is_last: bool) -> Parsed:
        """Leave the records of other tables, and erased ones, out."""
        if self._own is None or not len(parsed.rows):
            return parsed
        is_own = self._own.among(parsed.fields, parsed.rows, is_last=is_last)
        if is_own.all():
            return parsed
        mask = pa.array(is_own)
        fields = {name: column.filter(mask) for name, column in parsed.fields.items()}
        rows = parsed.rows.filter(mask)
        return Parsed(fields, rows, bad=parsed.bad, foreign=len(parsed.rows) - len(rows))

    def _hashed(self, parsed: Parsed) -> Parsed:
        if len(parsed.rows):
            self._hash.add(parsed.rows, [parsed.fields[name] for name in self._names])
        for bad in parsed.bad:
            self._hash.add_bad(bad.row, bad.raw)
        return parsed

    def _parsed(self, batch: Any, nanos: Mapping[int, Any], row: int) -> Parsed:
        try:
            return self._texts(batch, nanos, row)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            if batch.num_rows == 1:
                reason = f"unsupported: {first_line(error)}"
                return Parsed(bad=[Bad(row, reason, _stored(batch))])
        half = batch.num_rows // 2
        halves = []
        for start, length in ((0, half), (half, batch.num_rows - half)):
            some = {place: column.slice(start, length) for place, column in nanos.items()}
            halves.append(self._parsed(batch.slice(start, length), some, row + start))
        return _joined(halves)

    def _texts(self, batch: Any, nanos: Mapping[int, Any], row: int) -> Parsed:
        columns: list[Any] = []
        invalid: dict[int, dict[int, Any]] = {}
        for place, column in enumerate(batch.columns):
            text, wrong = _sound_text(column)
            columns.append(int96_text(column, nanos[place]) if place in nanos else as_text(text))
            for number, value in wrong.items():
                invalid.setdefault(number, {})[place] = value
        rows = np.arange(row, row + batch.num_rows, dtype=np.int64)
        if self._rejected:
            values = [self._json(columns, invalid.get(at, {}), at) for at in range(len(rows))]
            return Parsed(bad=[Bad(int(at), self._rejected, raw) for at, raw in zip(rows, values, strict=True)])
        fields = dict(zip(self._names, columns, strict=True))
        if not invalid:
            return Parsed(fields, pa.array(rows))
        bad = [
            Bad(
                int(rows[at]),
                f"encoding: invalid UTF-8 in {', '.join(self._names[place] for place in values)}",
                self._json(columns, values, at),
            )
            for at, values in sorted(invalid.items())
        ]
        sound = np.delete(np.arange(len(rows)), list(invalid))
        kept = {name: column.take(pa.array(sound)) for name, column in fields.items()}
        return Parsed(kept, pa.array(rows[sound]), bad=bad)

    def _json(self, columns: list[Any], invalid: Mapping[int, bytes], at: int) -> bytes:
        """Write a record as JSON of texts; bytes that are no text as hexadecimal digits."""
        record = {
            name: {"hex": invalid[place].hex()} if place in invalid else columns[place][at].as_py()
            for place, name in enumerate(self._names)
        }
        return json.dumps(record, ensure_ascii=False).encode()


class _Int96:
    """The timestamps of 96 bits in a file, as nanoseconds that may have wrapped around."""

    def __init__(self, uri: str, parquet: Any) -> None:
        schema = parquet.schema
        flat = [schema.column(number) for number in range(len(schema.names))]
        names = {column.path for column in flat if column.physical_type == _INT96}
        self._places = {name: place for place, name in enumerate(parquet.schema_arrow.names) if name in names}
        self._file = opened(uri) if self._places else None
        columns = list(self._places)
        self._batches = self._file.iter_batches(batch_size=BATCH_ROWS, columns=columns) if self._file else iter(())
        self._rest: Any = None

    def read(self, count: int) -> dict[int, Any]:
        """Return the next values of each such column, by the column's place."""
        while self._file and (self._rest is None or self._rest.num_rows < count):
            batch = pa.Table.from_batches([next(self._batches)])
            self._rest = batch if self._rest is None else pa.concat_tables([self._rest, batch])
        if self._rest is None:
            return {}
        found = {place: self._rest[name].slice(0, count).combine_chunks() for name, place in self._places.items()}
        self._rest = self._rest.slice(count)
        return found

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()


def _stored(batch: Any) -> bytes:
    """Return a record as an Arrow stream, which has a form for values of any type."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def _joined(some: list[Parsed]) -> Parsed:
    with_fields = [parsed for parsed in some if parsed.fields]
    names = with_fields[0].fields if with_fields else ()
    return Parsed(
        {name: pa.concat_arrays([parsed.fields[name] for parsed in with_fields]) for name in names},
        pa.concat_arrays([parsed.rows for parsed in some]),
        bad=[bad for parsed in some for bad in parsed.bad],
    )


def _sound_text(column: Any) -> tuple[Any, dict[int, bytes]]:
    """Take what is not UTF-8 out of a text column; its bytes by their place."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kinds = pa.types
    if not (kinds.is_string(column.type) or kinds.is_large_string(column.type) or kinds.is_string_view(column.type)):
        return column, {}
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raw = column.cast(pa.large_binary()).to_pylist()
        invalid = {at: value for at, value in enumerate(raw) if value is not None and not _is_utf8(value)}
        sound = np.ones(len(column), np.bool_)
        sound[list(invalid)] = False
        return pc.if_else(pa.array(sound), column, None), invalid
    return column, {}


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
