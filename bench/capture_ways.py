"""Ways from a PostgreSQL table to a current table: each follows the changes of ``orders`` in a process of its own."""

from __future__ import annotations

import os
from typing import Final

import frazil
from bench.capture_delta import Debezium, Dlt
from bench.capture_slot import COLUMNS
from bench.capture_way import TOTALS, Way
from frazil.serve.query.query import query
from frazil.sources.audit_log.database import audit_trigger
from frazil.spark.session import spark_session
from frazil.spec import Postgres


class Frazil(Way):
    """``kind: postgres``: landing files, bronze, silver with checks, and the current table."""

    def open(self) -> None:
        """Start Spark, and run once."""
        os.environ["BENCH_DB"] = self.url
        source = Postgres(url="${env:BENCH_DB}", table="orders", landing="./landing")
        table = frazil.Table(name="orders", source=source, keys=("id",))
        pipeline = frazil.Pipeline(pipeline="bench", lake=frazil.Lake(warehouse="./lake"), tables=(table,))
        self._pipeline = pipeline.at(self.home)
        self._spark = spark_session(self._pipeline, memory=self.heap)
        self.apply(0)

    def apply(self, changes: int) -> None:
        """Run once."""
        del changes
        frazil.run(self._pipeline, spark=self._spark)

    def totals(self) -> list[str]:
        """Ask the mart."""
        [row] = query(self._pipeline, f"SELECT {TOTALS} FROM marts.orders").rows
        return [*map(str, row)]


class Recipe(Way):
    """An audit table, its new records as JSON by Spark, the newest of every key by a window, and a MERGE."""

    def open(self) -> None:
        """Make log and trigger, start Spark, and load the first rows."""
        from bench.contenders.spark import create_sql  # noqa: PLC0415 - starts no Spark, and others do without

        source = frazil.DmsFiles(path=("none",))
        table = frazil.Table(name="none", source=source, keys=("id",))
        pipeline = frazil.Pipeline(pipeline="bench", lake=frazil.Lake(warehouse="lake"), tables=(table,))
        self._pipeline = pipeline.at(self.home)
        self._spark = spark_session(self._pipeline, memory=self.heap)
        with self.session() as session:
            session.execute(audit_trigger("public.audit_log", ["public.orders"]).encode())
        self._upto = 0
        self._spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
        file = self.copied("SELECT *, 'I' AS op FROM orders", "first.csv")
        types = ", ".join(f"{name} {kind}" for name, kind in _SPARK_TYPES.items())
        self._spark.read.csv(file, f"{types}, op string", escape='"').createOrReplaceTempView("first")
        rows = f"SELECT {', '.join(COLUMNS)} FROM first"
        self._spark.sql(create_sql("lake.bench.orders", rows, mode="copy-on-write"))

    def apply(self, changes: int) -> None:
        """Read what is new in the log, and merge it."""
        from bench.contenders.spark import merge_sql  # noqa: PLC0415 - as above

        select = f"SELECT audit_event_id, audit_operation, raw_data FROM audit_log WHERE audit_event_id > {self._upto}"
        file = self.copied(select, f"log-{self._upto}.csv")
        self._upto += changes
        log = self._spark.read.csv(file, "n bigint, op string, raw_data string", escape='"', multiLine=False)
        log.createOrReplaceTempView("log")
        types = ", ".join(f"{name} {kind}" for name, kind in _SPARK_TYPES.items())
        self._spark.sql(
            f"""SELECT op, row.* FROM (SELECT *, row_number() OVER (PARTITION BY row.id ORDER BY n DESC) AS place
                FROM (SELECT n, op, from_json(raw_data, '{types}') AS row FROM log)) WHERE place = 1"""
        ).localCheckpoint().createOrReplaceTempView("newest")
        self._spark.sql(merge_sql("lake.bench.orders", "newest", COLUMNS))

    def totals(self) -> list[str]:
        """Ask the table."""
        sql = TOTALS.replace("count(*) FILTER (WHERE status = 'paid')", "count_if(status = 'paid')")
        return [*map(str, self._spark.sql(f"SELECT {sql} FROM lake.bench.orders").collect()[0])]


_SPARK_TYPES: Final = {
    "id": "bigint",
    "customer_id": "int",
    "status": "string",
    "amount": "decimal(12,2)",
    "note": "string",
    "updated_at": "timestamp",
    "payload": "string",
}

WAYS: Final[dict[str, type[Way]]] = {
    "frazil-slot": Frazil,
    "dlt-slot": Dlt,
    "debezium-slot": Debezium,
    "recipe-audit": Recipe,
}
"""Name of a contender -> its way."""
