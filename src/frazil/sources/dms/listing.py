"""Which files of Amazon DMS there are, and in which order."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from frazil.sources.base import Listing, SourceFile, change_position, snapshot_position, stored_path
from frazil.sources.ledger import Ledger, Unchanged
from frazil.spec.model.stores import NO_STORES
from frazil.storage.base import Found, Passed, Refused
from frazil.storage.files import find

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from frazil.spec import DmsFiles
    from frazil.spec.model.stores import Store

TRANSACTIONS: Final = "transactions"
"""Variant of the files of ``cdc_path``, with records of many tables."""

_LOAD: Final = re.compile(r"(SEGMENT\d+_)?LOAD[0-9A-F]+(?![0-9A-Z])", re.IGNORECASE)
_CSV: Final = (".csv", ".csv.gz")
_PARQUET: Final = (".parquet",)
_PACKED: Final = (".bz2", ".gz", ".lz4", ".snappy", ".tar", ".tgz", ".xz", ".zip", ".zst")


def list_files(
    source: DmsFiles, folder: Path, stores: Mapping[str, Store] = NO_STORES, ledger: Ledger | None = None
) -> Listing:
    """List the files of a source.

    Args:
        source: the declaration; files of ``cdc_path`` are transaction files and CSV, also if below ``path``.
        folder: the declaration's folder, absolute.
        stores: how object stores are reached.
        ledger: what bronze knows: files that are as it says are counted only. Left out: all are listed.

    Returns:
        Every file once, full load files first, then by name as plain text, whatever their folders and times. Files of
        another kind are named with the reason; hidden and temporary ones are not.

    Raises:
        MissingFolderError: a path that is no pattern does not exist or cannot be listed.

    Cost: one ``stat`` a file, some 20,000 files a second; in an object store one request for a thousand objects.
    """
    files: dict[str, SourceFile] = {}
    refused: dict[str, str] = {}
    passed: dict[str, str] = {}
    own = _PARQUET if source.format == "parquet" else _CSV
    searches: list[tuple[str, tuple[str, ...], bool]] = [(path, _CSV, True) for path in source.cdc_path or ()]
    searches += [(path, own, False) for path in source.path]
    unchanged = Unchanged(ledger or Ledger(), several=len(searches) > 1)
    for declared, endings, shared in searches:
        for found in find(declared, folder, endings, stores):
            path = stored_path(found.uri, folder)
            match found:
                case Found() if unchanged.has(path, found.size_bytes, found.modified_ns):
                    pass
                case Found():
                    files.setdefault(path, _source_file(path, found, shared=shared))
                case Refused():
                    refused.setdefault(path, found.reason)
                case Passed():
                    passed.setdefault(path, _why_passed(path, endings, shared=shared))
    others = sorted((path, why) for path, why in passed.items() if path not in files and path not in refused)
    by_position = sorted(files.values(), key=lambda file: file.position)
    return Listing(tuple(by_position), tuple(sorted(refused.items())), tuple(others), unchanged.count)


def _why_passed(path: str, endings: tuple[str, ...], *, shared: bool) -> str:
    """Return why a file is not read, by the end of its name."""
    name, wanted = path.lower(), " or ".join(endings)
    if name.endswith((*_CSV, *_PARQUET)):
        says = "files of cdc_path are CSV" if shared else f"the source says format: {endings[0][1:]}"
        return f"not {wanted}; {says}"
    if name.endswith(_PACKED):
        return f"packed as {name.rpartition('.')[2]}; of packed files only .csv.gz is read"
    return f"not {wanted}"


def _source_file(path: str, found: Found, *, shared: bool) -> SourceFile:
    load = not shared and _LOAD.match(found.name) is not None
    place = f"{found.name}/{os.path.dirname(path)}"  # noqa: PTH120 - text of a stored path
    return SourceFile(
        path=path,
        uri=found.uri,
        name=found.name,
        size_bytes=found.size_bytes,
        modified_ns=found.modified_ns,
        load=load,
        position=snapshot_position(place) if load else change_position(place),
        variant=TRANSACTIONS if shared else "",
    )
