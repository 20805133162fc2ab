"""Read a lake without a JVM: status, check, query, key and others."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal

from frazil.api.declaring import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from frazil.api.declaring import Declaration
    from frazil.catalog.lock import Holder
    from frazil.interop.spark_conf import Platform, SparkConf
    from frazil.interop.trino import Trino
    from frazil.runner.past_runs import OpenRun
    from frazil.serve.check.check import CheckListener
    from frazil.serve.check.finding import Finding
    from frazil.serve.check.rules import RuleTest
    from frazil.serve.key import KeyStory
    from frazil.serve.query.diff import Diff
    from frazil.serve.query.query import Result
    from frazil.serve.query.stop import Stop
    from frazil.serve.schema import TableSchema
    from frazil.serve.status import MadeStatus, TableStatus
    from frazil.spec import Pipeline
    from frazil.spec.sql.select import Words


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """State of a pipeline.

    Attributes:
        tables: state of each source table and its marts.
        gold: state of each aggregate.
        open_run: the newest run if it is running or was killed, else None.
        holder: the process that holds a lake in an object store; None for a local lake, or if no process holds it.
    """

    tables: tuple[TableStatus, ...]
    gold: tuple[MadeStatus, ...]
    open_run: OpenRun | None
    holder: Holder | None = None

    def _repr_html_(self) -> str:
        from frazil.spec.amount import counted, html_lines, html_table, sized

        made = [*(mart for table in self.tables for mart in table.marts), *self.gold]
        rows = [(one.name, one.batch, one.lag, one.rows, sized(one.size_bytes), one.committed_at) for one in made]
        notes = [f"{one.table}: {counted(len(one.waiting), 'new file')}" for one in self.tables if one.waiting]
        notes += [f"{one.table}: {one.trouble}" for one in self.tables if one.trouble]
        notes += [f"{one.name}: {one.trouble}" for one in made if one.trouble]
        failures = [failure for table in self.tables for failure in table.failures]
        failures += [failure for one in self.gold for failure in one.failures]
        notes += [f"{one.name} failed at {one.at}: [{one.code}] {one.message}" for one in failures]
        return html_table(("table", "batch", "behind", "rows", "size", "committed"), rows) + html_lines(notes)


def status(declaration: Declaration, *, select: Words = ()) -> Status:
    """Return the state of every table, what waits at its source, and what failed; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        select: as for :func:`run`.

    Raises:
        NoLakeError: no table of the lake exists.
    """
    from frazil.catalog.lock import lease_holder
    from frazil.serve.status import gold_status, open_run
    from frazil.serve.status import status as look

    pipeline = load(declaration)
    return Status(
        tables=tuple(look(pipeline, select=select)),
        gold=tuple(gold_status(pipeline, select=select)),
        open_run=open_run(pipeline),
        holder=lease_holder(pipeline),
    )


def check(
    declaration: Declaration, *, select: Words = (), listener: CheckListener | None = None
) -> tuple[Finding, ...]:
    """Prove that the tables match their changes, see :func:`frazil.serve.check.check.check`; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        select: as for :func:`run`.
        listener: receives each proof as it begins, and each finding.

    Returns:
        A finding for every proof, with ``ok`` True, False, or None if it is undecided. Tables are compared with their
        files; :func:`check_source` compares them with their sources.

    Raises:
        NoLakeError: no table of the lake exists.
    """
    from frazil.serve.check.check import check as prove
    from frazil.serve.checks import LAWS, keep_results

    pipeline = load(declaration)
    found = _told(pipeline, "check", prove(pipeline, select=select, listener=listener))
    keep_results(pipeline, LAWS, found)
    return found


def check_certificates(
    declaration: Declaration, *, known: Words = (), listener: CheckListener | None = None
) -> tuple[Finding, ...]:
    """Prove that the lake matches its certificates, and that no certificate was changed or removed.

    Args:
        declaration: a pipeline, or the path of its declaration.
        known: hashes of certificates that you keep elsewhere.
        listener: receives each proof as it begins, and each finding.

    Returns:
        A finding for every proof, see :func:`frazil.serve.check.certificates.check_certificates`.

    Raises:
        NoLakeError: no table of the lake exists.
    """
    from frazil.serve.check.certificates import check_certificates as prove
    from frazil.spec.sql.select import words

    pipeline = load(declaration)
    return _told(pipeline, "certificates", prove(pipeline, known=words(known), listener=listener))


def check_source(
    declaration: Declaration,
    *,
    select: Words = (),
    against: Path | str | None = None,
    listener: CheckListener | None = None,
) -> tuple[Finding, ...]:
    """Compare marts with the tables at their sources, or with a dump, see :func:`frazil.serve.check.compare.compare`.

    Args:
        declaration: a pipeline, or the path of its declaration.
        select: as for :func:`run`.
        against: a dump of the selected table to use instead of its source: a path, or an address in an object store.
        listener: receives each comparison as it begins, and each finding.

    Returns:
        A finding for each table, with the keys that differ and the reasons.

    Raises:
        NothingToCompareError: no selected table has a source to compare with.
        NoLakeError: no table of the lake exists.
        SourceError: the source cannot be read.
    """
    from frazil.interop.notify.message import of_findings, of_marks
    from frazil.interop.notify.notify import notify
    from frazil.serve.check.check import Silent
    from frazil.serve.check.compare import compare
    from frazil.serve.checks import keep_looks, last_checks

    pipeline, place = load(declaration), None if against is None else f"{against}"
    looks = compare(pipeline, listener or Silent(), select=select, against=place)
    findings = tuple(look.finding for look in looks)
    if against is not None:
        return findings
    keep_looks(pipeline, looks)
    notify(pipeline, "source", [*of_findings(findings), *of_marks(pipeline, last_checks(pipeline))])
    return findings


def _told(pipeline: Pipeline, origin: str, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Send findings to the receivers of ``notify``, and return them."""
    from frazil.interop.notify.message import of_findings
    from frazil.interop.notify.notify import notify

    found = tuple(findings)
    notify(pipeline, origin, of_findings(found))
    return found


def not_compared(declaration: Declaration, *, select: Words = ()) -> tuple[Finding, ...]:
    """Return what :func:`check` does not prove: each table's source, and failures of its newest run.

    Args:
        declaration: a pipeline, or the path of its declaration.
        select: as for :func:`run`.

    Returns:
        Findings whose ``ok`` is None: one for each failure of the newest run of a table, and one for each table, whose
        ``hint`` is the command that compares the table with its source. No table is read.
    """
    from frazil.serve.check.compare import not_compared as say

    return tuple(say(load(declaration), select=select))


def query(
    declaration: Declaration,
    sql: str,
    *,
    limit: int | None = None,
    as_of: str | None = None,
    stop: Stop | None = None,
) -> Result:
    """Return the rows of one read-only statement of DuckDB's SQL, see :func:`frazil.serve.query.query.query`.

    Args:
        declaration: a pipeline, or the path of its declaration.
        sql: a SELECT over tables such as ``marts.orders``.
        limit: maximum number of rows; None for all.
        as_of: a time, a snapshot, a cut or a batch to read the tables at; None for now.
        stop: stops the query from another thread, or after a time; None to let it end by itself.

    Returns:
        Columns, types and rows.

    Raises:
        QueryError: the text is not a single read-only statement, or DuckDB refuses it.
        PointError: ``as_of`` is not a point, or a table has no snapshot of that point.
    """
    from frazil.serve.query.query import query as ask

    return ask(load(declaration), sql, limit=limit, as_of=as_of, stop=stop)


def write_csv(
    declaration: Declaration,
    sql: str,
    text: IO[str],
    *,
    limit: int | None = None,
    as_of: str | None = None,
    is_guarded: bool = False,
) -> None:
    """Write the rows of a query as CSV, see :func:`frazil.serve.query.export.export_csv`.

    Args:
        declaration: a pipeline, or the path of its declaration.
        sql: a SELECT over tables such as ``marts.orders``.
        text: stream to write to.
        limit: maximum number of rows; None for all.
        as_of: as for :func:`query`.
        is_guarded: put an apostrophe before texts that a spreadsheet would run as formulas.
    """
    from frazil.serve.query.export import export_csv as write

    write(load(declaration), sql, text, limit=limit, as_of=as_of, is_guarded=is_guarded)


def write_parquet(
    declaration: Declaration, sql: str, file: Path, *, limit: int | None = None, as_of: str | None = None
) -> int:
    """Write the rows of a query to a Parquet file and return their number, see :mod:`frazil.serve.query.export`.

    Args:
        declaration: a pipeline, or the path of its declaration.
        sql: a SELECT over tables such as ``marts.orders``.
        file: path of the file.
        limit: maximum number of rows; None for all.
        as_of: as for :func:`query`.
    """
    from frazil.serve.query.export import write_parquet as write

    return write(load(declaration), sql, file, limit=limit, as_of=as_of)


def diff(declaration: Declaration, mart: str, begin: str, end: str | None = None, *, limit: int | None = None) -> Diff:
    """Return the changes of a mart between two points, see :func:`frazil.serve.query.diff.diff`; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        mart: name of a mart.
        begin: a time, a snapshot, a cut or a batch.
        end: another point; None for now.
        limit: maximum number of rows to return; the counts cover all rows.

    Raises:
        NotAMartError: the word names no mart, or several.
        PointError: a text is not a point, or the mart has no snapshot of that point.
    """
    from frazil.serve.query.diff import diff as compare

    return compare(load(declaration), mart, begin, end, limit=limit)


def key(declaration: Declaration, table: str, values: Mapping[str, str] | Sequence[str]) -> KeyStory:
    """Return everything that the lake holds of one key, from bronze to marts; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: the source table, or one of its marts.
        values: text of each key column by name, or in the order of ``keys``.

    Returns:
        Its records, changes and rows; ``is_known`` is False if there are none.

    Raises:
        QueryError: the key has other columns, or a text does not fit its column's type.
    """
    from frazil.serve.key import explain_key

    return explain_key(load(declaration), table, values)


def export(declaration: Declaration, what: Literal["dbt", "odcs"]) -> dict[str, Any]:
    """Return a description of the marts for another tool, as values to write as YAML; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        what: ``dbt`` for the sources of a dbt project, ``odcs`` for a contract of the Open Data Contract Standard.

    Raises:
        FrazilError: the catalog cannot be read.
    """
    from frazil.interop.contracts import mart_contracts
    from frazil.interop.dbt import dbt_sources
    from frazil.interop.odcs import odcs_contract

    pipeline = load(declaration)
    return (dbt_sources if what == "dbt" else odcs_contract)(pipeline, mart_contracts(pipeline))


def spark_pipelines(declaration: Declaration) -> str:
    """Return Python code that declares marts and aggregates for AUTO CDC of Spark 4.3; starts no JVM.

    Raises:
        FrazilError: the catalog cannot be read.
    """
    from frazil.interop.spark_pipelines import spark_pipelines as written

    return written(load(declaration))


def spark_conf(declaration: Declaration, platform: Platform, *, spark: str | None = None) -> SparkConf:
    """Return the settings that a platform's Spark needs, see :func:`frazil.interop.spark_conf.spark_conf`.

    Args:
        declaration: a pipeline, or the path of its declaration.
        platform: ``standalone``, ``kubernetes``, ``emr``, ``glue``, ``databricks`` or ``dataproc``.
        spark: version of the platform's Spark; None for the version of the installed PySpark.
    """
    from frazil.errors import DeclarationError, SparkMissingError
    from frazil.interop.spark_conf import spark_conf as written
    from frazil.spark.jars import spark_version

    try:
        version = spark or ".".join(spark_version().split(".")[:2])
    except SparkMissingError as error:
        raise DeclarationError(
            "--spark: name the version of the platform's Spark",
            hint="such as --spark 4.1; without it, the version of the installed PySpark is used",
        ) from error
    return written(load(declaration), platform, version)


def serve(
    declaration: Declaration, *, port: int = 0, tell: Callable[[str], object] = lambda _: None
) -> AbstractContextManager[Trino]:
    """Run Trino on the lake within a ``with`` block, see :func:`frazil.interop.trino.trino`.

    Args:
        declaration: a pipeline, or the path of its declaration.
        port: port to listen on; 0 for a free one.
        tell: receives progress text.
    """
    from frazil.interop.trino import trino as start

    return start(load(declaration), port=port, tell=tell)


def trino_catalog(declaration: Declaration) -> tuple[dict[str, str], str]:
    """Return the settings of the lake's catalog for your own Trino, as a mapping and as the text of a file.

    Raises:
        UnknownToTrinoError: Trino does not support the pipeline's catalog.
    """
    from frazil.interop.trino import catalog_text
    from frazil.interop.trino import trino_catalog as settings_of

    pipeline = load(declaration)
    settings = settings_of(pipeline)
    return settings, catalog_text(pipeline, settings)


def test(declaration: Declaration, *, select: Words = ()) -> tuple[RuleTest, ...]:
    """Test the rules of contracts on the rows of the marts, see :func:`frazil.serve.check.rules.test_rules`.

    Freshness is measured by this machine's clock.

    Args:
        declaration: a pipeline, or the path of its declaration.
        select: as for :func:`run`.

    Returns:
        A result for each rule. ``ok`` is False if it is broken, None if it only warns or cannot be tested.

    Raises:
        NoLakeError: no table of the lake exists.
    """
    from frazil.interop.notify.message import of_freshness
    from frazil.interop.notify.notify import notify
    from frazil.serve.check.rules import test_rules

    pipeline = load(declaration)
    found = tuple(test_rules(pipeline, select, now=dt.datetime.now(dt.UTC)))
    notify(pipeline, "run", of_freshness(pipeline, found))
    return found


def schema(declaration: Declaration, table: str) -> TableSchema:
    """Return the columns of a table and the layouts of its source's files, see :func:`frazil.serve.schema.schema`.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.

    Raises:
        UnknownSelectionError: the table does not exist.
        NoLakeError: no layer of the table exists.
    """
    from frazil.serve.schema import schema as look

    return look(load(declaration), table)
