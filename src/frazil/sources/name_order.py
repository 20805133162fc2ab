"""Names that order files, and numbers in them that are not as long: as text 10 stands before 9."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from frazil.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBER: Final = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]*)([0-9]+)(?![A-Za-z0-9])")
"""A number that ends a word; those within are of hashes."""


class NameOrderError(SourceError):
    """Files that their names order have numbers in them that are ordered otherwise."""

    code = "FZ213"
    retryable = False

    def __init__(self, table: str, first: str, second: str, *, hint: str) -> None:
        super().__init__(
            f"table {table!r}: names order its files, as text, so {first} stands before {second}", hint=hint
        )


def misordered(names: Iterable[str]) -> tuple[str, str] | None:
    """Return two names that differ in numbers and of which the first one as text is the later one by its numbers.

    Returns:
        The two, in their order as text; None where there are none. Names that differ elsewhere are never compared.
    """
    alike: dict[str, list[str]] = {}
    for name in sorted(set(names)):
        alike.setdefault(_NUMBER.sub(r"\1#", name), []).append(name)
    pairs = (pair for some in alike.values() for pair in pairwise(some))
    return next((pair for pair in pairs if _numbers(pair[0]) > _numbers(pair[1])), None)


def _numbers(name: str) -> list[int]:
    return [int(digits) for _, digits in _NUMBER.findall(name)]
