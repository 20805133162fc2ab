"""A lake as an object: its tables and stories, for notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.api.declaring import load, needs_spark
from frazil.api.looking import lineage, past_run, runs
from frazil.api.reading import key, query, status
from frazil.api.running import session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from frazil.api.declaring import Declaration
    from frazil.api.reading import Status
    from frazil.interop.lineage import Lineage
    from frazil.serve.key import KeyStory
    from frazil.serve.query.query import Result
    from frazil.serve.runs import PastRun
    from frazil.spec import Pipeline


def connect(declaration: Declaration) -> Connection:
    """Return the lake of a declaration as an object; reads the declaration only, without a JVM.

    Raises:
        DeclarationError: the declaration is wrong.
    """
    return Connection(pipeline=load(declaration))


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The lake of a pipeline. Each method is the function of :mod:`frazil.api` of the same name.

    No connection stays open: each call reads the newest tables.

    Attributes:
        pipeline: the declaration.
    """

    pipeline: Pipeline

    def table(self, name: str, *, as_of: str | None = None) -> TableRows:
        """Return all rows of a table; they are read when they are asked for.

        Args:
            name: such as ``marts.orders``.
            as_of: a time, a snapshot, a cut or a batch; None for now.
        """
        return TableRows(pipeline=self.pipeline, name=name, as_of=as_of)

    def query(self, sql: str, *, limit: int | None = None, as_of: str | None = None) -> Result:
        """Return the rows of a query as :func:`frazil.api.query` does; for all rows of a table use :meth:`table`."""
        return query(self.pipeline, sql, limit=limit, as_of=as_of)

    def key(self, table: str, values: Mapping[str, str] | Sequence[str]) -> KeyStory:
        """Return everything that the lake holds of one key, as :func:`frazil.api.key` does."""
        return key(self.pipeline, table, values)

    def status(self) -> Status:
        """Return the state of every table, as :func:`frazil.api.status` does."""
        return status(self.pipeline)

    def runs(self, *, limit: int | None = 20) -> tuple[PastRun, ...]:
        """Return the recorded runs, newest first, as :func:`frazil.api.runs` does."""
        return runs(self.pipeline, limit=limit)

    def past_run(self, run: str = "latest") -> PastRun:
        """Return one run with its commits, as :func:`frazil.api.past_run` does."""
        return past_run(self.pipeline, run)

    def lineage(self, table: str | None = None) -> Lineage:
        """Return what a table is made of and what is made of it, as :func:`frazil.api.lineage` does."""
        return lineage(self.pipeline, table)

    @needs_spark
    def spark(self, name: str, *, spark: SparkSession | None = None) -> DataFrame:
        """Return a table as a Spark DataFrame; starts a JVM on its first use.

        Args:
            name: such as ``marts.orders``.
            spark: an existing session with the lake, such as a notebook's; with None, a session is started or reused.
        """
        from frazil.spark.session import lake_session
        from frazil.spec import CATALOG
        from frazil.spec.sql.names import quote

        here = session(self.pipeline) if spark is None else lake_session(spark, self.pipeline)
        return here.table(quote(CATALOG, *name.removeprefix(f"{CATALOG}.").split(".")))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRows:
    """All rows of a table, with Frazil's own columns; each call reads them again.

    Attributes:
        pipeline: the declaration.
        name: name of the table.
        as_of: the point at which it is read; None for the time of the call.
    """

    pipeline: Pipeline
    name: str
    as_of: str | None = None

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table.

        Raises:
            QueryError: no such table.
            PointError: ``as_of`` is not a point, or the table has no snapshot of that point.
        """
        from frazil.serve.query.export import read_table

        return read_table(self.pipeline, self.name, self.as_of)

    def df(self) -> pd.DataFrame:
        """Return the rows as a pandas frame with Arrow's types: integers with NULL and decimals stay exact."""
        from frazil.serve.query.query import pandas_of

        return pandas_of(self.to_arrow())

    def pl(self) -> pl.DataFrame:
        """Return the rows as a Polars frame.

        Raises:
            SetupError: Polars is not installed.
        """
        from frazil.serve.query.query import polars_of

        return polars_of(self.to_arrow())
