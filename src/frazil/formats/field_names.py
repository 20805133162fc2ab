"""Names of fields, and of the columns that they go to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.errors import SchemaError
from frazil.spec.contract import ICEBERG_RESERVED, OWN_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class DuplicateFieldsError(SchemaError):
    """A file names two fields alike."""

    code = "FZ501"

    def __init__(self, path: str, names: Sequence[str]) -> None:
        self.path, self.names = path, tuple(names)
        super().__init__(
            f"{path}: {', '.join(map(repr, self.names))} name more than one field, without regard to case",
            hint=f"give one another name in the source: names: {{{self.names[-1]}: {self.names[-1].lower()}_2}}",
        )


def check_names(path: str, names: Sequence[str]) -> None:
    """Refuse two fields of one name.

    Raises:
        DuplicateFieldsError: two names are equal without regard to case.
    """
    lower = [name.lower() for name in names]
    if twice := [name for name in names if lower.count(name.lower()) > 1]:
        raise DuplicateFieldsError(path, twice)


def safe_name(name: str, taken: frozenset[str] = frozenset()) -> str:
    """Return the name of the column of a source field.

    The name is unchanged except in three cases. A name that Iceberg cannot read back, or that begins with ``_cdc_``,
    gets the prefix ``source``. Control characters become ``_``. A name that is taken, without regard to case, gets the
    suffix ``__2``, ``__3`` ….

    Args:
        name: the field's name in the file; empty becomes ``unnamed``.
        taken: lower-case column names given so far.
    """
    clean = "".join(character if character.isprintable() else "_" for character in name).strip()[:255] or "unnamed"
    if clean.lower() in ICEBERG_RESERVED or clean.lower().startswith(OWN_PREFIX):
        clean = f"source{clean}"
    if clean.lower() not in taken:
        return clean
    number = 2
    while f"{clean}__{number}".lower() in taken:
        number += 1
    return f"{clean}__{number}"


def file_columns(names_and_types: Iterable[tuple[str, str]], op: str | None = None) -> tuple[tuple[str, str], ...]:
    """Return the column names of the fields of a file; an op column gets its declared name.

    Args:
        names_and_types: fields in file order; names distinct without regard to case.
        op: declared name of the op column, compared without regard to case; None if no column has this role.
    """
    taken: set[str] = set()
    columns = []
    for name, kind in names_and_types:
        column = op if op is not None and name.lower() == op.lower() else safe_name(name, frozenset(taken))
        taken.add(column.lower())
        columns.append((column, kind))
    return tuple(columns)
