"""Empty databases of DuckDB: all in one, because to start a DuckDB takes 10 ms and to attach a database less than 1."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Final

import duckdb

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBERS: Final = count(1)


@cache
def _duckdb() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


@contextmanager
def empty_database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an empty database in memory, in UTC; temporary tables are its own, too."""
    name = f"test_{next(_NUMBERS)}"
    try:
        with _duckdb().cursor() as connection:
            connection.execute(f"ATTACH ':memory:' AS {name}")
            connection.execute(f"USE {name}")
            connection.execute("SET TimeZone = 'UTC'")
            yield connection
    finally:
        _duckdb().execute(f"DETACH {name}")
