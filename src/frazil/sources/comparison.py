"""What a kind owes Frazil whose tables can be looked at where they are: their rows, as texts that say every value.

Two sides never exchange values to see whether they are equal. Each writes the values of a row as one text, in the same
canonical form, and compares hashes of it:

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

NULL is the empty text in all forms but the first, where no other value is empty. Texts of several columns are joined by
``|``: none of the forms but ``text`` can hold one, and ``text`` says how far it reaches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

SEPARATOR: Final = "|"
BUCKET_DIGITS: Final = 3
"""The bucket of a row: so many first digits of the MD5 of its key, 4,096 buckets."""

SUM_DIGITS: Final = 15
"""So many first digits of the MD5 of a row are summed up: 60 bits, which every database has a number for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A column that is compared.

    Attributes:
        name: of the column in the lake.
        type: its type there.
        form: in which form its values are written.
        value: the text that it has in all rows of a source that has no such column; None where it has one.
    """

    name: str
    type: str
    form: str
    value: str | None = None


Sums = dict[str, tuple[int, int]]
"""Bucket -> number of rows, and sum of their hashes."""


class SourceRows(Protocol):
    """The rows of a table at its source, all of one moment; each query reads it again."""

    @property
    def name(self) -> str:
        """Return which table it is and of which moment, for people, without a secret."""

    def forms(self, types: Mapping[str, str]) -> dict[str, str]:
        """Return the forms of the columns whose values can be compared exactly, by name.

        Args:
            types: name of a column that comes from the field of its name -> its type in the lake.
        """

    @property
    def columns(self) -> Collection[str]:
        """Return the names of the columns that it has."""

    def sums(self, keys: Sequence[Compared], columns: Sequence[Compared]) -> Sums:
        """Count the rows of each bucket and sum up the hashes of their ``columns``.

        Cost: one scan of these columns.
        """

    def digests(
        self, keys: Sequence[Compared], columns: Sequence[Compared], buckets: Sequence[str]
    ) -> Iterator[list[tuple[str, int]]]:
        """Yield the texts of the keys in some buckets, with the hash of each row, many at a time.

        Cost: one scan of the keys, and of ``columns`` of these rows.
        """

    def values(
        self, keys: Sequence[Compared], columns: Sequence[Compared], texts: Sequence[str]
    ) -> dict[str, tuple[str | None, ...]]:
        """Return the values, as texts for people, of the rows whose keys have some texts.

        Cost: one scan of the keys.
        """

    def uncaptured(self, into: Path) -> str | None:
        """Write what happened up to now, and is not captured yet, as landing files below a folder.

        Returns:
            Why that cannot be known; None if it is done. Neither the source nor its landing folder is changed.
        """
