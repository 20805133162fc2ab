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
from frazil.spec.names import quote

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
        replaced: keys of the rows in ``all`` that go, where nothing is written yet.
        keys: columns that name a row.
    """

    new: DataFrame
    all: DataFrame
    replaced: DataFrame | None = None
    keys: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the mart is written whole."""
        return self.new is self.all

    def values(self, columns: Sequence[str], candidates: DataFrame | None = None) -> DataFrame:
        """Return what all rows of the mart have in some columns; of the rows from before only ``candidates``."""
        names = [*map(quote, columns)]
        found = self.all if candidates is None else filter_keys(self.all, candidates, columns)
        if self.replaced is None:
            return found.select(*names)
        kept = filter_keys(found, self.replaced, self.keys, among=False)
        return kept.select(*names).unionAll(self.new.select(*names))


def sharing_rows(rows: LeftRows, columns: Sequence[str]) -> DataFrame:
    """Count the new rows whose values in some columns another row has too. Rows with NULL in one of them do not count.

    Returns:
        One row: ``broken`` and ``first``, which is NULL where there is none.

    Cost: a scan of these columns against a broadcast of the batch's values; of a whole mart a shuffle of them.
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
    candidates = rows.new.where(known).select(*map(quote, columns)).distinct()
    return query(
        f"""
        SELECT /*+ BROADCAST(s) */ count(*) AS {BROKEN}, min({_PLACE}) AS {FIRST} FROM frazil_new AS t
        LEFT SEMI JOIN (SELECT {names} FROM frazil_all GROUP BY {names} HAVING count(*) > 1) AS s
        ON {same(columns, "t", "s")}""",
        frazil_new=rows.new,
        frazil_all=rows.values(columns, candidates),
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
