"""The rows of a table in shards as they are now: those of each shard at its own source."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from frazil.sources.sharded.source import of_shard
from frazil.spec.check.kinds.sharded import shard_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from frazil.sources.comparison import Compared, SourceRows, Sums
    from frazil.spec import Pipeline, Table


@contextmanager
def sharded_rows(
    pipeline: Pipeline, table: Table, opener: Callable[[Pipeline, Table], AbstractContextManager[SourceRows]]
) -> Iterator[SourceRows]:
    """Open the tables of all shards.

    Args:
        pipeline: the declaration.
        table: a table in shards.
        opener: opens the table of one of them.
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

    Each shard is of a moment of its own: no transaction spans several servers.

    Attributes:
        column: the column with the name of the shard.
        shards: name of a shard -> its rows.
    """

    column: str
    shards: Mapping[str, SourceRows]

    @property
    def name(self) -> str:
        """Return which shards they are."""
        return "; ".join(f"shard {name}: {rows.name}" for name, rows in self.shards.items())

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that all shards have, and that of the shard."""
        first, *others = self.shards.values()
        everywhere = [{name.lower() for name in rows.columns} for rows in others]
        return (self.column, *(name for name in first.columns if all(name.lower() in some for some in everywhere)))

    def forms(self, types: Mapping[str, str]) -> dict[str, str]:
        """Return the forms of the columns that all shards write alike."""
        others = {name: kind for name, kind in types.items() if not self._is_shard(name)}
        each = [rows.forms(others) for rows in self.shards.values()]
        alike = {name: form for name, form in each[0].items() if all(found.get(name) == form for found in each)}
        return {name: "text" for name in types if self._is_shard(name)} | alike

    def sums(self, keys: Sequence[Compared], columns: Sequence[Compared]) -> Sums:
        """Count the rows of each bucket and sum up the hashes of their columns."""
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
        """Yield keys and hashes of the rows in some buckets."""
        for name, rows in self.shards.items():
            with of_shard(name):
                yield from rows.digests(self._of(name, keys), self._of(name, columns), buckets)

    def values(
        self, keys: Sequence[Compared], columns: Sequence[Compared], texts: Sequence[str]
    ) -> dict[str, tuple[str | None, ...]]:
        """Return the values of the rows of some keys."""
        found: dict[str, tuple[str | None, ...]] = {}
        for name, rows in self.shards.items():
            with of_shard(name):
                found |= rows.values(self._of(name, keys), self._of(name, columns), texts)
        return found

    def uncaptured(self, into: Path) -> str | None:
        """Write what is not captured yet, as :meth:`frazil.spec.model.kinds.sharded.Sharded.landed_in` says where."""
        for number, (name, rows) in enumerate(self.shards.items()):
            with of_shard(name):
                if why := rows.uncaptured(into / f"{number}"):
                    return f"shard {name}: {why}"
        return None

    def _is_shard(self, name: str) -> bool:
        return name.lower() == self.column.lower()

    def _of(self, shard: str, columns: Sequence[Compared]) -> list[Compared]:
        return [replace(column, value=shard) if self._is_shard(column.name) else column for column in columns]
