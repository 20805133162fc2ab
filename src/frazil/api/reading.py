"""Look at a lake without a JVM: status, check, query, key."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Literal

from frazil.api.declaring import load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from frazil.api.declaring import Declaration
    from frazil.bronze.read import Correction
    from frazil.catalog.lease import Holder
    from frazil.interop.spark_conf import Platform, SparkConf
    from frazil.interop.trino_server import Trino
    from frazil.runner.report.past_runs import OpenRun
    from frazil.serve.check.check import CheckListener
    from frazil.serve.check.finding import Finding
    from frazil.serve.check.rules import RuleTest
    from frazil.serve.key import KeyStory
    from frazil.serve.quarantine import Quarantine
    from frazil.serve.query.diff import Diff
    from frazil.serve.query.query import Result
    from frazil.serve.schema import TableSchema
    from frazil.serve.status import MadeStatus, TableStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Where the tables and aggregates of a pipeline stand.

    Attributes:
        tables: the source tables, with their marts.
        gold: the aggregates.
        open_run: the newest run, if it did not end.
        holder: the process that holds a lake in an object store now; None where none does, and for a local lake.
    """

    tables: tuple[TableStatus, ...]
    gold: tuple[MadeStatus, ...]
    open_run: OpenRun | None
    holder: Holder | None = None


def status(declaration: Declaration, *, select: Sequence[str] = ()) -> Status:
    """Return where every table stands, what waits at its source and what failed; starts no JVM.

    Raises:
        NoLakeError: no table of the lake exists.
    """
    from frazil.catalog.lease import lease_holder
    from frazil.serve.status import gold_status, open_run
    from frazil.serve.status import status as look

    pipeline = load(declaration)
    return Status(
        tables=tuple(look(pipeline, select=select)),
        gold=tuple(gold_status(pipeline)),
        open_run=open_run(pipeline),
        holder=lease_holder(pipeline),
    )


def check(
    declaration: Declaration, *, select: Sequence[str] = (), listener: CheckListener | None = None
) -> tuple[Finding, ...]:
    """Prove that the tables say what the changes say, as :func:`frazil.serve.check.check.check`; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        select: as for :func:`run`.
        listener: is told what is done and found.

    Returns:
        Every proof: ``ok`` is true, false, or None where it cannot be told now. Tables are held against their files:
        :func:`check_source` compares them with their sources.

    Raises:
        NoLakeError: no table of the lake exists.
    """
    from frazil.serve.check.check import check as prove

    return tuple(prove(load(declaration), select=select, listener=listener))


def check_certificates(
    declaration: Declaration, *, known: Sequence[str] = (), listener: CheckListener | None = None
) -> tuple[Finding, ...]:
    """Prove that the lake is what its certificates say, and that none of them was changed or removed.

    Args:
        declaration: a pipeline, or the path of its declaration.
        known: hashes of certificates that were noted elsewhere.
        listener: is told what is done and found.

    Returns:
        Every proof, as :func:`frazil.serve.check.certificates.check_certificates`.

    Raises:
        NoLakeError: no table of the lake exists.
    """
    from frazil.serve.check.certificates import check_certificates as prove

    return tuple(prove(load(declaration), known=known, listener=listener))


def check_source(
    declaration: Declaration,
    *,
    select: Sequence[str] = (),
    against: Path | str | None = None,
    listener: CheckListener | None = None,
) -> tuple[Finding, ...]:
    """Compare marts with the tables at their sources, or with a dump, as :func:`frazil.serve.check.compare.compare`.

    Args:
        declaration: a pipeline, or the path of its declaration.
        select: as for :func:`run`.
        against: a dump of the one selected table, in place of its source: a path, or an address in an object store.
        listener: is told what is done and found.

    Returns:
        A finding for each table, with the keys that differ and what explains them.

    Raises:
        NothingToCompareError: no selected table has a source that can be looked at.
        NoLakeError: no table of the lake exists.
        SourceError: the source cannot be read.
    """
    from frazil.serve.check.check import Silent
    from frazil.serve.check.compare import compare

    place = None if against is None else f"{against}"
    return tuple(compare(load(declaration), listener or Silent(), select=select, against=place))


def not_compared(declaration: Declaration, *, select: Sequence[str] = ()) -> tuple[Finding, ...]:
    """Return, for each table, that :func:`check` does not look at its source, and the command that does.

    Args:
        declaration: a pipeline, or the path of its declaration.
        select: as for :func:`run`.

    Returns:
        Findings whose ``ok`` is None: for each failure of the newest run that tried a table, and for each table, with
        the command as ``hint``; no table is looked at.
    """
    from frazil.serve.check.compare import not_compared as say

    return tuple(say(load(declaration), select=select))


def query(declaration: Declaration, sql: str, *, limit: int | None = None, as_of: str | None = None) -> Result:
    """Return the rows of one reading statement of DuckDB's SQL, as :func:`frazil.serve.query.query.query`.

    Args:
        declaration: a pipeline, or the path of its declaration.
        sql: a SELECT over tables such as ``marts.orders``.
        limit: rows to fetch at most.
        as_of: read the tables as they were at a time, a snapshot, a cut or a batch; left out, as they are.

    Returns:
        Columns, types and rows.

    Raises:
        QueryError: it is not one statement that reads, or DuckDB refuses it.
        PointError: ``as_of`` is no point, or a table cannot be read as it was then.
    """
    from frazil.serve.query.query import query as ask

    return ask(load(declaration), sql, limit=limit, as_of=as_of)


def write_csv(
    declaration: Declaration, sql: str, text: IO[str], *, limit: int | None = None, as_of: str | None = None
) -> None:
    """Write the rows of a query as CSV, as :func:`frazil.serve.query.export.write_csv`."""
    from frazil.serve.query.export import write_csv as write

    write(load(declaration), sql, text, limit=limit, as_of=as_of)


def write_parquet(
    declaration: Declaration, sql: str, file: Path, *, limit: int | None = None, as_of: str | None = None
) -> int:
    """Write the rows of a query to a Parquet file and return how many (:mod:`frazil.serve.query.export`)."""
    from frazil.serve.query.export import write_parquet as write

    return write(load(declaration), sql, file, limit=limit, as_of=as_of)


def diff(declaration: Declaration, mart: str, begin: str, end: str | None = None, *, limit: int | None = None) -> Diff:
    """Return what changed in a mart between two points, as :func:`frazil.serve.query.diff.diff`; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        mart: name of a mart.
        begin: a time, a snapshot, a cut or a batch.
        end: another; left out, now.
        limit: rows to return at most; all are counted.

    Raises:
        NotAMartError: the word names no mart, or several.
        PointError: a point is none, or the mart cannot be read as it was then.
    """
    from frazil.serve.query.diff import diff as compare

    return compare(load(declaration), mart, begin, end, limit=limit)


def key(declaration: Declaration, table: str, values: Mapping[str, str] | Sequence[str]) -> KeyStory:
    """Return all that the lake holds of one key, from bronze to marts; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: the source table, or one of its marts.
        values: text of each key column by name, or in the order of ``keys``.

    Returns:
        Its records, changes and rows; ``is_known`` is false where there are none.

    Raises:
        QueryError: the key has other columns, or a text is no value of its column's type.
    """
    from frazil.serve.key import explain_key

    return explain_key(load(declaration), table, values)


def quarantine(declaration: Declaration, table: str | None = None, *, limit: int = 20) -> Quarantine:
    """Return what is in quarantine, as :func:`frazil.serve.quarantine.quarantine`; starts no JVM.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, for its records; None for the rules that are broken in all tables.
        limit: records at most.

    Raises:
        UnknownSelectionError: there is no such source table.
        NoLakeError: no table of the lake exists.
    """
    from frazil.serve.quarantine import quarantine as look

    return look(load(declaration), table, limit=limit)


def export(declaration: Declaration, what: Literal["dbt", "odcs"]) -> dict[str, Any]:
    """Return what the marts are for another tool, as plain values that it reads as YAML; starts no JVM.

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
    """Return marts and aggregates as a file of Python for AUTO CDC of Spark 4.3; starts no JVM.

    Raises:
        FrazilError: the catalog cannot be read.
    """
    from frazil.interop.spark_pipelines import spark_pipelines as written

    return written(load(declaration))


def spark_conf(declaration: Declaration, platform: Platform, *, spark: str | None = None) -> SparkConf:
    """Return the settings that a platform's Spark needs, as :func:`frazil.interop.spark_conf.spark_conf`.

    Args:
        declaration: a pipeline, or the path of its declaration.
        platform: ``standalone``, ``kubernetes``, ``emr``, ``glue``, ``databricks`` or ``dataproc``.
        spark: version of its Spark; left out, that of the installed PySpark.
    """
    import pyspark

    from frazil.interop.spark_conf import spark_conf as written

    return written(load(declaration), platform, spark or ".".join(pyspark.__version__.split(".")[:2]))


def serve(
    declaration: Declaration, *, port: int = 0, tell: Callable[[str], object] = lambda _: None
) -> AbstractContextManager[Trino]:
    """Run a Trino on the lake for as long as a ``with`` block lasts, as :func:`frazil.interop.trino_server.trino`."""
    from frazil.interop.trino_server import trino as start

    return start(load(declaration), port=port, tell=tell)


def trino_catalog(declaration: Declaration) -> tuple[dict[str, str], str]:
    """Return the settings of a catalog with the lake for a Trino of your own, and the same as a file.

    Raises:
        UnknownToTrinoError: the pipeline's catalog cannot be said in Trino's words.
    """
    from frazil.interop.trino_catalog import catalog_text
    from frazil.interop.trino_catalog import trino_catalog as settings_of

    pipeline = load(declaration)
    settings = settings_of(pipeline)
    return settings, catalog_text(pipeline, settings)


def quarantine_to(declaration: Declaration, table: str, path: Path) -> int:
    """Write what is in quarantine of a table to a file to be corrected; return how many records.

    As :func:`frazil.serve.corrections.write_corrections`; starts no JVM.
    """
    from frazil.serve.corrections import write_corrections

    return write_corrections(load(declaration), table, path)


def read_corrections(declaration: Declaration, table: str, path: Path) -> tuple[Correction, ...]:
    """Return what a file corrects of a table's quarantine, as :func:`frazil.serve.corrections.read_corrections`.

    Raises:
        CorrectionError: the file cannot be taken as it is. Starts no JVM.
    """
    from frazil.serve.corrections import read_corrections as read

    return read(load(declaration), table, path)


def test(declaration: Declaration, *, select: Sequence[str] = ()) -> tuple[RuleTest, ...]:
    """Test the rules of contracts over the rows that the marts have, as :func:`frazil.serve.check.rules.test_rules`.

    How fresh they are is told by the clock of this machine.

    Args:
        declaration: a pipeline, or the path of its declaration.
        select: as for :func:`run`.

    Returns:
        A result for each rule: ``ok`` is false where it is broken, None where it only warns or cannot be told.

    Raises:
        NoLakeError: no table of the lake exists.
    """
    from frazil.serve.check.rules import test_rules

    return tuple(test_rules(load(declaration), select, now=dt.datetime.now(dt.UTC)))


def schema(declaration: Declaration, table: str) -> TableSchema:
    """Return the columns of a table and the layouts of its source, as :func:`frazil.serve.schema.schema`.

    Args:
        declaration: a pipeline, or the path of its declaration.
        table: a source table, or one of its marts.

    Raises:
        UnknownSelectionError: there is no such table.
        NoLakeError: nothing of it was written yet.
    """
    from frazil.serve.schema import schema as look

    return look(load(declaration), table)
