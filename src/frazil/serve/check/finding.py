"""Findings of proofs, and the state that all proofs share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    import duckdb

    from frazil.serve.layers import Layer, Layers
    from frazil.spec import Pipeline

Verdict: TypeAlias = "tuple[bool | None, str]"
"""``ok`` and ``detail`` of a :class:`Finding`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A key whose row differs from the row at the source.

    Attributes:
        key: the key's columns with their values.
        why: ``in flight``, ``quarantined``, ``lost``, ``written by somebody else``, or ``unknown``.
        detail: place of the change that explains the difference, or the values that differ.
    """

    key: str
    why: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of one proof.

    Attributes:
        source_table: the declared table.
        law: name of the law, as in the guarantees.
        table: the table of the lake that was checked, or the two that were compared.
        ok: True if the law holds, False if it is broken, None if it is undecided.
        detail: evidence, or what is wrong with a few examples, or why the proof is undecided.
        code: code of the error that stopped the proof, such as a damaged file; None if the proof finished.
        hint: how to fix it, or None.
        differences: for a comparison with the source, the first keys of each reason.
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
class Look:
    """A comparison of a mart with its source.

    Attributes:
        finding: its result.
        began_at: time before the source was read, in UTC.
        source: table and moment at the source, for people; empty if it was not read.
        differing: buckets of keys in which rows differ; None if not all rows were compared.
    """

    finding: Finding
    began_at: datetime
    source: str = ""
    differing: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A proof to run.

    Attributes:
        law, table: as in its finding.
        what: progress text, for a person who waits.
        needs: tables that the proof reads. A damaged one leaves it undecided.
        prove: runs the proof.
    """

    law: str
    table: str
    what: str
    needs: tuple[Layer, ...]
    prove: Callable[[], Verdict]


@dataclass(slots=True, kw_only=True)
class Proof:
    """Shared state of the proofs of one source table.

    Attributes:
        pipeline: the declaration.
        here: the tables of the source table.
        connection: DuckDB over the lake.
        progressed: receives progress text such as ``40 %``.
        kept: names of the temporary tables that proofs share.
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
        """Return the number of rows of a query, and the first three as text.

        ``names`` are SQL expressions. DuckDB converts them to text, so they may be of any type.
        """
        shown = f"concat_ws(', ', {names})"
        count, examples = self.one(
            f"SELECT count(*), list(_shown ORDER BY _shown)[1:3] FROM (SELECT {shown} AS _shown FROM ({sql}))"
        )
        return count, "; ".join(examples or ())

    def keep(self, name: str, *statements: str) -> str:
        """Create a temporary table by ``statements``, unless it exists already; return its name.

        If a statement fails, the next call drops the table and starts again.
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
