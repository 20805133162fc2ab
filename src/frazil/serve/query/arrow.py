"""Rows as Arrow tables, pandas and Polars frames, with the exact types of DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa

from frazil.duck.sql import identifier
from frazil.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    import polars as pl

_SHORTENED: Final = "TIMESTAMP_NS"
"""A type whose values Python shortens to microseconds."""


class NoArrowError(Exception):
    """Arrow cannot hold some values exactly."""


def arrow_of(names: Sequence[str], types: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return rows as an Arrow table, with the types that DuckDB gives them.

    Args:
        names: distinct names of the columns.
        types: DuckDB's names of their types.
        rows: values as DuckDB returns them.

    Raises:
        NoArrowError: Arrow has no such type, or cannot hold a value.
    """
    if any(_SHORTENED in kind for kind in types):
        raise NoArrowError("Python has shortened nanoseconds to microseconds")
    fields = ", ".join(f"CAST(NULL AS {kind}) AS {identifier(name)}" for name, kind in zip(names, types, strict=True))
    try:
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            schema = connection.sql(f"SELECT {fields} LIMIT 0").to_arrow_table().schema
        columns = [
            pa.array(_values(rows, place, is_uuid=kind == "UUID"), field.type)
            for place, (kind, field) in enumerate(zip(types, schema, strict=True))
        ]
    except (duckdb.Error, pa.ArrowException, OverflowError) as error:
        raise NoArrowError(f"{error}") from error
    return pa.Table.from_arrays(columns, schema=schema)


def _values(rows: Sequence[Sequence[Any]], place: int, *, is_uuid: bool) -> list[Any]:
    """Return the values of a column; Arrow takes an UUID as text."""
    values = [row[place] for row in rows]
    return [value if value is None else f"{value}" for value in values] if is_uuid else values


def pandas_of(table: pa.Table) -> pd.DataFrame:
    """Return a table as a pandas frame with Arrow's types: integers with NULL and decimals stay exact.

    Raises:
        SetupError: pandas is not installed.
    """
    try:
        import pandas as pd  # noqa: PLC0415 - optional, and half a second
    except ModuleNotFoundError as error:
        raise SetupError("pandas is not installed", hint="pip install pandas, or use .to_arrow()") from error
    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def polars_of(table: pa.Table) -> pl.DataFrame:
    """Return a table as a Polars frame.

    Raises:
        SetupError: Polars is not installed.
    """
    try:
        import polars as pl  # noqa: PLC0415 - optional
    except ModuleNotFoundError as error:
        raise SetupError("Polars is not installed", hint="pip install polars, or use .df() or .to_arrow()") from error
    return pl.DataFrame(table)
