"""What a proof found, and what every proof works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

    from frazil.serve.tables.layers import Layer, Layers
    from frazil.spec import Pipeline

Verdict: TypeAlias = "tuple[bool | None, str]"
"""Whether a law holds, and the detail: as in :class:`Finding`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A key whose row is not the one at the source.

    Attributes:
        key: its columns with their values.
        why: ``in flight``, ``quarantined``, ``lost``, ``written by somebody else``, or ``unknown``.
        detail: where the change is that explains it, or how the rows differ.
    """

    key: str
    why: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one proof found.

    Attributes:
        source_table: the declared table whose proof it is.
        law: its name, as in the guarantees.
        table: the table it is about, or the two that are compared.
        ok: True if it holds, False if not, None if it cannot be told now.
        detail: what was looked at, or what is wrong with a few examples, or why nothing can be told.
        code: of the error that stopped the proof, such as a damaged file; None if it came to its end.
        hint: the way out, or None.
        differences: of a comparison with the source, the first keys that differ for each reason.
    """

    source_table: str
    law: str
    table: str
    ok: bool | None
    detail: str
    code: str | None = None
    hint: str | None = None
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One proof that is still to be done.

    Attributes:
        law, table: as in its finding.
        what: what is done, in words for somebody who waits for it.
        needs: the tables it reads; a damaged one stops it.
        prove: does it.
    """

    law: str
    table: str
    what: str
    needs: tuple[Layer, ...]
    prove: Callable[[], Verdict]


@dataclass(slots=True, kw_only=True)
class Proof:
    """The tables of one source table, and DuckDB to ask them.

    Attributes:
        pipeline: the declaration.
        here: the tables.
        connection: DuckDB, which can read them.
        progressed: is told how far a proof is, in words such as ``40 %``.
        kept: names of the temporary tables that several proofs share.
    """

    pipeline: Pipeline
    here: Layers
    connection: duckdb.DuckDBPyConnection
    progressed: Callable[[str], None] = lambda _: None
    kept: set[str] = field(default_factory=set)

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

    def keep(self, name: str, *statements: str) -> str:
        """Make a temporary table by ``statements``, unless it was made before; returns its name.

        Before the statements run there is no table of that name; where one fails, the next call begins again.
        """
        if name not in self.kept:
            self.connection.execute(f"DROP TABLE IF EXISTS {name}")
            for done, statement in enumerate(statements):
                if done > 1:
                    self.progressed(f"{100 * (done - 1) // (len(statements) - 1)} % read")
                self.connection.execute(statement)
            self.kept.add(name)
        return name

    def forget(self) -> None:
        """Drop the temporary tables."""
        for name in self.kept:
            self.connection.execute(f"DROP TABLE IF EXISTS {name}")
        self.kept.clear()
