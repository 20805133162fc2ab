"""Plan and change tables: plan, run, rebuild, watch, maintain, drop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from frazil.api.declaring import load, needs_spark, selection
from frazil.catalog.lock import TURN_SECONDS
from frazil.runner.options import CaptureOptions, RunOptions, WatchOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path
    from threading import Event

    from pyspark.sql import SparkSession

    from frazil.api.declaring import Declaration
    from frazil.errors import FrazilError
    from frazil.plan.plan import Plan
    from frazil.runner.options import Listener
    from frazil.runner.report import MaintainReport, RunReport
    from frazil.serve.leftovers import Droppable
    from frazil.sources.capture import Landed
    from frazil.spec import Pipeline
    from frazil.spec.sql.select import Words

_RUN, _WATCH, _CAPTURE = RunOptions(), WatchOptions(), CaptureOptions()


@needs_spark
def session(declaration: Declaration, *, short: bool = False, verbose: bool = False) -> SparkSession:
    """Return a Spark session on a pipeline's lake, see :func:`frazil.spark.session.spark_session`.

    Args:
        declaration: a pipeline, or the path of its declaration.
        short: tune the session for a short command.
        verbose: show Spark's log messages.
    """
    from frazil.spark.session import spark_session

    return spark_session(load(declaration), short=short, verbose=verbose)


def plan(declaration: Declaration, *, select: Words = (), rebuild: bool = False) -> Plan:
    """Return the plan of a run, without a JVM and without changing anything.

    Args:
        declaration: a pipeline, or the path of its declaration.
        select: a name or pattern of tables, marts or aggregates, or several; empty for all.
        rebuild: plan to compute silver and marts from all of bronze.

    Returns:
        The plan, which :func:`run` can execute exactly. It includes the errors of tables that cannot be planned or
        captured, and the number of changes at servers that are not captured yet.

    Raises:
        DeclarationError: the declaration is wrong, or the selection names nothing.
        StorageError: the catalog cannot be read.
        SetupError: a client of the catalog is not installed.

    Cost: lists the sources, and reads each new file once for its content's hash.
    """
    from dataclasses import replace

    from frazil.serve.lag import waiting

    found = _plan(load(declaration), select, {}, rebuild=rebuild)
    counts, stopped = waiting(found.pipeline, found.selection.tables)
    if stopped:
        found = _plan(found.pipeline, select, stopped, rebuild=rebuild)
    return replace(found, waiting=counts)


def _plan(pipeline: Pipeline, select: Words, uncaptured: Mapping[str, FrazilError], *, rebuild: bool) -> Plan:
    from frazil.plan.plan import Plan
    from frazil.serve.state import state
    from frazil.spec.check.check import check_declaration

    check_declaration(pipeline)
    chosen = selection(pipeline, select)
    return Plan.of(pipeline, chosen, state(pipeline, chosen, uncaptured, rebuild=rebuild), rebuild=rebuild)


def run(
    declaration: Declaration,
    *,
    plan: Plan | None = None,
    spark: SparkSession | None = None,
    select: Words = (),
    rebuild: bool = False,
    options: RunOptions = _RUN,
) -> RunReport:
    """Bring every table up to date; a failed table does not stop the others. Without new data no JVM is started.

    Args:
        declaration: a pipeline, or the path of its declaration.
        plan: a plan to execute exactly; its own selection replaces ``select`` and ``rebuild``.
        spark: an existing session, such as a notebook's, which also plans the run. With None the run is planned without
            a JVM, and a session is started only if there is work to do.
        select: a name or pattern of tables, marts or aggregates, or several; empty for all.
        rebuild: compute silver and marts again from all of bronze.
        options: listener, failure handling and logging.

    Returns:
        Numbers for every selected table and aggregate, and with ``verify`` the comparisons with sources that were due.
        A table that differs from its source raises nothing; ``exit_code`` of the report is then 9.

    Raises:
        RunFailedError: tables or aggregates failed; the error has the report. All others are up to date.
        OutdatedPlanError: a table was written, or the declaration changed, since the plan was made.
        FrazilError: any other error, raised before a table is changed.
        KeyboardInterrupt: Ctrl-C. The jobs of this run are cancelled; the session stays usable.

    Cost: reads each new file twice: for its hash when the run is planned, and for its records.
    """
    from frazil.interop.notify.notify import notified
    from frazil.interop.observe import observed

    pipeline = load(declaration)
    work = partial(_run, pipeline, plan=plan, spark=spark, select=select, rebuild=rebuild)

    def verified(chosen: RunOptions) -> RunReport:
        return _verified(pipeline, options.listener, lambda: work(options=chosen))

    return notified(pipeline, lambda: observed(pipeline, options, verified))


def _verified(pipeline: Pipeline, listener: Listener | None, work: Callable[[], RunReport]) -> RunReport:
    """Run, and then compare tables that did not fail with their sources, if the declaration says so."""
    if pipeline.verify is None:
        return work()
    from frazil.runner.report import RunFailedError
    from frazil.serve.check.compare import verify

    def compare(report: RunReport) -> None:
        names = {table.table for table in report.tables if table.outcome in ("done", "nothing new")}
        report.verified = verify(pipeline, names, listener)

    try:
        report = work()
    except RunFailedError as error:
        compare(error.report)
        raise
    compare(report)
    return report


@needs_spark
def _run(
    pipeline: Pipeline,
    *,
    plan: Plan | None,
    spark: SparkSession | None,
    select: Words,
    rebuild: bool,
    options: RunOptions,
) -> RunReport:
    is_given = plan is not None
    if plan is None and spark is None:
        plan = _planned(pipeline, select, options, rebuild=rebuild)
    if plan is not None and not plan.steps and not plan.unread and spark is None:
        from frazil.runner.record import record_idle

        return record_idle(plan)
    from frazil.runner.planner import OutdatedPlanError
    from frazil.runner.run import run as work

    try:
        return work(pipeline, plan=plan, spark=spark, select=select, rebuild=rebuild, options=options)
    except OutdatedPlanError:
        if is_given:
            raise
        # Another run wrote a table while Spark started: plan again from the current state.
        return work(pipeline, spark=spark, select=select, rebuild=rebuild, options=options)


def _planned(pipeline: Pipeline, select: Words, options: RunOptions, *, rebuild: bool) -> Plan | None:
    """Capture, and plan a run; None if only a JVM can read the catalog, so that the run plans itself."""
    from frazil.errors import SetupError, StorageError
    from frazil.runner.capture import capture_once

    try:
        uncaptured = capture_once(pipeline, selection(pipeline, select).tables, options.listener)
        return _plan(pipeline, select, uncaptured, rebuild=rebuild)
    except (StorageError, SetupError):
        return None


def rebuild(
    declaration: Declaration,
    *,
    plan: Plan | None = None,
    spark: SparkSession | None = None,
    select: Words = (),
    options: RunOptions = _RUN,
) -> RunReport:
    """Compute silver, marts and aggregates again from bronze: :func:`run` with ``rebuild``.

    Args:
        declaration: a pipeline, or the path of its declaration.
        plan: as for :func:`run`.
        spark: as for :func:`run`.
        select: as for :func:`run`.
        options: as for :func:`run`.
    """
    return run(declaration, plan=plan, spark=spark, select=select, rebuild=True, options=options)


@needs_spark
def replay(
    declaration: Declaration,
    *,
    table: str | None = None,
    corrected: Path | None = None,
    spark: SparkSession | None = None,
    options: RunOptions = _RUN,
) -> RunReport:
    """Apply quarantined records again, each at its old place among the changes.

    Without ``corrected`` this is a run of the tables with records in quarantine. If the declaration changed in a way
    that can let them through, silver is rebuilt from bronze; otherwise the records would break the same rules, and
    nothing is done. Aggregates over these tables are refreshed, with the current rows of the other tables that they
    read.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts; None for all.
        corrected: a file of corrected records of ``table``, see
            :func:`frazil.serve.corrections.write_corrections`. Bronze keeps the original records as well.
        spark: as for :func:`run`.
        options: as for :func:`run`.

    Returns:
        Report of the run; with ``corrected``, of the run that applied the corrections.

    Raises:
        CorrectionError: the file is not valid; no correction was applied.
        RunFailedError: as for :func:`run`. Corrections are in bronze already, and the next run applies them.
    """
    from frazil.serve.corrections import read_corrections
    from frazil.serve.quarantine import quarantine
    from frazil.spark.session import lake_session
    from frazil.spec.sql.select import source_table

    pipeline = load(declaration)
    if table is None or corrected is None:
        names = sorted({rule.table for rule in quarantine(pipeline, table, limit=0).rules})
        chosen = [f"{name}+" for name in names or ([table] if table else [])]
        return run(pipeline, spark=spark, select=chosen, options=options)
    declared = source_table(pipeline, table)
    report = run(pipeline, spark=spark, select=[declared.name], options=options)
    if corrections := read_corrections(pipeline, table, corrected):
        from frazil.past import correct

        session_ = lake_session(spark, pipeline, short=True)
        correct(pipeline, declared, corrections, session_)
        report = run(pipeline, spark=session_, select=[f"{declared.name}+"], options=options)
    return report


def capture(
    declaration: Declaration,
    stop: Event,
    *,
    select: Words = (),
    options: CaptureOptions = _CAPTURE,
    metrics: tuple[str, int] | None = None,
) -> int:
    """Land changes of databases and brokers as files, until ``stop`` is set. Starts no JVM, changes no lake.

    Every run captures before it plans; use this function for changes that must leave their server sooner.

    Args:
        declaration: a pipeline, or the path of its declaration.
        stop: set it to end.
        select: names or patterns of tables; empty for all.
        options: pauses and listener.
        metrics: host and port of an HTTP server with metrics and probes; None for none, port 0 for a free one.

    Returns:
        Exit code of the worst failure that remains at the end; 0 without failures.

    Raises:
        DeclarationError: the declaration is wrong, or no selected table is captured from a server.
        FrazilError: no capture can continue, and a retry would not help.
    """
    from frazil.interop.live_server import served
    from frazil.interop.notify.notify import notified_capture, notified_following
    from frazil.runner.capture import capture as follow
    from frazil.spec.check.check import check_declaration

    pipeline = load(declaration)
    check_declaration(pipeline)
    names = selection(pipeline, select).tables
    options = notified_capture(pipeline, options, names)

    def work(options: CaptureOptions) -> int:
        return notified_following(pipeline, "capture", lambda: follow(pipeline, stop, select=select, options=options))

    if metrics is None:
        return work(options)
    with served(pipeline, names, metrics, partial(options.tell, pipeline.pipeline)) as progress:
        return work(progress.of_capture(options))


def reload(declaration: Declaration, tables: Words, *, listener: Listener | None = None) -> list[tuple[str, Landed]]:
    """Land all rows of captured tables again, at their place among the changes; the next run applies them.

    The run deletes keys that the table no longer has, and opens versions for rows that differ. Equal rows change no
    history. If a slot is lost, name all of its tables: the slot is created again. Starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        tables: names or patterns of tables.
        listener: receives progress.

    Returns:
        Pairs of a capture's name and what it landed.

    Raises:
        DeclarationError: a table is not captured, or its rows cannot be read again.
        SourceError: the server cannot be reached, or lacks what is declared.
        SlotLostError: the slot is lost, and other tables of it would miss changes.
    """
    from frazil.runner.capture import reload as reload_tables
    from frazil.spec.check.check import check_declaration
    from frazil.spec.sql.select import words

    pipeline = load(declaration)
    check_declaration(pipeline)
    return reload_tables(pipeline, words(tables), listener)


@needs_spark
def watch(
    declaration: Declaration,
    stop: Event,
    *,
    spark: SparkSession | None = None,
    select: Words = (),
    options: WatchOptions = _WATCH,
    metrics: tuple[str, int] | None = None,
) -> int:
    """Run whenever files arrive, until ``stop`` is set; the run in progress is finished first.

    Args:
        declaration: a pipeline, or the path of its declaration.
        stop: set it to end.
        spark: a warm session; with None, a session is started.
        select: as for :func:`run`.
        options: pauses and listener.
        metrics: host and port of an HTTP server with metrics and probes; None for none, port 0 for a free one.

    Returns:
        Exit code of the worst failure that remains at the end; 0 without failures.

    Raises:
        FrazilError: a run cannot begin, and a retry would not help.
    """
    from frazil.interop.live import verifying
    from frazil.interop.live_server import served
    from frazil.interop.notify.notify import notified_following, notified_watch
    from frazil.interop.observe import observed_watch
    from frazil.runner.watch import watch as follow
    from frazil.spark.session import lake_session

    pipeline = load(declaration)
    names = selection(pipeline, select).tables
    options = notified_watch(pipeline, observed_watch(pipeline, options), names)

    def work(options: WatchOptions) -> int:
        session_ = lake_session(spark, pipeline)
        with verifying(pipeline, names, options) as chosen:
            return notified_following(
                pipeline, "run", lambda: follow(pipeline, session_, stop, select=select, options=chosen)
            )

    if metrics is None:
        return work(options)
    with served(pipeline, names, metrics, options.tell) as progress:
        return work(progress.of_watch(options))


@needs_spark
def maintain(
    declaration: Declaration,
    *,
    spark: SparkSession | None = None,
    select: Words = (),
    tell: Callable[[str], None] = lambda _: None,
    wait_seconds: float = TURN_SECONDS,
) -> tuple[MaintainReport, ...]:
    """Compact files, expire snapshots, remove orphan files and compute statistics.

    Args:
        declaration: a pipeline, or the path of its declaration; its ``upkeep`` sets ages and sizes.
        spark: a session with the lake; with None, a session is started.
        select: as for :func:`run`.
        tell: receives the name of each table when its turn comes.
        wait_seconds: how long to wait for a run to end.

    Returns:
        A report for each table.

    Raises:
        BusyError: a run holds the pipeline for longer than ``wait_seconds``.
    """
    from frazil.runner.maintain import maintain as work
    from frazil.spark.session import lake_session

    pipeline = load(declaration)
    session = lake_session(spark, pipeline)
    return tuple(work(pipeline, session, select=select, tell=tell, wait_seconds=wait_seconds))


def droppable(declaration: Declaration, select: Words = ()) -> tuple[Droppable, ...]:
    """Return the leftover tables of earlier declarations, or the tables that match ``select``; remove nothing."""
    from frazil.serve.leftovers import chosen, leftovers
    from frazil.spec.sql.select import words

    pipeline = load(declaration)
    return tuple(chosen(pipeline, words(select)) if select else leftovers(pipeline))


@needs_spark
def drop(
    declaration: Declaration, tables: Iterable[Droppable], *, spark: SparkSession | None = None
) -> tuple[str, ...]:
    """Drop tables with their files.

    Args:
        declaration: a pipeline, or the path of its declaration.
        tables: as :func:`droppable` returns them.
        spark: a session with the lake; with None, a session is started.

    Returns:
        The removed tables, with their namespaces. Tables that no longer exist are skipped.

    Raises:
        BusyError: a run holds the pipeline for more than a minute.
    """
    from frazil.past import drop as remove
    from frazil.spark.session import lake_session

    pipeline = load(declaration)
    names = [(table.namespace, table.name) for table in tables]
    return tuple(remove(pipeline, lake_session(spark, pipeline, short=True), names))
