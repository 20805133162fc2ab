"""Check the machine and everything a pipeline needs, before a run fails on it.

The checks start no Java, change nothing and take a few seconds, mostly for hosts that do not answer. They write one
small object to the bucket of a lake, and remove it.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import socket
import sys
import time
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from frazil.catalog.catalogs import CLIENTS_HINT, EmbeddedReader, Located, NoLakeError, catalog_reader, missing_client
from frazil.catalog.conf import PREFIX, catalog_conf, lake_access, lake_address
from frazil.catalog.store_check import look_at_store
from frazil.catalog.trouble import CatalogError, as_frazil_error
from frazil.catalog.warehouse import read_version, verify_catalog
from frazil.duck import taken_files
from frazil.errors import FrazilError, SparkMissingError
from frazil.host import cache_folder, default_heap_mib, free_memory_bytes, total_memory_bytes, usable_cores
from frazil.iceberg.files import damage_of
from frazil.iceberg.metadata import DamagedTableError, local_path, read_metadata
from frazil.iceberg.snapshot import time_ahead
from frazil.sources.capture import Answers
from frazil.sources.kinds import captures_of, landing_problem, source_of
from frazil.spark.jars import default_jars, is_ready, jar_folder, jars_for
from frazil.spark.java import find_java
from frazil.spec import EmbeddedCatalog
from frazil.spec.amount import counted
from frazil.spec.check.composed import changes_table, shard_tables
from frazil.spec.location import embedded_catalog, locate, warehouse
from frazil.spec.model.stores import is_store, store_access
from frazil.spec.tables import lake_tables, source_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frazil.sources.capture import Capture, Looked
    from frazil.spec import Pipeline, Table

_LITTLE_DISK_BYTES: Final = 2 * 2**30
_NO_DISK_BYTES: Final = 100 * 2**20
_REPAIR: Final = "restore the file from a backup; or make it again from the warehouse: frazil doctor --repair"
_SQLITE_FILE: Final = "jdbc:sqlite:"
_ANSWER_SECONDS: Final = 3.0
_SERVER_SECONDS: Final = 10.0
_RELEASED: Final = 1_790_000_000
"""Seconds since 1970 of a day before this version was made: a clock that shows an earlier one is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Result of one check.

    Attributes:
        what: name of the check, one or two words.
        ok: True if it passed; False if a run will fail; None if a run may fail, or if the check cannot decide.
        detail: facts that the check found.
        hint: what the user can do; None if no action is needed.
    """

    what: str
    ok: bool | None
    detail: str
    hint: str | None = None


def diagnose(pipeline: Pipeline | None) -> list[Diagnosis]:
    """Examine the machine and, with a pipeline, its warehouse, catalog and sources.

    A failed check becomes a result and raises nothing. Secrets are resolved to prove that they exist; results do not
    contain them.
    """
    found = [*_machine(), *_jars(pipeline)]
    if pipeline is not None:
        found += [*_warehouse(pipeline), *_catalog(pipeline), *_commit_times(pipeline)]
        captures = captures_of(pipeline, [table.name for table in pipeline.tables])
        answers = Answers(captures, lambda one: [*one.examine(pipeline.folder)], _SERVER_SECONDS)
        found += [finding for table in pipeline.tables for finding in _landing(pipeline, table)]
        found += _lost_landings(pipeline, captures)
        found += [finding for number in range(len(captures)) for finding in _server(pipeline, answers, number)]
    return found


def _machine() -> Iterator[Diagnosis]:
    yield Diagnosis(
        what="python",
        ok=sys.version_info >= (3, 11),
        detail=f"{platform.python_version()} on {platform.system()}",
    )
    try:
        java = find_java()
        yield Diagnosis(what="java", ok=True, detail=f"{java.version} ({java.source})")
    except FrazilError as error:
        yield Diagnosis(what="java", ok=False, detail=error.message, hint=error.hint)
    for name in ("frazil", "pyspark", "pyarrow", "duckdb"):
        try:
            yield Diagnosis(what=name, ok=True, detail=importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            if name == "pyspark" and importlib.util.find_spec(name) is None:
                missing = SparkMissingError()
                yield Diagnosis(what=name, ok=None, detail=missing.message, hint=missing.hint)
            else:
                yield Diagnosis(what=name, ok=None, detail="not installed as a package")
    heap_mib = default_heap_mib()
    total_mib, free = total_memory_bytes() // 2**20, free_memory_bytes()
    enough = None if free is None else free // 2**20 > heap_mib
    yield Diagnosis(
        what="memory",
        ok=enough or None,
        detail=f"{total_mib} MiB, {'unknown' if free is None else free // 2**20} MiB free, "
        f"{usable_cores()} cores; Java takes up to {os.environ.get('FRAZIL_DRIVER_MEMORY', f'{heap_mib}m')}",
        hint=None if enough else "close other programs, or set FRAZIL_DRIVER_MEMORY to less",
    )
    sane = time.time() > _RELEASED
    yield Diagnosis(
        what="clock",
        ok=sane,
        detail=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        hint=None if sane else "set the clock: arrival times and snapshots would be wrong",
    )


def _jars(pipeline: Pipeline | None) -> Iterator[Diagnosis]:
    try:
        jars = default_jars() if pipeline is None else jars_for(pipeline)
    except SparkMissingError:
        jars = ()
    except FrazilError:  # the finding on the warehouse says why
        jars = default_jars()
    for jar in jars:
        path = jar_folder() / jar.file_name
        if is_ready(jar):
            yield Diagnosis(what="jar", ok=True, detail=jar.file_name)
        else:
            state = "has other content than the pinned one" if path.exists() else "is not here yet"
            yield Diagnosis(what="jar", ok=None, detail=f"{jar.file_name} {state}", hint="the next run fetches it")
    folder = _nearest(cache_folder())
    writable = os.access(folder, os.W_OK)
    yield Diagnosis(
        what="cache",
        ok=writable or None,
        detail=f"{cache_folder()}{'' if writable else ' cannot be written'}",
        hint=None if writable else "set FRAZIL_CACHE to a folder that can be",
    )


def _warehouse(pipeline: Pipeline) -> Iterator[Diagnosis]:
    try:
        place = warehouse(pipeline)
        folder = place.path
    except FrazilError as error:
        yield Diagnosis(what="warehouse", ok=False, detail=error.message, hint=error.hint)
        return
    if folder is None:
        yield from _store(pipeline, "warehouse", place.uri)
        return
    nearest = _nearest(folder)
    writable = nearest.is_dir() and os.access(nearest, os.W_OK)
    yield Diagnosis(
        what="warehouse",
        ok=writable,
        detail=f"{folder}{'' if folder.exists() else ' (made by the first run)'}",
        hint=None if writable else f"{nearest} cannot be written",
    )
    free = shutil.disk_usage(nearest).free
    roomy = free > _LITTLE_DISK_BYTES
    yield Diagnosis(
        what="disk",
        ok=roomy or (None if free > _NO_DISK_BYTES else False),
        detail=f"{free / 2**30:.1f} GiB free",
        hint=None if roomy else "make room first",
    )


def _catalog(pipeline: Pipeline) -> Iterator[Diagnosis]:
    try:
        settings = catalog_conf(pipeline)
    except FrazilError as error:
        yield Diagnosis(what="catalog", ok=False, detail=error.message, hint=error.hint)
        return
    if isinstance(pipeline.lake.catalog, EmbeddedCatalog):
        yield _sqlite(pipeline, embedded_catalog(pipeline))
        return
    if missing := missing_client(pipeline.lake.catalog):
        yield Diagnosis(what="catalog client", ok=None, detail=missing, hint=CLIENTS_HINT)
    kind, uri = pipeline.lake.catalog.type, settings.get(f"{PREFIX}.uri")
    if uri and uri.startswith(_SQLITE_FILE):
        yield _shared_sqlite(Path(uri.removeprefix(_SQLITE_FILE).partition("?")[0]))
        return
    address = _address(uri) if uri else None
    if address is None:
        yield Diagnosis(what="catalog", ok=None, detail=f"{kind}: no host and port to try")
        return
    host, port = address
    try:
        with socket.create_connection(address, timeout=_ANSWER_SECONDS):
            yield Diagnosis(what="catalog", ok=True, detail=f"{kind}: {host}:{port} answers; no login was tried")
    except OSError as error:
        yield Diagnosis(
            what="catalog",
            ok=False,
            detail=f"{kind}: {host}:{port} does not answer: {error.strerror or error}",
            hint="is it started, and reachable from here?",
        )


def _commit_times(pipeline: Pipeline) -> Iterator[Diagnosis]:
    """Find commits of a clock that was ahead: no other host can write before their time has come."""
    try:
        located = catalog_reader(pipeline).tables(of_others=False)
        own = [made for made in lake_tables(pipeline) if made.role != "view" and made.key in located]
        ahead = {made.full_name: time_ahead(read_metadata(lake_address(pipeline, located[made.key]))) for made in own}
    except (FrazilError, OSError, ValueError):
        return  # what is wrong with the catalog, or a table, is found by those who look at it
    wrong = {name: by for name, by in ahead.items() if by}
    if wrong:
        name = max(wrong, key=lambda one: wrong[one])
        among = "" if len(wrong) == 1 else f", and {len(wrong) - 1} more"
        yield Diagnosis(
            what="times of commits",
            ok=False,
            detail=f"{name}{among}: the newest commit is {wrong[name]} later than it is by this machine's clock",
            hint="set the clock right that is wrong; where it was another one, commits can be made when that time has "
            "come" + ("" if warehouse(pipeline).path is None else ", or at once after: frazil doctor --repair"),
        )


def _shared_sqlite(path: Path) -> Diagnosis:
    """Look at a SQLite file of a JDBC catalog, which other lakes may be in too."""
    there = path.exists()
    writable = os.access(path if there else path.parent, os.W_OK)
    return Diagnosis(
        what="catalog",
        ok=writable,
        detail=f"jdbc: {path}{'' if there else ' (made by the first run)'}",
        hint=None if writable else "its folder must be there, and both be writable",
    )


def _sqlite(pipeline: Pipeline, path: Path) -> Diagnosis:
    known: Located = {}
    try:
        with contextlib.suppress(NoLakeError):
            known = EmbeddedReader(path).tables()
    except CatalogError as error:
        return Diagnosis(what="catalog", ok=False, detail=error.message, hint=_REPAIR)
    try:
        for table in pipeline.tables:
            verify_catalog(pipeline, table, known.get(source_tables(pipeline, table).bronze.key))
    except FrazilError as error:
        return Diagnosis(what="catalog", ok=False, detail=error.message, hint=error.hint)
    for location in known.values():
        if damage := _damage(pipeline, local_path(location)):
            return Diagnosis(what="catalog", ok=False, detail=damage.message, hint=damage.hint)
    made = counted(len(known), "table") if path.exists() else "(made by the first run)"
    return Diagnosis(what="catalog", ok=True, detail=f"{path}: {made}" if path.exists() else f"{path} {made}")


def _damage(pipeline: Pipeline, file: Path | None) -> DamagedTableError | None:
    """Return the damage of a table by its metadata file; tables of other warehouses are skipped."""
    folder = warehouse(pipeline).path
    if folder is None or file is None or not file.is_relative_to(folder):
        return None
    version = read_version(file)
    found = DamagedTableError(f"{file}", "cannot be read") if version is None else damage_of(version.metadata)
    if found is not None:
        found.advise(pipeline)
    return found


def _lost_landings(pipeline: Pipeline, captures: Sequence[Capture]) -> Iterator[Diagnosis]:
    """Look whether the landing files of captured tables are those that the lake goes on from."""
    names = {name for capture in captures for name in capture.tables}
    if not names:
        return
    try:
        taken = taken_files(pipeline, names)
    except FrazilError:
        return  # what is wrong with the catalog, or a table, is found by those who look at it
    for table in pipeline.tables:
        if table.name not in names:
            continue
        try:
            landed = [file.path for file in source_of(table).list(pipeline.folder).files]
        except FrazilError:
            continue
        if (error := landing_problem(pipeline, table, taken.get(table.name, ()), landed)) is not None:
            detail = f"[{error.code}] {error.message}"
            yield Diagnosis(what=f"landing of {table.name}", ok=False, detail=detail, hint=error.hint)


def _server(pipeline: Pipeline, answers: Answers[list[Looked]], number: int) -> Iterator[Diagnosis]:
    what = answers.captures[number].name
    try:
        for looked in answers.of(number):
            yield Diagnosis(what=what, ok=looked.ok, detail=looked.detail, hint=looked.hint)
    except Exception as raised:  # noqa: BLE001 - whatever it is, it is found
        error = as_frazil_error(raised, pipeline)
        message = error.message.removeprefix(f"{what}: ")
        yield Diagnosis(what=what, ok=False, detail=f"[{error.code}] {message}", hint=error.hint)


def _landing(pipeline: Pipeline, table: Table) -> Iterator[Diagnosis]:
    changes = changes_table(table)
    parts = shard_tables(table).values() or ((table,) if changes is None else (changes,))
    captured = {place for part in parts for place in part.source.locations.get("landing", ())}
    for pattern in chain.from_iterable(table.source.locations.values()):
        what = f"source of {table.name}"
        try:
            declared = locate(pattern, setting="path", folder=pipeline.folder)
            given = declared.path
        except FrazilError as error:
            yield Diagnosis(what=what, ok=False, detail=error.message, hint=error.hint)
            continue
        if given is None:
            yield from _store(pipeline, what, declared.uri)
            continue
        fixed = re.split(r"[*?\[]", f"{given}", maxsplit=1)[0]
        # For a pattern, check the folder above its first wildcard.
        place = given if fixed == f"{given}" else Path(f"{fixed}x").parent
        if pattern in captured and not place.exists():
            yield Diagnosis(what=what, ok=True, detail=f"{place} (made by the first capture)")
        elif not place.exists():
            yield Diagnosis(what=what, ok=False, detail=f"{place} does not exist", hint="is the path right?")
        elif not os.access(place, os.R_OK):
            yield Diagnosis(what=what, ok=False, detail=f"{place} cannot be read", hint="check its permissions")
        else:
            yield Diagnosis(what=what, ok=True, detail=f"{given}")


def _store(pipeline: Pipeline, what: str, address: str) -> Iterator[Diagnosis]:
    if not is_store(address):
        yield Diagnosis(what=what, ok=None, detail=f"{address}: not on this machine, not looked at")
        return
    is_lake = what == "warehouse"
    try:
        reached = store_access(address, pipeline.stores, pipeline.folder)
        access = lake_access(pipeline, address) if is_lake else reached
        # The bucket of such a catalog may accept only its tables.
        for_tables = pipeline.lake.catalog.type in ("rest", "glue")
        for looked in look_at_store(access, address, is_written=is_lake, may_refuse=for_tables):
            yield Diagnosis(what=what, ok=looked.ok, detail=looked.detail, hint=looked.hint)
    except FrazilError as error:
        yield Diagnosis(what=what, ok=False, detail=error.message, hint=error.hint)


def _address(uri: str) -> tuple[str, int] | None:
    """Return host and port of a catalog's address, with the scheme's default port."""
    parts = urlsplit(uri.removeprefix("jdbc:"))
    usual = {"postgresql": 5432, "mysql": 3306, "http": 80, "https": 443, "thrift": 9083}
    try:
        port = parts.port or usual.get(parts.scheme)
    except ValueError:
        return None
    return (parts.hostname, port) if parts.hostname and port else None


def _nearest(folder: Path) -> Path:
    """Return the folder itself, or its nearest existing parent."""
    return next(place for place in (folder, *folder.parents) if place.exists())
