"""A dump of a table, to be compared with a mart."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa

from frazil.duck.sql import identifier
from frazil.host.scratch import spill_folder
from frazil.serve.check.same_text import bucket_of, comparison_form, digest_of, for_people, row_text_sql, typed_sql
from frazil.sources.snapshot.dumps import DumpReader, dump_at
from frazil.spec.model.stores import is_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from frazil.sources.comparison import Compared, Sums
    from frazil.spec import Pipeline, Table

_AT_ONCE: Final = 100_000
_SETTINGS: Final = {"memory_limit": "1GB", "threads": "4"}


@contextmanager
def dump_rows(pipeline: Pipeline, table: Table, place: str) -> Iterator[DumpRows]:
    """Open a dump.

    Args:
        pipeline: the declaration, which says how object stores are reached.
        table: the one that it is of.
        place: a file, or a folder of files; a path, or an address in an object store.

    Raises:
        MissingFolderError: there is no such dump.
        UnreadableDumpError: a record of it cannot be read.
        ObjectStoreError: the store refuses to list or to read it.

    Cost: reads the dump once, into temporary files where 1 GB of memory is not enough.
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
    """The rows of a dump, as text in a table of DuckDB: a :class:`frazil.sources.comparison.SourceRows`."""

    def __init__(self, name: str, columns: tuple[str, ...], duck: duckdb.DuckDBPyConnection) -> None:
        self.name, self.columns, self._duck = name, columns, duck

    def forms(self, types: Mapping[str, str]) -> dict[str, str]:
        """Return the form of each column: texts are read as the lake reads them."""
        found = {name: comparison_form(kind) for name, kind in types.items()}
        return {name: form for name, form in found.items() if form is not None}

    def sums(self, keys: Sequence[Compared], columns: Sequence[Compared]) -> Sums:
        """Count the rows of each bucket and sum up the hashes of their columns."""
        found = self._duck.execute(
            f"SELECT {bucket_of('_cdc_key')}, count(*), sum({digest_of('_cdc_text')}) "
            f"FROM ({self._texts(keys, columns)}) GROUP BY 1"
        ).fetchall()
        return {bucket: (count, int(total)) for bucket, count, total in found}

    def digests(
        self, keys: Sequence[Compared], columns: Sequence[Compared], buckets: Sequence[str]
    ) -> Iterator[list[tuple[str, int]]]:
        """Yield keys and hashes of the rows in some buckets."""
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
        """Return the values of the rows of some keys; those that are none of their type as they stand there."""
        shown = ", ".join(f"coalesce({for_people(column)}, {_raw(column)})" for column in columns)
        found = self._duck.execute(
            f"SELECT {row_text_sql(keys)} AS _cdc_key, {shown} FROM ({self._typed(columns)}) "
            "WHERE list_contains(?, _cdc_key)",
            [[*texts]],
        ).fetchall()
        return {key: tuple(values) for key, *values in found}

    def uncaptured(self, into: Path) -> None:
        """Write nothing: of a dump nobody knows what came after it."""
        del into

    def _texts(self, keys: Sequence[Compared], columns: Sequence[Compared]) -> str:
        # What is no value of its type is not NULL: it is no value of the lake either.
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
