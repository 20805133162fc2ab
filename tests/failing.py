"""Runs that are to fail, and with what."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import frazil

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def run_fails_with(
    kind: type[Exception], match: str | None = None
) -> Iterator[pytest.ExceptionInfo[frazil.RunFailedError]]:
    """Expect a run in which tables, marts or aggregates fail, all with errors of one kind."""
    with pytest.raises(frazil.RunFailedError, match=match) as caught:
        yield caught
    causes = [error if isinstance(error, kind) else error.__cause__ for error in caught.value.errors]
    assert all(isinstance(cause, kind) for cause in causes), caught.value
