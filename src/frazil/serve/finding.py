"""What a proof found, and what every proof works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import duckdb

    from frazil.serve.layers import Layers
    from frazil.spec import Pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one proof found.

    Attributes:
        law: its name, as in the guarantees.
        table: the table it is about, or the two that are compared.
        ok: True if it holds, False if not, None if it cannot be told now.
        detail: what was looked at, or what is wrong with a few examples, or why nothing can be told.
    """

    law: str
    table: str
    ok: bool | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The tables of one source table, and DuckDB to ask them."""

    pipeline: Pipeline
    here: Layers
    connection: duckdb.DuckDBPyConnection

    def one(self, sql: str) -> tuple[Any, ...]:
        """Fetch the only row of a query."""
        return self.connection.execute(sql).fetchall()[0]

    def offenders(self, sql: str, names: str) -> tuple[int, str]:
        """Count the rows of a query, and show ``names`` (a list of expressions) of the first three.

        The names become text within DuckDB, so any type can be shown.
        """
        shown = f"concat_ws(', ', {names})"
        count, examples = self.one(
            f"SELECT count(*), list(_shown ORDER BY _shown)[1:3] FROM (SELECT {shown} AS _shown FROM ({sql}))"
        )
        return count, "; ".join(examples or ())
