"""Erase subjects permanently from every layer of the lake: law ERASE."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from frazil.audit.certificates import Certifying
from frazil.erase.job import EraseJob
from frazil.erase.keys import EraseError
from frazil.erase.landed import changed_lines, landed_files
from frazil.erase.proof import prove
from frazil.erase.report import ErasedLayer, EraseReport, OccurrencesLeftError, write_receipt
from frazil.errors import FrazilError
from frazil.failpoints import failpoint
from frazil.lake.refs import refs_of, snapshots_of
from frazil.runner.batch.erased import find_erased
from frazil.runner.maintain import Purged, purge
from frazil.runner.sessions import interruptibly, table_session
from frazil.spark.gateway import hold
from frazil.spec.check.check import check_declaration
from frazil.spec.sql.names import quote
from frazil.spec.sql.select import source_table
from frazil.storage.files import address_of, storage_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from pyspark.sql import SparkSession

    from frazil.erase.report import Wanted
    from frazil.runner.table_run import TableRun
    from frazil.spec import Pipeline
    from frazil.spec.tables import LakeTable

FILES_SHOWN: Final = 1_000


def preview(pipeline: Pipeline, spark: SparkSession, wanted: Wanted) -> EraseReport:
    """Return what an erase would remove, without changing anything.

    Args:
        pipeline: the declaration.
        spark: a session with the lake.
        wanted: the subjects.

    Raises:
        EraseError: a key does not fit the table, keys and condition are missing, or it has no changes.
        SqlError: Spark refuses the condition.
        BusyError: another run holds the pipeline for more than a minute.
    """
    with _context(pipeline, spark, wanted) as context:
        return interruptibly(lambda: _preview(context, wanted), [context.spark])


def _preview(context: TableRun, wanted: Wanted) -> EraseReport:
    job = EraseJob(context)
    subjects = job.load_subjects(wanted)
    unfinished, by_hash = job.include_unfinished()
    layers = [
        ErasedLayer(
            table=made.full_name,
            role=made.role,
            rows=job.count(made),
            snapshots=max(snapshots_of(context.spark, made.path) - 1, 0),
            refs=tuple(name for name, _ in refs_of(context.spark, made.path)),
        )
        for made in job.tables
    ]
    holding = job.files(unfinished)
    landed = landed_files(context, holding)
    files, folded = _source_files(job, holding, {*landed.rewritten, *landed.removed})
    return EraseReport(
        table=context.table.name,
        subjects=subjects + by_hash,
        layers=tuple(layers),
        files=files.there,
        unseen=files.unseen + folded.unseen,
        folded=folded.there,
        rewritten=landed.rewritten,
        removed=landed.removed,
        resumed=unfinished is not None,
    )


def erase(
    pipeline: Pipeline, spark: SparkSession, wanted: Wanted, *, tell: Callable[[str], None] = lambda _: None
) -> EraseReport:
    """Remove subjects from bronze, silver, quarantine, marts, aggregates, old snapshots, branches, tags, orphan files.

    The first commit stores the hashes of the keys. From then on, later records of the subjects are ignored. The next
    erase of any key also finishes an erase that was killed: it finds the rows by these hashes.

    Args:
        pipeline: the declaration.
        spark: a session with the lake.
        wanted: the subjects.
        tell: called with a short text when a step begins.

    Raises:
        EraseError, SqlError, BusyError: as for :func:`preview`.
        OccurrencesLeftError: a key is still in a file of the lake; the receipt lists the places.

    Cost: some scans of each table's key columns, one rewrite of the files that hold a subject, and one scan for the
    proof. The cost does not grow with the number of subjects.
    """
    with _context(pipeline, spark, wanted) as context:
        certifying = Certifying.of(pipeline, "erase", removes_metadata=True)
        report = interruptibly(lambda: _erase(context, wanted, tell), [context.spark])
        if certifying is not None:
            certifying.write_or_warn()
    if report.proof is not None and not report.proof.is_clean:
        raise OccurrencesLeftError(report)
    return report


def _erase(context: TableRun, wanted: Wanted, tell: Callable[[str], None]) -> EraseReport:
    job = EraseJob(context)
    tell("find the subjects")
    subjects = job.load_subjects(wanted)
    erased, erase_id, resumed = job.block(context.run_id)
    others = hold(job.other_hashes(erased, erase_id))
    failpoint("erase.after_block")
    tell("delete")
    holding = job.files(erase_id)
    landed = landed_files(context, holding)
    emptied = landed.rewrite()
    failpoint("erase.after_landed")
    job.delete(erase_id, changed_lines(context, emptied) if emptied else None)
    job.refresh_gold()
    purged: dict[str, Purged] = {}
    for made in job.tables:
        tell(f"rewrite {made.full_name}")
        purged[made.full_name] = purge(context.spark, made.path, target_file_mb=context.pipeline.upkeep.target_file_mb)
    failpoint("erase.after_purge")
    removed = landed.remove(context.pipeline.folder)
    files, folded = _source_files(job, holding, {*landed.rewritten, *removed})
    tell("search for remaining keys")
    by_hash = others.count()
    report = EraseReport(
        table=context.table.name,
        erase_id=erase_id,
        subjects=subjects + by_hash,
        layers=tuple(_layer(made, job.rows.get(made.full_name), purged[made.full_name]) for made in job.tables),
        files=files.there,
        unseen=files.unseen + folded.unseen,
        folded=folded.there,
        rewritten=landed.rewritten,
        removed=removed,
        resumed=resumed,
        proof=prove(job, erased, subjects, by_hash=by_hash),
    )
    done = job.hashes(erased).unionByName(others).distinct()
    receipt = write_receipt(context, report, done)
    failpoint("erase.after_receipt")
    job.end(erased, erase_id, done)
    return replace(report, receipt=receipt)


def _layer(made: LakeTable, rows: int | None, purged: Purged) -> ErasedLayer:
    return ErasedLayer(
        table=made.full_name,
        role=made.role,
        rows=rows,
        snapshots=purged.snapshots,
        refs=purged.refs,
        orphans=purged.orphans,
    )


def unblock(pipeline: Pipeline, spark: SparkSession, wanted: Wanted) -> int:
    """Accept erased keys again by deleting their hashes.

    Erased rows stay erased. Records that arrive from now on are accepted.

    Args:
        pipeline: the declaration.
        spark: a session with the lake.
        wanted: the subjects.

    Returns:
        Number of keys that were blocked before.

    Raises:
        EraseError, SqlError, BusyError: as for :func:`preview`.
    """
    with _context(pipeline, spark, wanted) as context:
        erased = find_erased(context)
        if erased is None:
            return 0
        job = EraseJob(context)
        job.load_subjects(wanted)
        hashes = hold(job.hashes(erased))
        known = context.spark.table(quote(*erased.path)).select("key_hash").distinct()
        count = known.join(hashes, "key_hash", "left_semi").count()
        hashes.createOrReplaceTempView("frazil_unblocked")
        context.spark.sql(
            f"DELETE FROM {quote(*erased.path)} WHERE key_hash IN (SELECT key_hash FROM frazil_unblocked)"
        )
        return count


def _source_files(job: EraseJob, holding: Iterable[str], cleared: Collection[str]) -> tuple[SourceFiles, SourceFiles]:
    """Return the files that still exist, or may exist, at the source; ``cleared`` files are left out.

    Returns:
        The files with records of the subjects, then the other files with folded records.
    """
    table, folder = job.context.table, job.context.pipeline.folder
    left = [path for path in holding if path not in cleared]
    folded = [path for path in job.folded_files() if path not in {*left, *cleared}]
    those, others = (
        existing_files(paths, lambda path: address_of(path, folder, table.stores)) for paths in (left, folded)
    )
    return those, others


@contextmanager
def _context(pipeline: Pipeline, spark: SparkSession, wanted: Wanted) -> Iterator[TableRun]:
    check_declaration(pipeline)
    table = source_table(pipeline, wanted.table)
    if not wanted.keys and wanted.where is None:
        raise EraseError("a key or a condition is missing", hint="--key KEY, --keys-from FILE or --where SQL")
    with table_session(pipeline, table, spark) as context:
        if context.head(context.changes, rebuilt=True).snapshot_id is None:
            raise EraseError(f"table {table.name!r} has no changes yet", hint="make them: frazil run")
        yield context


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFiles:
    """Files with records of the subjects: the first thousand that exist, and the first thousand that may exist."""

    there: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


def existing_files(paths: Iterable[str], address: Callable[[str], str]) -> SourceFiles:
    """Return the files that exist, in the order of ``paths``.

    Args:
        paths: paths of files as bronze stores them.
        address: returns the address to open for a path.

    Returns:
        Existing files, and ``unseen`` ones: their store is gone, refuses access or does not answer. The first failure
        of a store ends all requests to it, because an erase does not need these files.

    Cost: one request for each file, until a thousand exist.
    """
    broken: set[str] = set()
    unseen: list[str] = []

    def seen() -> Iterator[str]:
        for path in paths:
            store = _store(path)
            is_there = None if store in broken else _is_there(path, address)
            if is_there:
                yield path
            elif is_there is None:
                broken.update({store} - {""})
                unseen.extend([path][: FILES_SHOWN - len(unseen)])

    there = tuple(islice(seen(), FILES_SHOWN))
    return SourceFiles(there=there, unseen=tuple(unseen))


def _is_there(path: str, address: Callable[[str], str]) -> bool | None:
    """Return whether a file exists; None if its store gives no answer."""
    try:
        uri = address(path)
        storage_of(uri).stat(uri)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (FrazilError, OSError):
        return None
    return True


def _store(path: str) -> str:
    """Return scheme and bucket of an address, or an empty string for a path on this machine."""
    scheme, sign, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}" if sign else ""
