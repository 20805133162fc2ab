"""Rules of a whole mart over the rows that a batch leaves: which of them share values, and which refer to nothing.

A batch is judged by its own rows. What the mart's other rows break among themselves is not found here, unless the
batch is the whole mart; ``frazil test`` finds that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.marts.fold_spec import columns_of, same
from frazil.marts.late import filter_keys
from frazil.marts.query import query
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

BROKEN: Final = "broken"
FIRST: Final = "first"
"""Columns of what these functions return: how many rows break the rule, and where the first of them comes from."""

_PLACE: Final = f"concat({r.POSITION}, ' row ', {r.ROW})"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftRows:
    """Living rows of a mart as a batch leaves them, one a key.

    Attributes:
        new: those that the batch writes, with the columns that rules name, ``_cdc_position`` and ``_cdc_row``.
        all: all of them, with the columns that rules name at least; the same as ``new`` where the mart is written
            whole. If there is ``replaced``, the rows from before the batch.
        keys: columns that name a row.
        replaced: keys of the rows in ``all`` that go, where nothing is written yet.
    """

    new: DataFrame
    all: DataFrame
    keys: tuple[str, ...]
    replaced: DataFrame | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the mart is written whole."""
        return self.new is self.all

    def values(self, columns: Sequence[str]) -> DataFrame:
        """Return what all rows of the mart have in some columns."""
        names = [*map(quote, columns)]
        if self.replaced is None:
            return self.all.select(*names)
        kept = filter_keys(self.all, self.replaced, self.keys, among=False)
        return kept.select(*names).unionAll(self.new.select(*names))


def sharing_rows(rows: LeftRows, columns: Sequence[str]) -> DataFrame:
    """Count the new rows whose values in some columns another row has too. Rows with NULL in one of them do not count.

    Returns:
        One row: ``broken`` and ``first``, which is NULL where there is none.

    Cost: a scan of these columns and the keys against a broadcast of the batch's hashes; of a whole mart a shuffle.
    """
    names, known = columns_of(columns), _known(columns)
    if rows.is_whole:
        return query(
            f"""
            SELECT coalesce(sum(_cdc_rows), 0) AS {BROKEN}, min(_cdc_place) AS {FIRST} FROM (
                SELECT count(*) AS _cdc_rows, min({_PLACE}) AS _cdc_place FROM frazil_new
                WHERE {known} GROUP BY {names} HAVING count(*) > 1)""",
            frazil_new=rows.new,
        )
    found = _hits(rows, columns)
    if rows.replaced is not None:
        found = filter_keys(found, rows.replaced, rows.keys, among=False).unionByName(_repeats(rows, columns))
    return query(
        f"""
        SELECT count(DISTINCT CASE WHEN _cdc_same THEN _cdc_new END) AS {BROKEN},
               min(CASE WHEN _cdc_same THEN _cdc_place END) AS {FIRST} FROM frazil_hits""",
        frazil_hits=found,
    )


def _hits(rows: LeftRows, columns: Sequence[str]) -> DataFrame:
    """Return the keys of rows whose values in some columns have the hash of those of a new row with another key.

    Numbers are looked up faster than texts, and next to no row is found that does not share the values: whether it
    does is said in ``_cdc_same``, and not asked for in the join.
    """
    # A table's columns may have wider types than the batch's, and hashes are of one type.
    types = {name.lower(): kind for name, kind in rows.all.dtypes}
    wider = {name: f"CAST({quote(name)} AS {types[name.lower()]})" for name in dict.fromkeys((*rows.keys, *columns))}
    new = rows.new.where(_known(columns)).selectExpr(
        *(f"{cast} AS {quote(name)}" for name, cast in wider.items()), f"{_PLACE} AS _cdc_place"
    )
    return query(
        f"""
        SELECT /*+ BROADCAST(c) */ {columns_of(rows.keys, "t")}, struct({columns_of(rows.keys, "c")}) AS _cdc_new,
            c._cdc_place, {same(columns, "t", "c")} AS _cdc_same
        FROM frazil_all AS t
        JOIN (SELECT *, xxhash64({columns_of(columns)}) AS _cdc_hash FROM frazil_new) AS c
        ON xxhash64({", ".join(quote("t", name) for name in columns)}) = c._cdc_hash
            AND NOT ({same(rows.keys, "t", "c")})""",
        frazil_all=rows.all,
        frazil_new=new,
    )


def _repeats(rows: LeftRows, columns: Sequence[str]) -> DataFrame:
    """Return new rows that share values with one another, in the form of :func:`_hits`."""
    names = columns_of(columns)
    types = {name.lower(): kind for name, kind in rows.all.dtypes}
    keys = ", ".join(f"CAST({quote(name)} AS {types[name.lower()]}) AS {quote(name)}" for name in rows.keys)
    return query(
        f"""
        SELECT {keys}, struct({keys}) AS _cdc_new, {_PLACE} AS _cdc_place, true AS _cdc_same FROM frazil_new AS t
        LEFT SEMI JOIN (
            SELECT {names} FROM frazil_new WHERE {_known(columns)} GROUP BY {names} HAVING count(*) > 1) AS s
        ON {same(columns, "t", "s")}""",
        frazil_new=rows.new,
    )


def dangling_rows(rows: LeftRows, columns: Sequence[str], others: DataFrame, fields: Sequence[str]) -> DataFrame:
    """Count the new rows whose values in some columns no row of another mart has. Rows with NULL do not count.

    Args:
        rows: what the batch leaves.
        columns: the columns that refer.
        others: living rows of the other mart.
        fields: its columns that are referred to, in the same order.

    Returns:
        As :func:`sharing_rows`.

    Cost: a scan of the other mart's columns against a broadcast of the batch's values; of a whole mart a join of both.
    """
    refers = " AND ".join(f"o.{quote(field)} = c.{quote(name)}" for name, field in zip(columns, fields, strict=True))
    found = "frazil_others"
    if not rows.is_whole:
        found = (
            f"(SELECT /*+ BROADCAST(c) */ DISTINCT {columns_of(fields, 'o')} FROM frazil_others AS o "
            f"LEFT SEMI JOIN candidates AS c ON {refers})"
        )
    hint = "" if rows.is_whole else "/*+ BROADCAST(o) */ "
    return query(
        f"""
        WITH candidates AS (
            SELECT {columns_of(columns)}, count(*) AS _cdc_rows, min({_PLACE}) AS _cdc_place FROM frazil_new
            WHERE {_known(columns)} GROUP BY {columns_of(columns)})
        SELECT {hint}coalesce(sum(c._cdc_rows), 0) AS {BROKEN}, min(c._cdc_place) AS {FIRST} FROM candidates AS c
        LEFT ANTI JOIN {found} AS o ON {refers}""",
        frazil_new=rows.new,
        frazil_others=others,
    )


def _known(columns: Sequence[str]) -> str:
    return " AND ".join(f"{quote(name)} IS NOT NULL" for name in columns)
