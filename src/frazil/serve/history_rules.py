"""Rules of histories: of the columns that a history adds, and of unique versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.silver.rules import NOT_NULL, RowRule

if TYPE_CHECKING:
    from collections.abc import Sequence

OF_VERSIONS: Final = (
    # An event without a time does not break the table.
    RowRule(name=NOT_NULL, column="valid_from", columns=("valid_from",), on_violation="warn"),
    RowRule(name=NOT_NULL, column="is_current", columns=("is_current",), on_violation="fail"),
    RowRule(name=NOT_NULL, column="is_deleted", columns=("is_deleted",), on_violation="fail"),
    RowRule(
        name="current_is_open",
        column=None,
        columns=("is_current", "valid_to"),
        on_violation="fail",
        expr="is_current = (valid_to IS NULL)",
    ),
    # A version that a delete ends may be empty.
    RowRule(
        name="ends_after_it_begins",
        column=None,
        columns=("valid_from", "valid_to"),
        on_violation="fail",
        expr="valid_to IS NULL OR valid_from IS NULL OR valid_to >= valid_from",
    ),
)
"""Row rules of the columns that a history adds."""


def unique_versions(rows: str, keys: Sequence[str]) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Return the uniqueness rules of a history: rule name, FROM clause of the rows, and unique columns.

    Args:
        rows: FROM clause for all versions; it ends in a condition.
        keys: columns that identify a row of the source table.
    """
    return (
        # An empty version, which a delete leaves, begins at the same time as the next one.
        ("unique_version", f"{rows} AND coalesce(valid_to > valid_from, true)", (*keys, "valid_from")),
        ("one_current_version", f"{rows} AND is_current", (*keys,)),
    )
