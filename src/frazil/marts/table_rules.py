"""Rules of a whole mart over the rows after a batch: repeated values and dangling references.

Only the rows of the batch are checked. ``frazil test`` finds violations among the other rows of the mart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.marts.late import filter_keys
from frazil.marts.layout import columns_of, same
from frazil.marts.query import query_frames
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

BROKEN: Final = "broken"
FIRST: Final = "first"
"""Columns of the results: the number of rows that break the rule, and the place of the first."""

_PLACE: Final = f"concat({r.POSITION}, ' row ', {r.ROW})"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftRows:
    """Live rows of a mart after a batch, one for each key.

    Attributes:
        new: the rows of the batch, with the columns of rules, ``_cdc_position`` and ``_cdc_row``.
        all: all rows, with at least the columns of rules; the same object as ``new`` for a full write. With
            ``replaced``, the rows before the batch.
        keys: columns that name a row.
        replaced: keys of the rows in ``all`` that the batch removes, if it is not written yet.
    """

    new: DataFrame
    all: DataFrame
    keys: tuple[str, ...]
    replaced: DataFrame | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether the batch writes the whole mart."""
        return self.new is self.all

    def values(self, columns: Sequence[str]) -> DataFrame:
        """Return the values of all rows of the mart in some columns."""
        names = [*map(quote, columns)]
        if self.replaced is None:
            return self.all.select(*names)
        kept = filter_keys(self.all, self.replaced, self.keys, among=False)
        return kept.select(*names).unionAll(self.new.select(*names))


def sharing_rows(rows: LeftRows, columns: Sequence[str]) -> DataFrame:
    """Count the new rows that share the values of some columns with another row; rows with NULL do not count.

    Returns:
        One row: ``broken`` and ``first``, which is NULL without a violation.

    Cost: a scan of these columns and the keys against a broadcast of the batch's hashes; a shuffle for a whole mart.
    """
    names, known = columns_of(columns), _known(columns)
    if rows.is_whole:
        return query_frames(
            f"""
            SELECT coalesce(sum(_cdc_rows), 0) AS {BROKEN}, min(_cdc_place) AS {FIRST} FROM (
                SELECT count(*) AS _cdc_rows, min({_PLACE}) AS _cdc_place FROM frazil_new
                WHERE {known} GROUP BY {names} HAVING count(*) > 1)""",
            frazil_new=rows.new,
        )
    found = _hits(rows, columns)
    if rows.replaced is not None:
        found = filter_keys(found, rows.replaced, rows.keys, among=False).unionByName(_repeats(rows, columns))
    return query_frames(
        f"""
        SELECT count(DISTINCT CASE WHEN _cdc_same THEN _cdc_new END) AS {BROKEN},
               min(CASE WHEN _cdc_same THEN _cdc_place END) AS {FIRST} FROM frazil_hits""",
        frazil_hits=found,
    )


def _hits(rows: LeftRows, columns: Sequence[str]) -> DataFrame:
    """Return the keys of rows whose values have the same hash as those of a new row with another key.

    Joining by hash is faster than joining by text and finds very few other rows; ``_cdc_same`` says whether the values
    are equal.
    """
    # The table may have wider types than the batch, and hashes depend on the type.
    types = {name.lower(): kind for name, kind in rows.all.dtypes}
    wider = {name: f"CAST({quote(name)} AS {types[name.lower()]})" for name in dict.fromkeys((*rows.keys, *columns))}
    new = rows.new.where(_known(columns)).selectExpr(
        *(f"{cast} AS {quote(name)}" for name, cast in wider.items()), f"{_PLACE} AS _cdc_place"
    )
    return query_frames(
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
    """Return new rows that share values with other new rows, in the form of :func:`_hits`."""
    names = columns_of(columns)
    types = {name.lower(): kind for name, kind in rows.all.dtypes}
    keys = ", ".join(f"CAST({quote(name)} AS {types[name.lower()]}) AS {quote(name)}" for name in rows.keys)
    return query_frames(
        f"""
        SELECT {keys}, struct({keys}) AS _cdc_new, {_PLACE} AS _cdc_place, true AS _cdc_same FROM frazil_new AS t
        LEFT SEMI JOIN (
            SELECT {names} FROM frazil_new WHERE {_known(columns)} GROUP BY {names} HAVING count(*) > 1) AS s
        ON {same(columns, "t", "s")}""",
        frazil_new=rows.new,
    )


def dangling_rows(rows: LeftRows, columns: Sequence[str], others: DataFrame, fields: Sequence[str]) -> DataFrame:
    """Count the new rows without a matching row in another mart; rows with NULL do not count.

    Args:
        rows: the rows after the batch.
        columns: the referring columns.
        others: live rows of the other mart.
        fields: the referenced columns of the other mart, in the same order.

    Returns:
        As :func:`sharing_rows`.

    Cost: a scan of the other mart's columns against a broadcast of the batch's values; a join for a whole mart.
    """
    refers = " AND ".join(f"o.{quote(field)} = c.{quote(name)}" for name, field in zip(columns, fields, strict=True))
    found = "frazil_others"
    if not rows.is_whole:
        found = (
            f"(SELECT /*+ BROADCAST(c) */ DISTINCT {columns_of(fields, 'o')} FROM frazil_others AS o "
            f"LEFT SEMI JOIN candidates AS c ON {refers})"
        )
    hint = "" if rows.is_whole else "/*+ BROADCAST(o) */ "
    return query_frames(
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
