"""Names of a topic's landing files, and the check for missing messages between them."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from frazil.errors import HistoryChangedError
from frazil.sources.base import stored_path
from frazil.sources.landed_files import LANDED, lost_files, lost_message
from frazil.spec.location import locate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from frazil.spec import Table

NAME: Final = re.compile(r"(\d{20})-(\d{20})\.jsonl(\.gz)?")
"""First offset, offset after the last message, and ``.gz`` if compressed."""


class LostOffsetsError(HistoryChangedError):
    """A topic lost messages after the last landed one, or was replaced by another topic with its name."""

    code = "FZ707"


def verify_files(table: Table, folder: Path, taken: Collection[str]) -> None:
    """Refuse a landing folder without messages that were landed and not taken.

    Messages that were landed again, in a file of other offsets, are not missing.

    Args:
        table: a table of a topic.
        folder: folder of the declaration.
        taken: paths of the files that bronze has.

    Raises:
        LostOffsetsError: the message names the first file.
    """
    root = locate(table.source.landing, setting="landing", folder=folder).path
    noted = [] if root is None else sorted((root / str(table.source.topic)).glob(f"*/*/{LANDED}"))
    for place in (found.parent for found in noted):
        lost = lost_files(place, taken, depth=2)
        if not lost:
            continue
        below = "/".join(place.parts[-2:])
        here = [f"{below}/{file.name}" for file in place.iterdir()]
        ranges = _ranges([*here, *(path for path in taken if path.rpartition("/")[0].endswith(below))])
        if lost := [name for name in lost if not _is_covered(name, sorted((first, upto) for _, first, upto in ranges))]:
            gap = stored_path(f"{place / lost[0].removesuffix('.gz')}", folder)
            raise LostOffsetsError(
                lost_message(table.name, place, lost, folder),
                hint="put it back; or let Debezium read the table again (an incremental snapshot), then continue after "
                f"the gap: touch '{gap}'",
            )


def _is_covered(name: str, ranges: Iterable[tuple[int, int]]) -> bool:
    """Return True if sorted ranges of offsets have all those of a landing file."""
    found = NAME.fullmatch(name)
    if found is None:
        return False
    reached, end = int(found[1]), int(found[2])
    for first, upto in ranges:
        if first <= reached:
            reached = max(reached, upto)
    return reached >= end


def verify_offsets(table: str, known: Iterable[str], new: Iterable[str]) -> None:
    """Refuse new files of a partition if messages between them and bronze's files are missing.

    This happens if the landing folder was lost or belongs to another host, and the topic has discarded the messages.

    Args:
        table: name of the table.
        known: paths of files that bronze has.
        new: paths of new files.

    Raises:
        LostOffsetsError: messages are missing; the error names the offsets.
    """
    ends: defaultdict[str, int] = defaultdict(lambda: -1)
    for folder, _, upto in _ranges(known):
        ends[folder] = max(ends[folder], upto)
    for folder, first, upto in sorted(_ranges(new)):
        end = ends[folder]
        if 0 <= end < first:
            raise LostOffsetsError(
                f"table {table!r}: the lake has {folder} up to offset {end}, but the next landed offset is {first}: "
                "messages are missing, because the landing folder was lost or replaced",
                hint="restore the landing folder; or let Debezium read the table again (an incremental snapshot), then "
                f"continue after the gap: touch '{folder}/{end:020}-{first:020}.jsonl'",
            )
        ends[folder] = max(end, upto)


def _ranges(paths: Iterable[str]) -> list[tuple[str, int, int]]:
    found = ((path.rpartition("/")[0], NAME.fullmatch(path.rpartition("/")[2])) for path in paths)
    return [(folder, int(name[1]), int(name[2])) for folder, name in found if name]
