"""Stories of one row each: hostile records, the files and runs they come in, and the row there is in the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Story:
    """What happens to one row.

    Attributes:
        name: what is hostile in it.
        records: file, op, value and second of each, such as ``1:Ua@5``; no value is NULL, and so is the second ``-``.
            Files are L, the full load, and the change files 1 and 2; then, in a second run, 3, and 0 whose name is that
            of a file before all others.
        kept: the value of the row; None if the row is absent.
    """

    name: str
    records: str
    kept: str | None


ORDERED: Final = tuple(
    Story(*row)
    for row in (
        # Deletes that carry the key alone.
        ("a delete with its key alone", "L:Ia@1 1:D@-", None),
        ("a delete with its key alone, in the file of the row", "1:Ia@1 1:D@-", None),
        ("a delete with its key alone, and the row again", "1:Ia@1 1:D@- 2:Ib@2", "b"),
        ("a delete with its key alone, twice", "L:Ia@1 1:D@- 2:D@-", None),
        ("a delete with its key alone, in another run", "L:Ia@1 1:Ub@2 3:D@-", None),
        ("a delete with its key alone before its row comes", "1:D@- 0:Ia@1", None),
        ("a delete with its key alone of a row never seen", "1:D@- 3:Ib@2", "b"),
        ("a delete with its key alone that comes late", "1:Ua@5 0:D@-", "a"),
        ("a delete with its key alone after times that run back", "1:Ua@5 1:Ub@3 2:D@-", None),
        ("a delete with its key alone, and the row comes back", "L:Ia@1 1:D@- 3:Ic@9", "c"),
        # Deletes with a time.
        ("a delete that repeats the time of its row", "1:Ia@1 1:Ub@2 2:D@2", None),
        ("a delete that repeats the time of its row, in another run", "1:Ia@1 1:Ub@2 3:D@2", None),
        ("a delete of the second of its insert", "1:Ia@2 1:D@2", None),
        ("an insert of the second of the delete before", "1:Ia@1 1:D@2 1:Ib@2", "b"),
        ("a delete that is older than its row", "1:Ub@5 2:D@3", "b"),
        ("a delete that is newer than all", "L:Ia@1 1:D@9", None),
        ("a delete that comes late and is older", "1:Ua@5 0:D@3", "a"),
        ("a delete that comes late and is newer", "1:Ua@5 0:D@7", None),
        ("a load of a row that was deleted", "1:D@2 L:Ia@1", None),
        ("a row that comes back late and older than its delete", "1:Ia@1 2:D@5 0:Ub@3", None),
        # Order.
        ("a change that comes late and is older", "1:Ua@5 0:Ub@3", "a"),
        ("a change that comes late and is newer", "1:Ua@5 0:Ub@7", "b"),
        ("changes of one second in one file", "1:Ua@1 1:Ub@1 1:Uc@1", "c"),
        ("changes of one second in two files", "2:Ub@1 1:Ua@1", "b"),
        ("a change that stands behind a newer one", "1:Ua@5 2:Ub@3", "a"),
        ("the same change twice", "1:Ua@1 1:Ua@1", "a"),
        ("the same change again after another one", "1:Ua@1 1:Ub@2 3:Ua@1", "b"),
        ("a load newer than the changes beside it", "L:Ia@9 1:Ub@3", "a"),
        ("a load of the second of a change", "L:Ia@3 1:Ub@3", "b"),
        ("an insert of a row that is there", "L:Ia@1 1:Ib@2", "b"),
        ("an update of a row that never came", "1:Ua@1", "a"),
        ("a value that becomes NULL", "L:Ia@1 1:U@2", "NULL"),
        ("a time before 1970", "1:Ua@-9999999999 2:Ub@-9999999998", "b"),
    )
)
"""Rows of a table that is ordered by a time."""

PLACED: Final = tuple(
    Story(*row)
    for row in (
        ("a delete", "L:Ia 1:D", None),
        ("all of it in one file", "1:Ia 1:Ub 1:D 1:Ic", "c"),
        ("a delete in another run", "L:Ia 3:D", None),
        ("a file that comes late", "1:Ua 0:Ub", "a"),
        ("a delete that comes late", "3:Ua 0:D", "a"),
        ("a row that comes after its delete", "1:D 0:Ia", None),
        ("files in reverse order", "2:Ua 1:Ub L:Ic", "a"),
        ("the same change again", "1:Ua 2:Ub 3:Ua", "a"),
        ("a delete of a row that never came", "1:D", None),
        ("a load of a row that was deleted", "1:D L:Ia", None),
    )
)
"""Rows of a table that is ordered by the places of its records alone."""
