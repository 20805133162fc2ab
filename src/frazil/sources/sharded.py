"""A sharded table as one source; each shard has its own files, ledger and order."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from frazil.errors import FrazilError
from frazil.formats.records import Changed
from frazil.sources.base import Listing, RecordMeaning, SourceDelta, stored_path
from frazil.sources.capture import BeginsOnce, VerifiesLanding, reload_capture
from frazil.sources.ledger import Ledger
from frazil.spec.check.composed import fixed_part, shard_tables
from frazil.spec.location import locate
from frazil.spec.model.stores import whole_address
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from frazil.formats.records import Parsed
    from frazil.sources.base import FileRecords, NewFile, Source, SourceFile
    from frazil.sources.capture import Capture, Lag, Landed, Looked
    from frazil.sources.comparison import Compared, SourceRows, Sums
    from frazil.spec import Pipeline, Table


class ShardedSource:
    """The shards of one table.

    Positions of two shards are never compared, because the shard is part of the key. Files with equal content in two
    shards are not duplicates.
    """

    def __init__(self, table: Table, source_of: Callable[[Table], Source]) -> None:
        self.table = table
        self.column: str = table.source.column
        self.tables = shard_tables(table)
        self.shards: dict[str, Source] = {name: source_of(one) for name, one in self.tables.items()}

    @property
    def _first(self) -> Source:
        return next(iter(self.shards.values()))

    def list(self, folder: Path) -> Listing:
        """List the files of all shards."""
        found = {}
        for name, shard in self.shards.items():
            with of_shard(name):
                found[name] = shard.list(folder)
        files = [_marked(file, name) for name, listing in found.items() for file in listing.files]
        return Listing(
            files=tuple(sorted(files, key=lambda file: (file.position, file.path))),
            refused=tuple(one for listing in found.values() for one in listing.refused),
            passed=tuple(one for listing in found.values() for one in listing.passed),
        )

    def find_new(self, folder: Path, ledger: Ledger) -> SourceDelta:
        """Find the files that bronze does not have, shard by shard."""
        found = []
        for name, shard in self.shards.items():
            with of_shard(name):
                own = self._ledger_of(name, folder, ledger)
                delta = shard.find_new(folder, own)
                ledger.files.update(own.files)
            found.append(
                replace(
                    delta,
                    files=tuple(_marked(file, name) for file in delta.files),
                    duplicates=tuple(_marked(file, name) for file in delta.duplicates),
                )
            )
        files = [file for delta in found for file in delta.files]
        return SourceDelta(
            files=tuple(sorted(files, key=lambda file: (file.position, file.path))),
            duplicates=tuple(file for delta in found for file in delta.duplicates),
            deferred=tuple(one for delta in found for one in delta.deferred),
            known=sum(delta.known for delta in found),
            again=sum(delta.again for delta in found),
            passed=tuple(one for delta in found for one in delta.passed),
            reorders=any(delta.reorders for delta in found),
            reordered_in=max(delta.reordered_in for delta in found),
            loads_again=tuple(path for delta in found for path in delta.loads_again),
        )

    def verify_landing(self, folder: Path, taken: Collection[str], new: Collection[str]) -> None:
        """Let each shard tell whether its landing files go on where those end that bronze has."""
        for name, shard in self.shards.items():
            if isinstance(shard, VerifiesLanding):
                is_own = self._is_own(name, folder)
                with of_shard(name):
                    shard.verify_landing(folder, [*filter(is_own, taken)], [*filter(is_own, new)])

    def _ledger_of(self, name: str, folder: Path, ledger: Ledger) -> Ledger:
        """Return what bronze knows of the files in a shard's folders."""
        is_own = self._is_own(name, folder)
        return Ledger(
            files={path: file for path, file in ledger.files.items() if is_own(path)},
            places={path: place for path, place in ledger.places.items() if is_own(path)},
            again=[one for one in ledger.again if is_own(one[0])],
        )

    def _is_own(self, name: str, folder: Path) -> Callable[[str], bool]:
        """Return what tells whether a path, as bronze has it, is in one of a shard's folders."""
        places = []
        for path in self.tables[name].source.places(self.tables[name].name):
            place = locate(fixed_part(path), setting=f"shard {name}", folder=folder)
            address = whole_address(place.uri) if place.path is None else f"{place.path}"
            places.append(stored_path(address, folder))
        return lambda path: any(path == place or path.startswith(f"{place.rstrip('/')}/") for place in places)

    def columns(self, files: Sequence[NewFile], existing: Sequence[str]) -> tuple[str, ...]:
        """Return bronze's columns; the shard column comes first."""
        found = tuple(name for name in existing if name != self.column)
        for name, shard in self.shards.items():
            found = shard.columns([_bare(file) for file in files if _shard_of(file) == name], found)
        return tuple(existing) + tuple(name for name in (self.column, *found) if name not in existing)

    def named_fields(self, file: SourceFile) -> tuple[tuple[str, str], ...] | None:
        """Return the shard column, then the columns that a file names."""
        named = self.shards[_shard_of(file)].named_fields(_bare(file))
        return ((self.column, "string"), *named) if named else named

    def known_fields(self, existing: Mapping[str, str], named: Sequence[Sequence[tuple[str, str]]]) -> dict[str, str]:
        """Return bronze's columns with their types after some files are taken."""
        held = {name: kind for name, kind in existing.items() if name != self.column}
        others = [[field for field in fields if field[0] != self.column] for fields in named]
        found = self._first.known_fields(held, others)
        if self.column in existing:
            return {**existing, **found}
        return {self.column: "string", **found} if found else {}

    def read(self, file: NewFile, columns: Sequence[str], **limits: int) -> FileRecords:
        """Open a file that is not broken; each record gets the name of the shard.

        Args:
            file: file from :meth:`find_new`.
            columns: bronze's columns.
            limits: ``block_bytes`` and ``record_bytes`` of the format, for tests.
        """
        name = _shard_of(file)
        others = [column for column in columns if column != self.column]
        opened = self.shards[name].read(_bare(file), others, **limits)
        return replace(
            opened,
            reader=Changed(opened.reader, lambda parsed: _in_shard(parsed, self.column, name)),
            known=None if opened.known is None else [self.column, *opened.known],
        )

    def recount(self, uri: str) -> int:
        """Count the records of a file; all shards have one format."""
        return self._first.recount(uri)

    def meaning(self, fields: Mapping[str, str], position: str) -> RecordMeaning:
        """Return the meaning of records; a change never moves a row to another shard."""
        # Positions of different shards do not compare.
        meaning = replace(self._first.meaning(fields, position), snapshot=None)
        shard = fields.get(self.column.lower())
        if not meaning.old_keys or shard is None:
            return replace(meaning, old_keys={})
        return replace(meaning, old_keys={self.column: quote(shard), **meaning.old_keys})

    def advice(self, named: Sequence[Sequence[tuple[str, str]]]) -> str | None:
        """Return a likely mistake in the settings of the shards; None without a guess."""
        return self._first.advice([[field for field in fields if field[0] != self.column] for fields in named])

    def reading(self) -> dict[str, Any]:
        """Return the settings that determine the records: those of the first shard, with the places of all shards."""
        own = {name: value for name, value in self._first.reading().items() if name != "table"}
        places = _places(self.table.source)
        # A place never becomes one of another shard: its files and rows have the old name.
        shards = {_place_of(one.source): name for name, one in self.tables.items()}
        return {**own, "path": places, "shard_column": self.column, "shards": shards}


@dataclass(frozen=True, slots=True)
class ShardCapture:
    """The capture of some shards; its errors name them."""

    inner: Capture
    shards: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return the name of the capture with its shards."""
        return f"{self.inner.name} ({_named(self.shards)})"

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the names of the declared tables."""
        return self.inner.tables

    def land(self, folder: Path, progress: Callable[[str], None]) -> Landed:
        """Land the changes that the server has now."""
        with of_shard(*self.shards):
            return self.inner.land(folder, lambda how_far: progress(f"{_named(self.shards)}: {how_far}"))

    def behind(self, folder: Path) -> Lag | None:
        """Return the distance between the landing files and the server."""
        with of_shard(*self.shards):
            return self.inner.behind(folder)

    def reload(self, folder: Path, names: Collection[str], progress: Callable[[str], None]) -> Landed:
        """Land all rows of some tables of these shards again.

        Args:
            folder: folder of the declaration.
            names: names of the declared tables.
            progress: callback that receives texts about the progress.
        """
        with of_shard(*self.shards):
            return reload_capture(
                self.inner, folder, names, lambda how_far: progress(f"{_named(self.shards)}: {how_far}")
            )

    def begins(self, folder: Path) -> Path | None:
        """Return the landing folder while nothing is landed in it."""
        return self.inner.begins(folder) if isinstance(self.inner, BeginsOnce) else None

    def lost(self, folder: Path, taken: Mapping[str, Collection[str]]) -> FrazilError | None:
        """Return why no turn may begin; files of other shards say nothing of these."""
        if not isinstance(self.inner, BeginsOnce) or (landing := self.inner.begins(folder)) is None:
            return None
        return self.inner.lost(folder, _below(landing, folder, taken))

    def remember(self, folder: Path, taken: Mapping[str, Collection[str]]) -> None:
        """Note in an empty landing folder what the lake has of these shards."""
        if isinstance(self.inner, BeginsOnce) and (landing := self.inner.begins(folder)) is not None:
            self.inner.remember(folder, _below(landing, folder, taken))

    def examine(self, folder: Path) -> Iterator[Looked]:
        """Check the server."""
        with of_shard(*self.shards):
            yield from self.inner.examine(folder)


def _below(landing: Path, folder: Path, taken: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Return those of the paths that bronze has that are in a landing folder."""
    place = f"{stored_path(f'{landing}', folder)}/"
    return {table: [path for path in paths if path.startswith(place)] for table, paths in taken.items()}


def _in_shard(parsed: Parsed, column: str, name: str) -> Parsed:
    """Add the column with the shard's name."""
    known = parsed.known
    if known is not None:
        lists = [None if names is None else [column, *names] for names in known.to_pylist()]
        known = pa.array(lists, pa.list_(pa.string()))
    shard = pa.repeat(pa.scalar(name, pa.string()), len(parsed.rows))
    return replace(parsed, fields={column: shard, **parsed.fields}, known=known)


@contextmanager
def of_shard(*names: str) -> Iterator[None]:
    """Prefix the messages of errors with the names of the shards."""
    try:
        yield
    except FrazilError as error:
        error.message = f"{_named(names)}: {error.message}"
        raise


def _places(source: Any) -> list[str]:
    return [path for paths in source.locations.values() for path in paths]


def _place_of(source: Any) -> str:
    """Return the places and the table of a shard as one text; shards of one database may share a place."""
    return " ".join((*_places(source), getattr(source, "table", None) or "")).strip()


def _named(shards: Sequence[str]) -> str:
    return f"{'shard' if len(shards) == 1 else 'shards'} {', '.join(shards)}"


def _marked(file: Any, shard: str) -> Any:
    return replace(file, variant=f"{shard}\n{file.variant}")


def _shard_of(file: SourceFile) -> str:
    return file.variant.partition("\n")[0]


def _bare(file: Any) -> Any:
    return replace(file, variant=file.variant.partition("\n")[2])


@contextmanager
def sharded_rows(
    pipeline: Pipeline, table: Table, opener: Callable[[Pipeline, Table], AbstractContextManager[SourceRows]]
) -> Iterator[SourceRows]:
    """Open the current rows of all shards.

    Args:
        pipeline: declared pipeline.
        table: declared table with shards.
        opener: function that opens the rows of one shard.
    """
    with ExitStack() as opened:
        shards = {}
        for name, one in shard_tables(table).items():
            with of_shard(name):
                shards[name] = opened.enter_context(opener(pipeline, one))
        yield ShardedRows(table.source.column, shards)


@dataclass(frozen=True, slots=True)
class ShardedRows:
    """The rows of all shards: a :class:`frazil.sources.comparison.SourceRows`.

    Each shard is read at its own moment, because no transaction spans several servers.

    Attributes:
        column: name of the shard column.
        shards: name of a shard -> its rows.
    """

    column: str
    shards: Mapping[str, SourceRows]

    @property
    def name(self) -> str:
        """Return the names of the shards and their rows."""
        return "; ".join(f"shard {name}: {rows.name}" for name, rows in self.shards.items())

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the shard column and the columns that all shards have."""
        first, *others = self.shards.values()
        everywhere = [{name.lower() for name in rows.columns} for rows in others]
        return (self.column, *(name for name in first.columns if all(name.lower() in some for some in everywhere)))

    def forms(self, types: Mapping[str, str]) -> dict[str, str]:
        """Return the forms of the columns that have one form in all shards."""
        others = {name: kind for name, kind in types.items() if not self._is_shard(name)}
        each = [rows.forms(others) for rows in self.shards.values()]
        alike = {name: form for name, form in each[0].items() if all(found.get(name) == form for found in each)}
        return {name: "text" for name in types if self._is_shard(name)} | alike

    def sums(self, keys: Sequence[Compared], columns: Sequence[Compared]) -> Sums:
        """Count the rows of each bucket and sum the hashes of their columns."""
        found: dict[str, tuple[int, int]] = {}
        for name, rows in self.shards.items():
            with of_shard(name):
                for bucket, (count, total) in rows.sums(self._of(name, keys), self._of(name, columns)).items():
                    before, sum_before = found.get(bucket, (0, 0))
                    found[bucket] = (before + count, sum_before + total)
        return found

    def digests(
        self, keys: Sequence[Compared], columns: Sequence[Compared], buckets: Sequence[str]
    ) -> Iterator[list[tuple[str, int]]]:
        """Yield keys and hashes of the rows in some buckets.

        Args:
            keys: key columns.
            columns: columns to hash.
            buckets: buckets to read.
        """
        for name, rows in self.shards.items():
            with of_shard(name):
                yield from rows.digests(self._of(name, keys), self._of(name, columns), buckets)

    def values(
        self, keys: Sequence[Compared], columns: Sequence[Compared], texts: Sequence[str]
    ) -> dict[str, tuple[str | None, ...]]:
        """Return the values of the rows with some keys.

        Args:
            keys: key columns.
            columns: columns whose values are returned.
            texts: texts of the wanted keys.
        """
        found: dict[str, tuple[str | None, ...]] = {}
        for name, rows in self.shards.items():
            with of_shard(name):
                found |= rows.values(self._of(name, keys), self._of(name, columns), texts)
        return found

    def uncaptured(self, into: Path) -> str | None:
        """Write the uncaptured changes to the places of :meth:`frazil.spec.model.kinds.sharded.Sharded.landed_in`."""
        for number, (name, rows) in enumerate(self.shards.items()):
            with of_shard(name):
                if why := rows.uncaptured(into / f"{number}"):
                    return f"shard {name}: {why}"
        return None

    def _is_shard(self, name: str) -> bool:
        return name.lower() == self.column.lower()

    def _of(self, shard: str, columns: Sequence[Compared]) -> list[Compared]:
        return [replace(column, value=shard) if self._is_shard(column.name) else column for column in columns]
