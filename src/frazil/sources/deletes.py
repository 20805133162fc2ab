"""The brake of HANDOVER: a copy of a table that lacks many rows of what is known of it is refused until allowed."""

from __future__ import annotations

from typing import Final

from frazil.errors import ContractError
from frazil.spec.amount import counted

_FEW_ROWS: Final = 10
"""Of tables as small as this any share may go."""

_HINT: Final = (
    "is it whole, and of the right place? If so, raise max_delete_fraction in the source, run the same again, and set "
    "it back"
)


class TooManyDeletesError(ContractError):
    """A copy of a table lacks more of its rows than is allowed."""

    code = "FZ402"


def verify_deletes(
    copy: str, before: int, gone: int, limit: float, *, of: str = "the one before", hint: str = _HINT
) -> None:
    """Refuse a copy of a table that lacks too many rows.

    Args:
        copy: names the table and the copy, for people.
        before: how many rows the table had.
        gone: how many of them the copy lacks.
        limit: the share of them that may be gone.
        of: what had these rows.
        hint: the way out.

    Raises:
        TooManyDeletesError: more are.
    """
    if before > _FEW_ROWS and gone > limit * before:
        raise TooManyDeletesError(
            f"{copy} lacks {gone:,} of {counted(before, 'row')} of {of}; "
            f"max_delete_fraction {limit:g} allows {int(limit * before):,}",
            hint=hint,
        )
