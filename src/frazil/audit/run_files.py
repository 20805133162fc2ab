"""Run files below the warehouse: written once, read by people, tools and ``frazil status``.

Tables and runs do not depend on them. They are on this machine's disk or in an object store, like the warehouse. If the
warehouse takes only tables, they are beside the declaration.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from frazil.catalog.conf import lake_access
from frazil.errors import SetupError, StorageError
from frazil.spec.location import warehouse
from frazil.spec.model.stores import is_store
from frazil.storage import store_client
from frazil.storage.object_store import StoreAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from frazil.spec import Pipeline

KEPT_RUNS: Final = 1_000
"""So many of the newest runs keep their files, at least."""
RUNS_LET_GO: Final = 100
"""Older ones go so many at a time: looking for them takes longer than a run's own files."""

_RUNS: Final = "runs"
_ENDINGS: Final = (".start.json", ".end.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """The files of one run, each written once.

    Attributes:
        run: name of the run.
        start_in, end_in: where its files are; None for one that is missing.
    """

    run: str
    start_in: FilesPlace | None
    end_in: FilesPlace | None

    def start(self) -> Mapping[str, Any] | None:
        """Read what the run wrote at its start; None if it is missing or unreadable."""
        return _read(self.start_in, f"{self.run}{_ENDINGS[0]}")

    def end(self) -> Mapping[str, Any] | None:
        """Read what the run wrote at its end; None if it is missing or unreadable. It names every table of the run."""
        return _read(self.end_in, f"{self.run}{_ENDINGS[1]}")


class FilesPlace(Protocol):
    """The place of the files, on one kind of store."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all.

        Raises:
            OSError, StorageError: it cannot be written.
        """

    def read(self, name: str) -> bytes:
        """Return a file's content.

        Raises:
            OSError, StorageError: the file does not exist or cannot be read.
        """

    def names(self) -> list[str]:
        """List the files; empty without such a folder."""

    def remove(self, names: Sequence[str]) -> None:
        """Remove files; those that are not there are passed over."""


def runs_folder(pipeline: Pipeline) -> Path | None:
    """Return the path of the run files' folder, which may not exist; None if the warehouse is not a local folder."""
    folder = warehouse(pipeline).path
    return None if folder is None else folder / ".frazil" / _RUNS


def files_place(pipeline: Pipeline, name: str, *, lasting: bool = False) -> FilesPlace | None:
    """Return the place of files of one sort below the warehouse, whether it exists or not; None without a client.

    Args:
        pipeline: the declaration.
        name: of its folder.
        lasting: a file that was written is on the disk when :meth:`FilesPlace.write` returns.
    """
    place = warehouse(pipeline)
    if place.path is not None:
        return _Disk(place.path / ".frazil" / name, lasting)
    if not is_store(place.uri):
        return None
    return _Store(StoreAddress(f"{place.uri}/.frazil/{name}", lake_access(pipeline, place.uri)))


def files_places(pipeline: Pipeline, sort: str, *, lasting: bool = False) -> tuple[FilesPlace | None, FilesPlace]:
    """Return the places of files of one sort: below the warehouse, if it has any, and beside the declaration."""
    return files_place(pipeline, sort, lasting=lasting), _Disk(pipeline.folder / ".frazil" / sort, lasting)


def write_file(pipeline: Pipeline, sort: str, name: str, content: bytes, *, lasting: bool = False) -> FilesPlace:
    """Write a file, whole or not at all, below the warehouse; beside the declaration where that takes no files.

    Args:
        pipeline: the declaration.
        sort: name of the folder.
        name: of the file.
        content: of the file.
        lasting: as :func:`files_place` takes it.

    Returns:
        Where it is.

    Raises:
        OSError: it cannot be written there either.
    """
    below, beside = files_places(pipeline, sort, lasting=lasting)
    if below is not None:
        # A catalog's own bucket accepts only tables.
        with suppress(StorageError, SetupError):
            below.write(name, content)
            return below
    beside.write(name, content)
    return beside


def read_kept_file(pipeline: Pipeline, sort: str, name: str) -> dict[str, Any] | None:
    """Return the JSON object in a file of :func:`write_file`; None if the file is missing or unreadable."""
    below, beside = files_places(pipeline, sort)
    found = _read(below, name)
    return _read(beside, name) if found is None else found


def write_run_file(pipeline: Pipeline, run: str, part: str, content: Mapping[str, Any]) -> None:
    """Write one of the two files of a run, as :func:`write_file`, and remove the files of runs that are too old.

    Args:
        pipeline: the declaration.
        run: name of the run; names sort by time.
        part: ``start`` or ``end``.
        content: plain values.

    Raises:
        OSError: the file cannot be written.

    Cost: a few system calls, and at the end of a run a listing of the folder; in an object store a request each.
    """
    text = json.dumps(content, indent=1, ensure_ascii=False)
    folder = write_file(pipeline, _RUNS, f"{run}.{part}.json", text.encode())
    if part == "end":
        with suppress(StorageError):
            _let_go(folder)


def run_files(pipeline: Pipeline) -> Iterator[RunFiles]:
    """Yield the files of runs, newest first, without reading them."""
    folders = [place for place in files_places(pipeline, _RUNS) if place is not None]
    places = {name: place for place in folders for name in _names(place)}
    for run in _by_time(places):
        start_in, end_in = (places.get(f"{run}{ending}") for ending in _ENDINGS)
        yield RunFiles(run=run, start_in=start_in, end_in=end_in)


def _let_go(folder: FilesPlace) -> None:
    names = folder.names()
    if len(names) > len(_ENDINGS) * (KEPT_RUNS + RUNS_LET_GO):
        folder.remove([f"{old}{ending}" for old in _by_time(names)[KEPT_RUNS:] for ending in _ENDINGS])


def _names(folder: FilesPlace) -> list[str]:
    try:
        return folder.names()
    except (StorageError, SetupError):
        return []


def _by_time(names: Iterable[str]) -> list[str]:
    """Names of the runs that have files, the newest first."""
    runs = {name.removesuffix(end) for name in names for end in _ENDINGS if name.endswith(end) and name[0] != "."}
    return sorted(runs, reverse=True)


def _read(folder: FilesPlace | None, name: str) -> dict[str, Any] | None:
    if folder is None:
        return None
    try:
        found = json.loads(folder.read(name))
    except (OSError, ValueError, StorageError, SetupError):
        return None
    return found if isinstance(found, dict) else None


@dataclass(frozen=True, slots=True)
class _Disk:
    path: Path
    is_lasting: bool = False

    def __str__(self) -> str:
        return f"{self.path}"

    def write(self, name: str, content: bytes) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        aside = self.path / f".{name}.tmp"
        try:
            with aside.open("wb") as file:
                file.write(content)
                if self.is_lasting:
                    file.flush()
                    os.fsync(file.fileno())
            aside.rename(self.path / name)
        finally:
            aside.unlink(missing_ok=True)

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def names(self) -> list[str]:
        try:
            return os.listdir(self.path)  # noqa: PTH208 - a thousand Path objects are not needed
        except OSError:
            return []

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            (self.path / name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Store:
    address: StoreAddress

    def __str__(self) -> str:
        return f"{self.address}"

    def write(self, name: str, content: bytes) -> None:
        store_client.put(self.address.access, f"{self.address.key}/{name}", content)

    def read(self, name: str) -> bytes:
        return bytes(store_client.get(self.address.access, f"{self.address.key}/{name}").bytes())

    def names(self) -> list[str]:
        listed = store_client.keys(self.address.access, self.address.key)
        return [one["path"].rpartition("/")[2] for some in listed for one in some]

    def remove(self, names: Sequence[str]) -> None:
        store_client.delete(self.address.access, [f"{self.address.key}/{name}" for name in names])
