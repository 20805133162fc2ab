"""The contract for comparing a table with its source: rows as canonical texts, and hashes of them.

The two sides do not exchange values. Each writes the values of a row as one text in the same canonical form and
compares hashes of it:

==========  ================================================================================
form        the text of a value
==========  ================================================================================
text        the number of its characters, a colon and the characters; NULL is the colon alone
truth       ``t`` or ``f``
number      digits, without zeros at the end of a fraction and without a bare point
float       ``NaN``, or the eight or sixteen hexadecimal digits of its bits
date        ``2024-02-01``
moment      ``2024-02-01 08:00:00.5``, in UTC where the type knows zones, without zeros at its end
bytes       ``x`` and hexadecimal digits
==========  ================================================================================

NULL is the empty text, except in form ``text``, which always has a colon. ``|`` separates the texts of several columns.
Only ``text`` can contain that sign, and its length prefix says where it ends.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

SEPARATOR: Final = "|"
BUCKET_DIGITS: Final = 3
"""Number of leading hex digits of the MD5 of a key that form the bucket of its row: 4,096 buckets."""

SUM_DIGITS: Final = 15
"""Number of leading hex digits of the MD5 of a row that are summed: 60 bits, which fit the integers of any database."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A compared column.

    Attributes:
        name: name in the lake.
        type: type in the lake.
        form: canonical form of the values, from the table above.
        value: constant text for a source without this column; None if the source has the column.
    """

    name: str
    type: str
    form: str
    value: str | None = None


Sums = dict[str, tuple[int, int]]
"""Bucket -> number of rows, and sum of their hashes."""


class SourceRows(Protocol):
    """The rows of a table at its source, all of one moment. Each query reads the table again."""

    @property
    def name(self) -> str:
        """Return table and moment, for people, without secrets."""

    def forms(self, types: Mapping[str, str]) -> dict[str, str]:
        """Return the canonical form of each column that can be compared exactly.

        Args:
            types: name of a column that is read from the field of the same name -> its type in the lake.
        """

    @property
    def columns(self) -> Collection[str]:
        """Return the names of the source table's columns."""

    def sums(self, keys: Sequence[Compared], columns: Sequence[Compared]) -> Sums:
        """Count the rows of each bucket and sum the hashes of ``columns``.

        Args:
            keys: key columns, which decide the bucket.
            columns: columns to hash.

        Cost: one scan of these columns.
        """

    def digests(
        self, keys: Sequence[Compared], columns: Sequence[Compared], buckets: Sequence[str]
    ) -> Iterator[list[tuple[str, int]]]:
        """Yield (text of the key, hash of the row) for the rows in some buckets, many at a time.

        Args:
            keys: key columns.
            columns: columns to hash.
            buckets: buckets to read.

        Cost: one scan of the keys, and of ``columns`` of these rows.
        """

    def values(
        self, keys: Sequence[Compared], columns: Sequence[Compared], texts: Sequence[str]
    ) -> dict[str, tuple[str | None, ...]]:
        """Return the values of some rows, as texts for people, by the text of their key.

        Args:
            keys: key columns.
            columns: columns whose values are returned, with None for NULL.
            texts: texts of the wanted keys, as :meth:`digests` yields them.

        Cost: one scan of the keys.
        """

    def uncaptured(self, into: Path) -> str | None:
        """Write the changes that are not captured yet as landing files below a folder.

        The source and its landing folder stay unchanged.

        Returns:
            The reason if these changes cannot be read; None on success.
        """


_TYPES: Final = {"timestamp_ntz": "TIMESTAMP"}
"""DuckDB's names of Spark types, where they differ."""
_AS_TEXT: Final = ("string", "array", "struct")


def is_text(type_name: str) -> bool:
    """Return True for a type whose values are the texts themselves."""
    return re.split(r"[(<]", type_name)[0] in _AS_TEXT


def typed_text(text: str, type_name: str) -> str:
    """Return SQL that casts a text to a type; NULL if the text does not fit. The session's time zone is UTC.

    DuckDB accepts more texts than the lake does, such as ``1.0`` for an int.
    """
    if is_text(type_name):
        return text
    if type_name == "binary":
        digits = f"regexp_replace({text}, '^\\\\x', '')"
        return f"CASE WHEN regexp_full_match({digits}, '([0-9A-Fa-f]{{2}})*') THEN unhex({digits}) END"
    if type_name == "timestamp":
        # DuckDB accepts no blank before a zone.
        return f"TRY_CAST(regexp_replace(trim({text}), ' (Z|[+-][0-9:]+)$', '\\1') AS TIMESTAMPTZ)"
    value = f"TRY_CAST(trim({text}) AS {_TYPES.get(type_name, type_name)})"
    if type_name.startswith("decimal"):
        # DuckDB would round.
        scale = re.findall(r"\d+", type_name)[1]
        return f"CASE WHEN length(rtrim(split_part(trim({text}), '.', 2), '0')) <= {scale} THEN {value} END"
    return value


def typed_key(text: str, type_name: str) -> str:
    """Return SQL as :func:`typed_text`, without fractions for whole numbers: a key is exact or none."""
    value = typed_text(text, type_name)
    if type_name not in {"int", "bigint"}:
        return value
    return f"CASE WHEN regexp_full_match(trim({text}), '[+-]?[0-9]+') THEN {value} END"
