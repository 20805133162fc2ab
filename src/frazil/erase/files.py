"""Which files at a source still hold records of erased keys: some may be gone, some cannot be looked at."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from frazil.errors import FrazilError
from frazil.storage.files import storage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

FILES_SHOWN: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """Files with records of the subjects: the first thousand that are there, and as many that may be."""

    there: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


def look_for(paths: Iterable[str], address: Callable[[str], str]) -> SourceFiles:
    """Return which files are there, in the order of ``paths``.

    Args:
        paths: of files, as bronze has them.
        address: gives how a path is opened.

    Returns:
        Without those that are gone. A file whose store is gone, refuses or does not answer is ``unseen``, and nothing
        else is asked of that store: an erase needs none of these files.

    Cost: a look at each file, until a thousand are there.
    """
    broken: set[str] = set()
    unseen: list[str] = []

    def seen() -> Iterator[str]:
        for path in paths:
            store = _store(path)
            is_there = None if store in broken else _is_there(path, address)
            if is_there:
                yield path
            elif is_there is None:
                broken.update({store} - {""})
                unseen.extend([path][: FILES_SHOWN - len(unseen)])

    there = tuple(islice(seen(), FILES_SHOWN))
    return SourceFiles(there=there, unseen=tuple(unseen))


def _is_there(path: str, address: Callable[[str], str]) -> bool | None:
    """Return whether a file is there; None where nobody can tell."""
    try:
        uri = address(path)
        storage_of(uri).stat(uri)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (FrazilError, OSError):
        return None
    return True


def _store(path: str) -> str:
    """Return scheme and bucket of an address; an empty text for a path on this machine."""
    scheme, sign, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if sign else ""
