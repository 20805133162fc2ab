"""The names of all files that a capture landed in a folder, so that a removed one is missed.

A server does not send again what was landed. A file that somebody removed before a run took it cannot be seen by the
names of the others: tables that do not change have no files. The hidden file ``.landed`` in the folder has every name.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from frazil.sources.base import stored_path
from frazil.sources.capture import land_file
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

LANDED: Final = ".landed"
"""Name of the file with the names; it goes with its folder."""


def note_landed(folder: Path, names: Iterable[str]) -> None:
    """Note files that appeared in a folder, durably; only the process that captures calls it.

    Args:
        folder: folder of a table's landing files.
        names: their names, or paths below the folder. A name may come again.
    """
    with (folder / LANDED).open("a+b") as file:
        file.seek(0)
        # A line without an end is of a process that was killed.
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write("".join(f"{name}\n" for name in names).encode())
        file.flush()
        os.fsync(file.fileno())


def forget_lost(folder: Path) -> None:
    """Forget the files that are no longer there, after what they had was landed again."""
    here = [name for name in _noted(folder) if (folder / name).exists()]
    if (folder / LANDED).exists():
        text = "".join(f"{name}\n" for name in here)
        land_file(folder / LANDED, lambda path: path.write_text(text, encoding="utf-8"))


def lost_files(folder: Path, taken: Collection[str], *, depth: int = 1) -> list[str]:
    """Return the names of files that were landed in a folder, and are neither there nor taken.

    Args:
        folder: folder of a table's landing files.
        taken: paths of the files that bronze has; their first folders may be others than today.
        depth: number of folders by which a path is known.

    Cost: the noted names, and one look at each file that is not taken.
    """
    place = f"{'/'.join(folder.parts[-depth:])}/"
    known = {path.rpartition(place)[2] for path in taken}
    # Where a file was emptied on purpose, an empty one without .gz stands for it.
    return sorted(
        name
        for name in {*_noted(folder)} - known
        if not (folder / name).exists() and not (folder / name.removesuffix(".gz")).exists()
    )


def lost_message(table: str, place: Path, names: Collection[str], folder: Path) -> str:
    """Return that files were removed before a run took them.

    Args:
        table: name of the table.
        place: folder of the files.
        names: their names.
        folder: folder of the declaration.
    """
    first, *others = [stored_path(f"{place / name}", folder) for name in names]
    more = f" (and {counted(len(others), 'other')})" if others else ""
    return f"table {table!r}: landed file {first}{more} was removed before a run took it: its changes are missing"


def _noted(folder: Path) -> list[str]:
    try:
        text = (folder / LANDED).read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return text[: text.rfind("\n") + 1].splitlines()
