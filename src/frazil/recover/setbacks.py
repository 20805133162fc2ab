"""The tables whose registered version in the catalog must change."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from frazil.catalog.catalogs import NoLakeError, catalog_reader
from frazil.catalog.trouble import CatalogError
from frazil.catalog.warehouse import is_torn, newest_version, read_version, table_folders, whole_version
from frazil.errors import DeclarationError
from frazil.iceberg.files import damage_of
from frazil.iceberg.metadata import DamagedTableError, local_path
from frazil.iceberg.snapshot import time_ahead
from frazil.silver.baseline import BASELINE, baseline_of
from frazil.spec import EmbeddedCatalog
from frazil.spec.location import warehouse
from frazil.spec.tables import ERASED, erased_table, gold_table, source_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from frazil.catalog.warehouse import Version
    from frazil.spec import Pipeline, Table
    from frazil.spec.tables import LakeTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Setback:
    """Planned repair of one table in the catalog.

    Attributes:
        key: namespace and name.
        folder: folder of the table.
        version: version to register; None if no version is complete, and the folder is moved aside.
        is_known: the catalog has a table of that name now.
        is_back: the table goes back to an older version than the registered one, or to none.
        is_view: it is the live view of a mart.
        is_ahead: its commits lie in the future of this machine's clock: they are to get the present time.
    """

    key: tuple[str, str]
    folder: Path
    version: Version | None
    is_known: bool
    is_back: bool
    is_view: bool = False
    is_ahead: bool = False

    @property
    def full_name(self) -> str:
        """Namespace and name as one text, such as ``marts.orders``."""
        return ".".join(self.key)

    @property
    def batch(self) -> int:
        """Batch of the table after the repair; 0 without a version."""
        return self.version.batch if self.version else 0


@dataclass(slots=True, kw_only=True)
class _Stand:
    """A table with its registered metadata file and the version to register.

    ``number`` is the number of the registered version, -1 without one. ``wanted`` is None without a complete version.
    """

    folder: Path
    named: Path | None
    number: int
    wanted: Version | None

    def step_back(self, accepts: Callable[[Version], bool]) -> None:
        """Replace the version by the newest accepted one, unless it is accepted itself."""
        if self.wanted is not None and not accepts(self.wanted):
            self.wanted = whole_version(self.folder, accepts)


def setbacks(pipeline: Pipeline) -> list[Setback]:
    """Return the tables whose registered version must change; an empty list if the catalog is correct.

    The right version of a table is its newest complete one. It is newer than the registered version if the catalog was
    lost or restored from a backup, and older if files of the registered version are missing. Tables made from bronze
    are never ahead of bronze. A table whose commits lie in the future stays, and gets other times. Changes nothing.

    Raises:
        DeclarationError: the warehouse is not on this machine's disk.
        DamagedTableError: the hashes of erased keys, or a baseline, are lost.
        CatalogError, CatalogClientError: the catalog does not answer; a damaged embedded catalog counts as empty.

    Cost: reads the manifests of every table, and checks that each data file exists without opening it.
    """
    folder = warehouse(pipeline).path
    if folder is None:
        raise DeclarationError(
            f"lake.warehouse: {pipeline.lake.warehouse} is not on this machine's disk",
            hint="register its tables with Iceberg's procedure register_table",
        )
    located = _located(pipeline)
    stands = {key: stand for key, place in table_folders(folder) if (stand := _stand(place, located.get(key)))}
    for table in pipeline.tables:
        _fit(pipeline, table, stands)
    for gold in pipeline.gold:
        if (stand := stands.get(gold_table(pipeline, gold).key)) is not None:
            stand.step_back(partial(_has_inputs, reached=_reached(pipeline, stands)))
    bronze = {source_tables(pipeline, table).bronze.key for table in pipeline.tables}
    return [*_setbacks(stands, bronze), *_torn_views(pipeline, folder)]


def _torn_views(pipeline: Pipeline, warehouse: Path) -> Iterator[Setback]:
    """Yield unreadable views; only an embedded catalog supports dropping them."""
    for table in pipeline.tables if isinstance(pipeline.lake.catalog, EmbeddedCatalog) else ():
        for view in source_tables(pipeline, table).views:
            folder = warehouse.joinpath(*view.key)
            if is_torn(folder):
                yield Setback(key=view.key, folder=folder, version=None, is_known=True, is_back=True, is_view=True)


def _located(pipeline: Pipeline) -> Mapping[tuple[str, str], str]:
    try:
        return catalog_reader(pipeline).tables()
    except NoLakeError:
        return {}
    except CatalogError:
        if isinstance(pipeline.lake.catalog, EmbeddedCatalog):
            return {}
        raise


def _stand(folder: Path, location: str | None) -> _Stand | None:
    """Return a table's versions; None for a view, and for a folder that its registered table does not use."""
    named = None if location is None else local_path(location)
    if location is not None and (named is None or named.resolve().parent != (folder / "metadata").resolve()):
        return None
    newest = newest_version(folder)
    if named is None and (newest is None or newest.is_view):
        return None
    known, wanted = None if named is None else read_version(named), whole_version(folder)
    if known is not None and damage_of(known.metadata) is None and (wanted is None or wanted.number <= known.number):
        wanted = known
    return _Stand(folder=folder, named=named, number=known.number if known else -1, wanted=wanted)


def _fit(pipeline: Pipeline, table: Table, stands: Mapping[tuple[str, str], _Stand]) -> None:
    """Step silver, quarantine and marts back so that they are not ahead of bronze."""
    made = source_tables(pipeline, table)
    bronze = stands.get(made.bronze.key)
    if bronze is None:
        return
    batch = bronze.wanted.batch if bronze.wanted else 0
    folded = bronze.wanted.bookmark.get(BASELINE, "") if bronze.wanted else ""
    for one in (made.changes, made.quarantine, *made.marts):
        if (stand := stands.get(one.key)) is not None:
            stand.step_back(partial(_is_level, batch=batch, folded=folded if one is made.changes else ""))
    are_erased = bronze.wanted is not None and bool(bronze.wanted.bookmark.get(ERASED))
    for one, is_needed in ((made.changes, bool(folded)), (erased_table(pipeline, table), are_erased)):
        stand = stands.get(one.key)
        if is_needed and stand is not None and stand.wanted is None:
            raise _lost_table_error(one, stand)


def _is_level(version: Version, *, batch: int, folded: str) -> bool:
    """Return whether a version is not ahead of bronze, and has the baseline of records that bronze has folded."""
    baseline = baseline_of(version.bookmark)
    return version.batch <= batch and (not folded or (baseline is not None and baseline.reaches >= folded))


def _lost_table_error(table: LakeTable, stand: _Stand) -> DamagedTableError:
    return DamagedTableError(f"{stand.folder}/metadata/{table.name}.metadata.json", "has no version that is whole")


def _reached(pipeline: Pipeline, stands: Mapping[tuple[str, str], _Stand]) -> dict[str, int]:
    """Return the batch of each mart's bronze table."""
    reached: dict[str, int] = {}
    for table in pipeline.tables:
        bronze = stands.get(source_tables(pipeline, table).bronze.key)
        batch = bronze.wanted.batch if bronze is not None and bronze.wanted is not None else 0
        reached |= {table.mart_name(mart): batch for mart in table.marts}
    return reached


def _has_inputs(version: Version, *, reached: Mapping[str, int]) -> bool:
    """Return whether all batches that an aggregate was computed from still exist."""
    inputs: Mapping[str, int] = version.bookmark.get("inputs", {})
    return all(batch <= reached.get(mart, batch) for mart, batch in inputs.items())


def _setbacks(stands: Mapping[tuple[str, str], _Stand], bronze: set[tuple[str, str]]) -> Iterator[Setback]:
    for key, stand in stands.items():
        wanted, named = stand.wanted, stand.named
        if wanted is None:
            # An unregistered folder is harmless, except for bronze: a run would report a lost table.
            if named is not None or key in bronze:
                yield Setback(key=key, folder=stand.folder, version=None, is_known=named is not None, is_back=True)
            continue
        is_named = named is not None and named.resolve() == wanted.path.resolve()
        is_ahead = bool(time_ahead(wanted.metadata))
        if not is_named or is_ahead:
            yield Setback(
                key=key,
                folder=stand.folder,
                version=wanted,
                is_known=named is not None,
                is_back=named is not None and not is_named and not wanted.number > stand.number >= 0,
                is_ahead=is_ahead,
            )
