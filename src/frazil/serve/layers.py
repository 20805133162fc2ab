"""The tables of one source table: bronze, silver, quarantine and marts, with the contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from frazil.catalog.catalogs import NoLakeError
from frazil.duck import scan
from frazil.errors import StorageError
from frazil.iceberg.metadata import NotOnThisMachineError
from frazil.iceberg.snapshot import TableSnapshot, verify_bookmark
from frazil.plan.alterations import AlteredTableError, altered_tables, said_of
from frazil.plan.layout import BRONZE
from frazil.serve.tables import read_snapshot
from frazil.silver.contract import retyped_fields, settle
from frazil.silver.evolution import evolved, renamed_bookmark
from frazil.spec.amount import counted
from frazil.spec.tables import erased_table, source_tables
from frazil.storage.store_client import ObjectStoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.catalog.catalogs import Located
    from frazil.silver.contract import Contract
    from frazil.spec import Current, History, Pipeline, Table
    from frazil.spec.tables import LakeTable


_TIMES: Final = ("timestamp", "timestamp_ntz", "date")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One table of the lake.

    Attributes:
        name: namespace and name.
        location: address of its newest metadata file; None if the table does not exist.
        snapshot: its newest snapshot; empty if its metadata cannot be read.
        damage: why its metadata cannot be read, or None.
    """

    name: str
    location: str | None
    snapshot: TableSnapshot
    damage: StorageError | None = None

    @property
    def exists(self) -> bool:
        """Whether the table exists."""
        return self.location is not None

    @property
    def rows(self) -> str:
        """The FROM clause that reads its rows.

        Raises:
            StorageError: the table does not exist, or its metadata cannot be read.
        """
        if self.location is None:
            raise NoLakeError(self.name)
        if self.damage is not None:
            raise self.damage
        return scan(self.location)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """The tables of one source table at one moment.

    Attributes:
        table: the declaration.
        marts: marts in the order of the declaration.
        contract: the contract that silver was written with.
        columns: the contract's columns that silver has, in table order.
        event_times: columns with the event time, of which the first that is not NULL counts; may be empty.
        fields: name of the source field in lower case -> bronze's column.
        erased: address of the metadata of the table's erased keys; None if no key was ever erased.
    """

    table: Table
    bronze: Layer
    changes: Layer
    quarantine: Layer
    marts: tuple[tuple[Current | History, Layer], ...]
    contract: Contract
    columns: tuple[str, ...]
    event_times: tuple[str, ...]
    fields: Mapping[str, str]
    erased: str | None = None

    @property
    def of_marts(self) -> tuple[Layer, ...]:
        """The tables of the marts, whether they exist or not."""
        return tuple(layer for _, layer in self.marts)

    @property
    def all(self) -> tuple[Layer, ...]:
        """All existing tables, in the order of the data."""
        every = (self.bronze, self.changes, self.quarantine, *self.of_marts)
        return tuple(layer for layer in every if layer.exists)

    @property
    def retyped(self) -> list[str]:
        """Why records wait in quarantine for columns of another type, with the ways out."""
        return retyped_fields(self.table, self.contract, self.changes.snapshot.bookmark)

    def columns_in(self, mart: Layer) -> tuple[str, ...]:
        """The contract's columns that a mart has; a mart that is behind may lack the newest."""
        return tuple(name for name in self.columns if name in mart.snapshot.columns)

    def tracked(self, mart: History) -> tuple[str, ...]:
        """Columns whose change opens a new version."""
        if mart.track_history_columns is not None:
            return mart.track_history_columns
        if mart.track_history_except_columns is not None:
            untracked = {*self.table.keys, *mart.track_history_except_columns}
        else:
            untracked = {*self.table.keys, *self.table.sequence_by, *self.event_times[:1]}
        return tuple(name for name in self.columns if name not in untracked)


def layers(pipeline: Pipeline, table: Table, located: Located) -> Layers:
    """Find the tables of one source table, and read their newest snapshots.

    A table whose metadata cannot be read has its error as ``damage``.

    Raises:
        NotOnThisMachineError: no client for the lake's address is installed.
        ObjectStoreError: the object store refuses requests, or does not answer.
        SchemaError: the declaration does not fit the fields of the files.
        BookmarkLostError: bronze has no bookmark, so its batches are unknown.
    """

    def layer(made: LakeTable) -> Layer:
        location, name = located.get(made.key), made.full_name
        try:
            return Layer(name=name, location=location, snapshot=read_snapshot(location))
        except (NotOnThisMachineError, ObjectStoreError):
            raise
        except StorageError as error:
            return Layer(name=name, location=location, snapshot=TableSnapshot(), damage=error)

    own = source_tables(pipeline, table)
    bronze, changes = layer(own.bronze), layer(own.changes)
    verify_bookmark(bronze.name, bronze.snapshot, table=table.name, is_bronze=True)
    fields = dict(bronze.snapshot.bookmark.get("fields", {}))
    known = renamed_bookmark(table, bronze.snapshot.bookmark)
    contract = settle(table, known.get("fields", {}), evolved(table, known, changes.snapshot.bookmark))
    types = {column.name: column.type for column in contract.columns}
    in_sequence = [name for name in contract.sequence_by if types.get(name) in _TIMES]
    times = ([contract.event_time] if contract.event_time else []) + in_sequence[:1]
    return Layers(
        table=table,
        bronze=bronze,
        changes=changes,
        contract=contract,
        quarantine=layer(own.quarantine),
        marts=tuple((mart, layer(made)) for mart, made in zip(table.marts, own.marts, strict=True)),
        columns=tuple(name for name in contract.names if name in changes.snapshot.columns),
        event_times=tuple(dict.fromkeys(times)),
        fields={name.lower(): name for name in fields},
        erased=located.get(erased_table(pipeline, table).key),
    )


def verify_foreign(table: Table, name: str, found: TableSnapshot, *, is_bronze: bool) -> None:
    """Refuse a table without a bookmark, or with columns that another engine renamed or dropped.

    Args:
        table: the declared source table.
        name: name of the table in the lake, with the namespace.
        found: its newest snapshot.
        is_bronze: whether the table is bronze.

    Raises:
        BookmarkLostError: the table has no bookmark, so its batches are unknown.
        AlteredTableError: columns were renamed or dropped.
    """
    verify_bookmark(name, found, table=table.name, is_bronze=is_bronze)
    for why in altered_tables(table, {BRONZE if is_bronze else name: found.altered}).values():
        raise AlteredTableError(f"{name}: {why}", hint="frazil run rebuilds it")


def verify_gold(made: LakeTable, found: TableSnapshot) -> None:
    """Refuse an aggregate without a bookmark, or whose columns or rows another engine changed.

    Args:
        made: the aggregate.
        found: its newest snapshot.

    Raises:
        BookmarkLostError: it has rows, and no snapshot says which batches they are made of.
        AlteredTableError: columns were renamed or dropped, or rows were written.
    """
    verify_bookmark(made.full_name, found, table=made.name)
    if found.altered:
        raise AlteredTableError(f"{made.full_name}: {said_of(found.altered)}", hint="frazil run computes it again")
    if found.foreign:
        commits = counted(found.foreign, "commit")
        raise AlteredTableError(
            f"{made.full_name}: another engine changed its rows, in {commits} since its last refresh",
            hint=f"frazil run --full-refresh --select {made.name} computes it again, and so does the next refresh",
        )
