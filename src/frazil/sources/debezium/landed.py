"""Names of a topic's landing files, and the check for missing messages between them."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from frazil.errors import HistoryChangedError

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME: Final = re.compile(r"(\d{20})-(\d{20})\.jsonl(\.gz)?")
"""First offset, offset after the last message, and ``.gz`` if compressed."""


class LostOffsetsError(HistoryChangedError):
    """A topic lost messages after the last landed one, or was replaced by another topic with its name."""

    code = "FZ707"


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
