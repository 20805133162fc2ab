"""``frazil check``: prove with DuckDB that the tables match their changes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, Protocol, Self

import duckdb

from frazil.catalog.catalogs import NoLakeError
from frazil.catalog.warehouse import verify_catalog
from frazil.duck import connect
from frazil.errors import FrazilError, HistoryChangedError, StorageError
from frazil.iceberg.metadata import NotOnThisMachineError, folder_addresses
from frazil.serve.check.bytes import byte_steps
from frazil.serve.check.changes import change_steps
from frazil.serve.check.files import file_steps
from frazil.serve.check.finding import Finding, Proof
from frazil.serve.check.marts import mart_steps
from frazil.serve.layers import layers, verify_foreign, verify_gold
from frazil.serve.tables import read_snapshot, tables, verify_data_files
from frazil.spec.sql.select import selected
from frazil.spec.tables import gold_table, source_tables
from frazil.storage.store_client import ObjectStoreError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from frazil.catalog.catalogs import Located
    from frazil.serve.check.finding import Step
    from frazil.serve.layers import Layer, Layers
    from frazil.spec import Pipeline, Table

__all__ = ["CheckListener", "Finding", "check"]

_LIMITS: Final = {
    "memory_limit": "1GB",
    "threads": f"{min(4, os.cpu_count() or 1)}",
    "enable_external_file_cache": "false",
}
"""DuckDB's settings: it spills to temporary files beyond this memory, and each proof reads the disk again."""


class CheckListener(Protocol):
    """Progress callbacks of a check. Called in order, in the caller's thread; must not raise."""

    def began(self, table: str, what: str) -> None:
        """Called when a proof of a declared table begins."""

    def progressed(self, table: str, how_far: str) -> None:
        """Called during a proof, with text such as ``40 %``."""

    def found(self, finding: Finding) -> None:
        """Called with each finding as soon as it is known."""


class Silent:
    """A listener that ignores all calls."""

    def began(self, table: str, what: str) -> None:
        del table, what

    def progressed(self, table: str, how_far: str) -> None:
        del table, how_far

    def found(self, finding: Finding) -> None:
        del finding


def check(pipeline: Pipeline, *, select: Sequence[str] = (), listener: CheckListener | None = None) -> list[Finding]:
    """Prove the laws on the tables in their current state.

    - ONCE: no path and no content was taken twice.
    - NOTHING-LOST: the records of every file, counted again at the source, are in bronze. Every record of bronze is
      either a change or in quarantine. Each file can be rebuilt from bronze to the byte.
    - KEYS: a full load has each key once, with at most one exception in a thousand.
    - LATE: no batch is mostly late.
    - ORDER: a current table has a key at most once.
    - HISTORY: versions begin before they end and do not overlap; ``is_current`` says whether one is open.
    - CONVERGE: each mart holds exactly what all changes up to its batch fold to.
    - AGREE: marts of a table at one batch show the same living rows.

    Of aggregates it looks only for columns and rows that another engine changed, and for a lost bookmark.

    A table whose files are missing or damaged fails its proof, and so does a declaration that does not fit its files.
    Proofs that need such a table are undecided; all others run.

    Args:
        pipeline: the declaration.
        select: tables to check, as for a run; empty for all.
        listener: receives each proof as it begins, and each finding.

    Returns:
        All findings, of proofs that hold as well, table by table.

    Raises:
        NoLakeError: no table of the lake exists.
        NotOnThisMachineError: there is no client for where the lake is.
        ObjectStoreError: its object store refuses requests, or does not answer.
        UnknownSelectionError: a word of ``select`` matches nothing.

    Cost: reads all files of the source and all tables once or a few times. DuckDB uses 1 GB of memory, and temporary
    files beyond it. CONVERGE and AGREE compare 64-bit hashes of rows, and the rows themselves where hashes differ; the
    other proofs are exact.
    """
    located = tables(pipeline)
    if not located:
        raise NoLakeError(pipeline.lake.warehouse)
    chosen = selected(pipeline, select)
    listener = listener or Silent()
    findings: list[Finding] = []
    with _Connection(located) as connection:
        for table in pipeline.tables:
            if table.name in chosen.tables:
                for finding in _findings(pipeline, table, located, connection, listener):
                    findings.append(finding)
                    listener.found(finding)
    for finding in _of_gold(pipeline, chosen.gold, located):
        findings.append(finding)
        listener.found(finding)
    return findings


def _of_gold(pipeline: Pipeline, names: Collection[str], located: Located) -> Iterator[Finding]:
    """Find the aggregates that another engine replaced, or whose columns or rows it changed."""
    for gold in pipeline.gold:
        made = gold_table(pipeline, gold)
        if gold.name not in names:
            continue
        try:
            verify_gold(made, read_snapshot(located.get(made.key)))
        except (HistoryChangedError, StorageError) as error:
            yield Finding(
                source_table=gold.name,
                law="CONVERGE",
                table=made.full_name,
                ok=False,
                detail=error.message,
                code=error.code,
                hint=error.hint,
            )


class _Connection:
    """DuckDB over the lake; it reconnects after an error that leaves the connection unusable."""

    def __init__(self, located: Located) -> None:
        self._located = located
        self.duck = connect(located, _LIMITS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.duck.close()

    def recover(self, proof: Proof) -> None:
        """Reconnect if the connection no longer works, so that the next proof can run."""
        try:
            self.duck.execute("SELECT 1")
        except duckdb.Error:
            self.duck.close()
            self.duck = proof.connection = connect(self._located, _LIMITS)
            proof.kept.clear()


def _findings(
    pipeline: Pipeline, table: Table, located: Located, connection: _Connection, listener: CheckListener
) -> Iterator[Finding]:
    listener.began(table.name, "look for its files")
    try:
        verify_catalog(pipeline, table, located.get(source_tables(pipeline, table).bronze.key))
        here = layers(pipeline, table, located)
    except (NotOnThisMachineError, ObjectStoreError):
        raise
    except FrazilError as error:
        yield Finding(
            source_table=table.name,
            law="CONVERGE",
            table=table.name,
            ok=False,
            detail=error.message,
            code=error.code,
            hint=error.hint,
        )
        return
    proof = Proof(
        pipeline=pipeline,
        here=here,
        connection=connection.duck,
        progressed=lambda how_far: listener.progressed(table.name, how_far),
    )
    lost = list(_lost_files(here))
    yield from lost
    damaged, failed = {finding.table for finding in lost}, {(finding.law, finding.table) for finding in lost}
    if not here.bronze.exists:
        others = [layer.name for layer in here.all]
        detail = f"it is gone, and {others[0]} is not" if others else "no such table yet"
        hint = "frazil run takes the files again" if others else None
        yield Finding(
            source_table=table.name,
            law="NOTHING-LOST",
            table=here.bronze.name,
            ok=False if others else None,
            detail=detail,
            hint=hint,
        )
        return
    for step in (*file_steps(proof), *byte_steps(proof), *change_steps(proof), *mart_steps(proof)):
        if (step.law, step.table) not in failed:
            listener.began(table.name, step.what)
            yield _proven(proof, step, damaged, connection)
    proof.forget()


def _lost_files(here: Layers) -> Iterator[Finding]:
    """Find the tables with missing or damaged files, by their manifests."""
    for layer in here.all:
        law = "CONVERGE" if layer in here.of_marts else "NOTHING-LOST"
        error = layer.damage
        try:
            if error is None and layer.location is not None:
                verify_data_files(layer.location)
                verify_foreign(here.table, layer.name, layer.snapshot, is_bronze=layer is here.bronze)
        except StorageError as found:
            error = found
        except HistoryChangedError as found:
            yield Finding(
                source_table=here.table.name,
                law=law,
                table=layer.name,
                ok=False,
                detail=found.message,
                code=found.code,
                hint=found.hint,
            )
        if error is not None:
            yield _failed(error, here, layer, law=law, table=layer.name)


def _proven(proof: Proof, step: Step, damaged: set[str], connection: _Connection) -> Finding:
    """Run one proof. An unreadable table fails it, and leaves the later proofs that need the table undecided."""
    ok: bool | None
    if broken := [layer.name for layer in step.needs if layer.name in damaged]:
        ok, detail = None, f"{' and '.join(broken)} cannot be read"
    else:
        try:
            ok, detail = step.prove()
        except (duckdb.Error, StorageError) as error:
            connection.recover(proof)
            layer = _culprit(error, step)
            if not isinstance(error, duckdb.OutOfMemoryException):
                damaged.add(layer.name)
            return _failed(error, proof.here, layer, law=step.law, table=step.table)
    return Finding(source_table=proof.here.table.name, law=step.law, table=step.table, ok=ok, detail=detail)


def _failed(error: Exception, here: Layers, layer: Layer, *, law: str, table: str) -> Finding:
    """Return the finding for an error that stopped a proof, with a hint."""
    why = error.message if isinstance(error, FrazilError) else f"{error}".strip().partition("\n")[0]
    detail = f"{layer.name} cannot be read: {why}"
    if isinstance(error, duckdb.OutOfMemoryException):
        detail, hint = f"not proven: {why}", "free space in the temporary folder, or check fewer tables with --select"
    elif layer.name == here.bronze.name:
        hint = "restore the file from a backup: bronze cannot be rebuilt"
    else:
        hint = f"frazil run --full-refresh --select {here.table.name}"
    code = error.code if isinstance(error, FrazilError) else StorageError.code
    return Finding(source_table=here.table.name, law=law, table=table, ok=False, detail=detail, code=code, hint=hint)


def _culprit(error: Exception, step: Step) -> Layer:
    """Return the table whose file an error names, or else the last table that the proof needs."""
    for layer in step.needs:
        if any(folder in f"{error}" for folder in folder_addresses(layer.location or "")[:1]):
            return layer
    return step.needs[-1]
