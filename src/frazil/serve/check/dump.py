"""Dumps of tables as one side of a comparison with a mart, and SQL that writes the lake's values as the same text."""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa

from frazil.duck import identifier
from frazil.host import spill_folder
from frazil.sources.comparison import BUCKET_DIGITS, SEPARATOR, SUM_DIGITS, typed_text
from frazil.sources.snapshot.source import DumpReader, dump_at
from frazil.spec.model.stores import is_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from frazil.sources.comparison import Compared, Sums
    from frazil.spec import Pipeline, Table

_AT_ONCE: Final = 100_000
_SETTINGS: Final = {"memory_limit": "1GB", "threads": "4"}


@contextmanager
def dump_rows(pipeline: Pipeline, table: Table, place: str) -> Iterator[DumpRows]:
    """Open a dump of a table.

    Args:
        pipeline: the declaration, with the settings of object stores.
        table: the dumped table.
        place: a file, or a folder of files, as a path or an address in an object store.

    Raises:
        MissingFolderError: the dump does not exist.
        UnreadableDumpError: a record of the dump cannot be read.
        ObjectStoreError: the store refuses to list or read the dump.

    Cost: reads the dump once, with 1 GB of memory and temporary files beyond it.
    """
    whole = place if is_store(place) else f"{Path(place).absolute()}"
    folder = pipeline.folder
    reader = DumpReader(dump_at(whole, folder, pipeline.stores), table, folder)
    with (
        tempfile.TemporaryDirectory(prefix="dump-", dir=spill_folder()) as scratch,
        duckdb.connect(f"{scratch}/dump.duckdb", config={**_SETTINGS, "temp_directory": scratch}) as duck,
    ):
        duck.execute("SET TimeZone = 'UTC'")
        schema = pa.schema([(name, pa.string()) for name in reader.columns])
        rows = pa.RecordBatchReader.from_batches(schema, reader.batches(reader.columns, schema))
        duck.register("rows_of_dump", rows)
        duck.execute("CREATE TABLE dump AS FROM rows_of_dump")
        duck.unregister("rows_of_dump")
        if reader.unreadable is not None:
            raise reader.unreadable
        yield DumpRows(place, reader.columns, duck)


class DumpRows:
    """The rows of a dump, as text in a DuckDB table: a :class:`frazil.sources.comparison.SourceRows`."""

    def __init__(self, name: str, columns: tuple[str, ...], duck: duckdb.DuckDBPyConnection) -> None:
        self.name, self.columns, self._duck = name, columns, duck

    def forms(self, types: Mapping[str, str]) -> dict[str, str]:
        """Return the form of each column; texts are typed as the lake types them."""
        found = {name: comparison_form(kind) for name, kind in types.items()}
        return {name: form for name, form in found.items() if form is not None}

    def sums(self, keys: Sequence[Compared], columns: Sequence[Compared]) -> Sums:
        """Return each bucket's number of rows and the sum of their hashes."""
        found = self._duck.execute(
            f"SELECT {bucket_of('_cdc_key')}, count(*), sum({digest_of('_cdc_text')}) "
            f"FROM ({self._texts(keys, columns)}) GROUP BY 1"
        ).fetchall()
        return {bucket: (count, int(total)) for bucket, count, total in found}

    def digests(
        self, keys: Sequence[Compared], columns: Sequence[Compared], buckets: Sequence[str]
    ) -> Iterator[list[tuple[str, int]]]:
        """Yield the keys and hashes of the rows in some buckets."""
        cursor = self._duck.execute(
            f"SELECT _cdc_key, {digest_of('_cdc_text')} FROM ({self._texts(keys, columns)}) "
            f"WHERE list_contains(?, {bucket_of('_cdc_key')})",
            [[*buckets]],
        )
        while rows := cursor.fetchmany(_AT_ONCE):
            yield rows

    def values(
        self, keys: Sequence[Compared], columns: Sequence[Compared], texts: Sequence[str]
    ) -> dict[str, tuple[str | None, ...]]:
        """Return the values of the rows of some keys; a value that does not fit its type is returned as raw text."""
        shown = ", ".join(f"coalesce({for_people(column)}, {_raw(column)})" for column in columns)
        found = self._duck.execute(
            f"SELECT {row_text_sql(keys)} AS _cdc_key, {shown} FROM ({self._typed(columns)}) "
            "WHERE list_contains(?, _cdc_key)",
            [[*texts]],
        ).fetchall()
        return {key: tuple(values) for key, *values in found}

    def uncaptured(self, into: Path) -> None:
        """Write nothing: a dump has no later changes."""
        del into

    def _texts(self, keys: Sequence[Compared], columns: Sequence[Compared]) -> str:
        # A text that does not fit its type is not NULL, and equals no value of the lake.
        broken = ", ".join(
            f"CASE WHEN {identifier(column.name)} IS NULL THEN {_raw(column)} END"
            for column in columns
            if column.form != "text"
        )
        text = f"concat({row_text_sql(columns)}, {broken})" if broken else row_text_sql(columns)
        return f"SELECT {row_text_sql(keys)} AS _cdc_key, {text} AS _cdc_text FROM ({self._typed(columns)})"

    def _typed(self, columns: Sequence[Compared]) -> str:
        here = {name.lower(): name for name in self.columns}
        fields = [f"dump.{identifier(here[column.name.lower()])}" for column in columns]
        values = [
            f"{typed_sql(column, field)} AS {identifier(column.name)}, {field} AS {_raw(column)}"
            for column, field in zip(columns, fields, strict=True)
        ]
        return f"SELECT {', '.join(values)} FROM dump"


def _raw(column: Compared) -> str:
    return identifier(f"_cdc_raw_{column.name}")


_MOST_DIGITS: Final = 38


def comparison_form(kind: str) -> str | None:
    """Return the form of a type of the lake; None if DuckDB cannot write it."""
    if kind == f"decimal({_MOST_DIGITS},{_MOST_DIGITS})":
        return None
    return {
        "boolean": "truth",
        "int": "number",
        "bigint": "number",
        "decimal": "number",
        "float": "float",
        "double": "float",
        "date": "date",
        "timestamp": "moment",
        "timestamp_ntz": "moment",
        "binary": "bytes",
        "string": "text",
    }.get(kind.partition("(")[0])


def row_text_sql(columns: Sequence[Compared]) -> str:
    """Return SQL for the text of a row: the texts of its columns, joined by a separator."""
    pieces = f", '{SEPARATOR}', ".join(_piece(column, identifier(column.name)) for column in columns)
    return f"concat({pieces})"


def bucket_of(text: str) -> str:
    """Return SQL for the bucket of a row, given the text of its key."""
    return f"left(md5({text}), {BUCKET_DIGITS})"


def digest_of(text: str) -> str:
    """Return SQL for the hash of a row, given its text."""
    return f"CAST('0x' || left(md5({text}), {SUM_DIGITS}) AS BIGINT)"


def for_people(column: Compared) -> str:
    """Return SQL for a column's value as readable text."""
    name = identifier(column.name)
    return f"CASE WHEN {name} IS NOT NULL THEN concat({name if column.form == 'text' else _piece(column, name)}) END"


def typed_sql(column: Compared, text: str) -> str:
    """Return SQL that casts a text to a column's type; NULL if the text does not fit.

    DuckDB accepts more texts than the lake does, so a quarantined record may still have a key here.
    """
    return typed_text(text, column.type)


def _piece(column: Compared, name: str) -> str:  # noqa: PLR0911 - one return a form
    """Return the arguments of ``concat`` for the text of one column."""
    match column.form:
        case "text":
            return f"length({name}), ':', {name}"
        case "truth":
            return f"CASE WHEN {name} THEN 't' WHEN NOT {name} THEN 'f' END"
        case "number" if scale := _scale(column):
            # DuckDB writes no zero before the point of a decimal whose scale equals its precision.
            wide = f"CAST({name} AS DECIMAL({min(_MOST_DIGITS, _digits(column) + 1)},{scale}))"
            return f"rtrim(rtrim(CAST({wide} AS VARCHAR), '0'), '.')"
        case "float":
            return f"CASE WHEN isnan({name}) THEN 'NaN' ELSE lower(hex(CAST(CAST({name} AS BIT) AS BLOB))) END"
        case "moment" if column.type == "timestamp":
            return f"make_timestamp(epoch_us({name}))"
        case "bytes":
            return f"'x' || lower(hex({name}))"
        case _:
            return name


def _digits(column: Compared) -> int:
    return int(re.findall(r"\d+", column.type)[0])


def _scale(column: Compared) -> int:
    found = re.findall(r"\d+", column.type)
    return int(found[1]) if len(found) > 1 else 0
