"""Kinds of sources that other distributions bring."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Final

from frazil.errors import FrazilError, SetupError

GROUP: Final = "frazil.kinds"
"""Entry points of this group name a function without parameters that calls :func:`frazil.sources.kinds.add_source`."""


class KindError(SetupError):
    """A kind of source of another distribution cannot be loaded."""

    code = "FZ918"


@cache
def load_other_kinds() -> None:
    """Let declarations name the kinds of sources of all installed distributions; once in a process.

    Raises:
        KindError: the code of a distribution fails.
    """
    for entry in entry_points(group=GROUP):
        try:
            entry.load()()
        except FrazilError:
            raise
        except Exception as error:
            whose = "" if entry.dist is None else f" of {entry.dist.name} {entry.dist.version}"
            raise KindError(
                f"kind of source {entry.name!r}{whose} cannot be loaded: {type(error).__name__}: {error}",
                hint=f"install a version that fits this Frazil, or uninstall it; its entry point is {entry.value}",
            ) from error
