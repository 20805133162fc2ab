"""What a dump was when it was taken, and whether it still is: its order by name, and the content of its files."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from frazil.errors import HistoryChangedError
from frazil.sources.new_files import NameOrderError
from frazil.sources.record_files import CSV, JSON_LINES, PARQUET
from frazil.storage.files import sha256_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from frazil.sources.base import NewFile
    from frazil.sources.snapshot.source import Dump

CONTENT: Final = "frazil.content"
"""Key in the metadata of a landed file for the files of its dump: sizes, times and hashes."""

_YEAR_LAST: Final = re.compile(
    r"(?<![0-9])[0-9]{1,2}[-_. ]?(?:[0-9]{2}|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[-_. ]?"
    r"(?:19|20)[0-9]{2}(?![0-9])",
    re.IGNORECASE,
)


class DumpChangedError(HistoryChangedError):
    """A dump has other files or other content than when it was taken."""

    code = "FZ721"

    def __init__(self, table: str, dump: str) -> None:
        super().__init__(
            f"table {table!r}: dump {dump} has other files or other content than when it was taken",
            hint="put the old content back, and deliver the new one as a dump with a later name; or, if a newer dump "
            f"was taken, remove this one; or start over: frazil drop --select {table}, and remove its landing folder",
        )


def content_of(files: Iterable[NewFile]) -> str:
    """Return sizes, times and hashes of a dump's files as text."""
    known = sorted((file.size_bytes, file.modified_ns, file.sha256) for file in files)
    return json.dumps(known)


def verify_content(table: str, dump: Dump, landed: Iterable[Path]) -> None:
    """Refuse a dump that changed after its landed files were written.

    Args:
        table: name of the table.
        dump: the dump as it is now.
        landed: landed files of the dump; those of earlier versions of Frazil do not say what it was.

    Raises:
        DumpChangedError: files or content differ.

    Cost: no reads if sizes and times are the same; otherwise the dump's files once.
    """
    now = sorted((file.size_bytes, file.modified_ns) for file in dump.files)
    hashes: list[str] | None = None
    for file in landed:
        if (then := _content(file)) is None or [(size, at) for size, at, _ in then] == now:
            continue
        if hashes is None:
            hashes = sorted(sha256_of(file.uri) for file in dump.files)
        if sorted(sha for _, _, sha in then) != hashes:
            raise DumpChangedError(table, dump.name)


def _content(landed: Path) -> list[tuple[int, int, str]] | None:
    try:
        text = (pq.read_schema(landed).metadata or {}).get(CONTENT.encode())
    except (OSError, pa.ArrowInvalid):
        # It was emptied on purpose.
        return None
    return None if text is None else [(size, at, sha) for size, at, sha in json.loads(text)]


def verify_order(table: str, dumps: Sequence[Dump]) -> None:
    """Refuse dumps whose names, as text, are in another order than the times in them, or than their names alone.

    Args:
        table: name of the table.
        dumps: the dumps in the order of their names.

    Raises:
        NameOrderError: the message names two dumps.
    """
    timed = [dump for dump in dumps if dump.taken_at is not None]
    against = [(one, other) for one, other in pairwise(timed) if (one.taken_at or "") > (other.taken_at or "")]
    # A file ending is no part of a name: 2026-01-31.csv is before its correction, 2026-01-31-v2.csv.
    against += [(one, other) for one, other in pairwise(dumps) if _stem(one.name) > _stem(other.name)]
    last = [
        (dump, found.group()) for dump in dumps if dump.taken_at is None and (found := _YEAR_LAST.search(dump.name))
    ]
    against += [(one, other) for (one, date), (other, later) in pairwise(last) if date != later]
    for one, other in against:
        raise NameOrderError(
            table,
            one.name,
            other.name,
            hint="rename the newer dump so that it is last as text, with the year first in dates: 2026-01-31, "
            f"2026-01-31_v2; if it was taken, then frazil drop --select {table} and run again",
        )


def _stem(name: str) -> str:
    lower = name.lower()
    ending = next((ending for ending in (*CSV, *JSON_LINES, *PARQUET) if lower.endswith(ending)), "")
    return name[: len(name) - len(ending)]
