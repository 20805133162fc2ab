"""Results of queries as CSV and Parquet files, written batch by batch with exact values, and whole tables as Arrow."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.duck import identifier
from frazil.serve.query.plain import json_text, plain
from frazil.serve.query.query import QueryError, asked, distinct, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.spec import Pipeline

_ROWS_AT_ONCE: Final = 10_000


def export_csv(
    pipeline: Pipeline,
    sql: str,
    text: IO[str],
    *,
    limit: int | None = None,
    as_of: str | None = None,
    is_guarded: bool = False,
) -> None:
    """Write the result of a query as CSV: a header and a line for each row, ended by line feeds.

    NULL is an empty field, an empty text is ``""``. Other values have the form of
    :func:`frazil.serve.query.plain.plain`; lists and structs are JSON.

    Args:
        pipeline: the declaration.
        sql: SQL text, as for :func:`~frazil.serve.query.query.query`.
        text: stream to write to.
        limit: maximum number of rows; None for all.
        as_of: a point in the past; None for now.
        is_guarded: put an apostrophe before texts that a spreadsheet would run as formulas.

    Raises:
        QueryError: the query cannot be run.
    """
    written = _guarded_field if is_guarded else _field
    with asked(pipeline, sql, limit, as_of) as relation:
        text.write(",".join(written(name) for name in distinct(relation.columns)) + "\n")
        for rows in rows_of(relation, _ROWS_AT_ONCE):
            text.writelines(",".join(map(written, row)) + "\n" for row in rows)


def write_parquet(
    pipeline: Pipeline, sql: str, file: Path, *, limit: int | None = None, as_of: str | None = None
) -> int:
    """Write the result of a query as a Parquet file, and return the number of rows.

    The file appears once it is complete, and replaces a file of the same name.

    Args:
        pipeline: the declaration.
        sql: SQL text, as for :func:`~frazil.serve.query.query.query`.
        file: path of the file.
        limit: maximum number of rows; None for all.
        as_of: a point in the past; None for now.

    Raises:
        QueryError: the query cannot be run, Parquet lacks a column's type, or the file cannot be written.
    """
    unfinished = file.with_name(f".{file.name}.tmp")
    count = 0
    try:
        with asked(pipeline, sql, limit, as_of) as relation:
            batches = relation.to_arrow_reader(_ROWS_AT_ONCE)
            schema = pa.schema(
                [field.with_name(name) for field, name in zip(batches.schema, distinct(relation.columns), strict=True)]
            )
            with unfinished.open("wb") as stream, pq.ParquetWriter(stream, schema, compression="zstd") as writer:
                for batch in batches:
                    writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
                    count += batch.num_rows
        unfinished.replace(file)
    except pa.ArrowNotImplementedError as error:
        raise QueryError(f"Parquet lacks the type: {error}", hint="cast the column to text") from error
    except OSError as error:
        raise QueryError(f"{file} cannot be written: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return count


_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n")
"""Signs with which spreadsheets begin a formula, or which they pass over before one."""


def _guarded_field(value: Any) -> str:
    return _field(f"'{value}" if isinstance(value, str) and value.lstrip(" ").startswith(_FORMULAS) else value)


def read_table(pipeline: Pipeline, name: str, as_of: str | None = None) -> pa.Table:
    """Return all rows of a table, without a detour over Python values.

    Args:
        pipeline: the declaration.
        name: such as ``marts.orders``; without a layer, as :func:`frazil.serve.query.query.query` finds it.
        as_of: a point in the past; None for now.

    Raises:
        QueryError: no such table.
    """
    with asked(pipeline, f"SELECT * FROM {identifier(*name.split('.'))}", as_of=as_of) as relation:
        return relation.to_arrow_table()


def _field(value: Any) -> str:
    if value is None:
        return ""
    exact = plain(value)
    text = exact if isinstance(exact, str) else json_text(exact)
    if text and text == text.strip() and not any(sign in text for sign in ',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'
