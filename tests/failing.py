"""Runs that are to fail, and with what; and what runs leave that were killed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

import frazil
from frazil.lake.warehouse import newest_version

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def run_fails_with(
    kind: type[Exception], match: str | None = None
) -> Iterator[pytest.ExceptionInfo[frazil.RunFailedError]]:
    """Expect a run in which tables, marts or aggregates fail, all with errors of one kind."""
    with pytest.raises(frazil.RunFailedError, match=match) as caught:
        yield caught
    causes = [error if isinstance(error, kind) else error.__cause__ for error in caught.value.errors]
    assert all(isinstance(cause, kind) for cause in causes), caught.value


def leave_half_a_version(table_folder: Path, share: float) -> None:
    """Leave a share of the bytes of a table's next version, as a run does that is killed while it writes that."""
    newest = newest_version(table_folder)
    if newest is not None:
        text = newest.path.read_bytes()
        half = newest.path.with_name(f"{newest.number + 1:05}-{uuid4()}.metadata.json")
        half.write_bytes(text[: int(share * len(text))])
