"""Sources whose files are objects: which are new, what is in them, and that a version is what was listed."""

from __future__ import annotations

import gzip
import io
import pickle
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore
from tests.hostile.situation import command

from frazil.api import init, load
from frazil.bronze.read import Batch, ChangedWhileReadError, records
from frazil.erase.erase import SourceFiles, existing_files
from frazil.iceberg.metadata import read_file
from frazil.serve.check.dump import dump_rows
from frazil.sources.comparison import Compared
from frazil.sources.dms.source import DmsSource
from frazil.sources.kinds import source_of
from frazil.sources.ledger import KnownFile, Ledger
from frazil.sources.new_files import FileChangedError
from frazil.sources.snapshot.source import DumpReader, all_dumps
from frazil.spec import Lake, Pipeline, Table
from frazil.spec.check.check import problems
from frazil.storage import object_store, store_client
from frazil.storage.base import MissingFolderError
from frazil.storage.files import address_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from frazil.sources.base import NewFile, SourceDelta

LOAD = b"id,city\n1,Oslo\n2,Rome\n"
CHANGE = b"Op,id,city\nU,1,Bergen\n"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store = MemoryStore()
    monkeypatch.setattr(store_client, "client", lambda _: store)
    return store


def table(kind: str = "dms", **source: Any) -> Table:
    """Declare a table whose files are below ``s3://raw/orders``."""
    source = {"kind": kind, "path": "s3a://raw/orders"} | source
    declared = {"name": "orders", "source": source, "keys": ["id"]}
    return Pipeline.model_validate(
        {"pipeline": "p", "lake": {"warehouse": "lake"}, "stores": {"s3://raw": KEY}, "tables": [declared]}
    ).tables[0]


KEY = {"access_key_id": "A", "secret_access_key": "${env:SECRET}", "endpoint": "http://127.0.0.1:1"}


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "B")


def taken(found: SourceDelta) -> Ledger:
    """Return the ledger once these files are taken."""
    known = {
        file.path: KnownFile(
            size_bytes=file.size_bytes, modified_ns=file.modified_ns, sha256=file.sha256, same_as=file.same_as
        )
        for file in (*found.files, *found.duplicates)
    }
    return Ledger(files=known)


def fields(one: Table, file: NewFile, *names: str) -> list[tuple[Any, ...]]:
    """Read the records of a file as an executor does, and return some of their fields."""
    source, file = pickle.loads(pickle.dumps((source_of(one), file)))  # noqa: S301
    batch = Batch(
        source=source, columns=source.columns([file], ()), number=1, arrived_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    rows = pa.Table.from_batches(list(records(file, batch)), batch.schema).to_pylist()
    return [tuple(row[name] for name in names) for row in rows if row["_cdc_kind"] == "record"]


def parquet(columns: Mapping[str, list[Any]]) -> bytes:
    """Return a Parquet file of these columns."""
    file = io.BytesIO()
    pq.write_table(pa.table(dict(columns)), file)
    return file.getvalue()


def test_files_of_dms_in_a_bucket_are_found_read_and_known_again(bucket: MemoryStore, tmp_path: Path) -> None:
    obstore.put(bucket, "orders/LOAD00000001.csv", LOAD)
    obstore.put(bucket, "orders/2026/20260101-000000000.csv.gz", gzip.compress(CHANGE))
    obstore.put(bucket, "orders/20260102-000000000.csv", CHANGE)
    obstore.put(bucket, "orders/notes.txt", b"?")
    orders = table(header=True)

    found = source_of(orders).find_new(tmp_path, Ledger())

    load, packed, change = found.files
    assert [load.path, packed.path] == [
        "s3://raw/orders/LOAD00000001.csv",
        "s3://raw/orders/2026/20260101-000000000.csv.gz",
    ]
    assert (load.load, packed.load) == (True, False)
    assert [path for path, _ in found.passed] == ["s3://raw/orders/notes.txt"]
    assert fields(orders, load, "id", "city") == [("1", "Oslo"), ("2", "Rome")]
    assert fields(orders, packed, "op", "city") == [("U", "Bergen")] == fields(orders, change, "op", "city")
    again = source_of(orders).find_new(tmp_path, taken(found))
    assert (again.files, again.known) == ((), 3)


def test_known_objects_are_counted_and_not_kept_while_a_prefix_is_listed(bucket: MemoryStore, tmp_path: Path) -> None:
    for number in range(3):
        obstore.put(bucket, f"orders/2026010{number + 1}-000000000.csv", CHANGE + b"U,2,x\n" * number)
    orders = table(header=True, path=["s3://raw/orders", "s3://raw/orders/*1*.csv"])
    source = DmsSource(orders)
    ledger = taken(source.find_new(tmp_path, Ledger()))
    obstore.put(bucket, "orders/20260104-000000000.csv", CHANGE + b"U,9,y\n")

    listing, found = source.list(tmp_path, ledger), source.find_new(tmp_path, ledger)

    assert ([file.name for file in listing.files], listing.unchanged) == (["20260104-000000000.csv"], 3)
    assert ([file.name for file in found.files], found.known) == (["20260104-000000000.csv"], 3)


def test_an_object_of_the_same_size_and_second_is_another_version(bucket: MemoryStore, tmp_path: Path) -> None:
    obstore.put(bucket, "orders/LOAD00000001.csv", LOAD)
    source = source_of(table(header=True))
    found = source.find_new(tmp_path, Ledger())

    obstore.put(bucket, "orders/LOAD00000001.csv", LOAD.replace(b"Oslo", b"Kiel"))

    with pytest.raises(FileChangedError, match="LOAD00000001"):
        source.find_new(tmp_path, taken(found))


def test_an_object_replaced_after_it_was_listed_is_not_read_as_that(
    bucket: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "_PART_BYTES", 4)
    obstore.put(bucket, "orders/LOAD00000001.csv", LOAD)
    orders = table(header=True)
    [file] = source_of(orders).find_new(tmp_path, Ledger()).files

    obstore.put(bucket, "orders/LOAD00000001.csv", LOAD.replace(b"Oslo", b"Kiel"))

    with pytest.raises(ChangedWhileReadError, match="another object has its place"):
        fields(orders, file, "id")


def test_every_format_and_kind_is_read_and_counted(bucket: MemoryStore, tmp_path: Path) -> None:
    obstore.put(bucket, "orders/LOAD00000001.parquet", parquet({"id": [1, 2], "city": ["Oslo", None]}))
    obstore.put(bucket, "orders/LOAD00000002.parquet", b"no footer")
    line = b'{"payload": {"op": "c", "before": null, "after": {"id": 7}, "source": {"lsn": 5, "ts_ms": 1}}}\n'
    obstore.put(bucket, "events/1.json", line)
    dms = table(format="parquet", settle_seconds=0)
    debezium = table("debezium", path="s3://raw/events", table="public.orders")

    sound, broken = source_of(dms).find_new(tmp_path, Ledger()).files
    [events] = source_of(debezium).list(tmp_path).files

    assert fields(dms, sound, "id", "city") == [("1", "Oslo"), ("2", None)]
    assert broken.broken is not None
    assert fields(dms, broken, "id") == []
    assert source_of(dms).recount(sound.uri) == 2
    assert source_of(dms).recount(broken.uri) == 1
    assert source_of(debezium).recount(events.uri) == 1


def test_dumps_in_a_bucket_are_its_next_parts(bucket: MemoryStore, tmp_path: Path) -> None:
    obstore.put(bucket, "orders/2026-01-01/a.csv", b"id,city\n1,Oslo\n")
    obstore.put(bucket, "orders/2026-01-01/b.csv", b"id,city\n2,Rome\n")
    obstore.put(bucket, "orders/2026-01-02.parquet", parquet({"id": ["1"], "city": ["Bergen"]}))
    orders = table("snapshot", landing="landing")

    first, second = all_dumps(orders, tmp_path)

    assert (first.name, first.taken_at, len(first.files)) == ("2026-01-01", "2026-01-01 00:00:00", 2)
    assert second.name == "2026-01-02.parquet"
    reader = DumpReader(first, orders, tmp_path)
    rows = pa.Table.from_batches(
        reader.batches(["id", "city"], pa.schema([("id", pa.string()), ("city", pa.string())]))
    )
    assert rows.to_pylist() == [{"id": "1", "city": "Oslo"}, {"id": "2", "city": "Rome"}]


def test_a_path_of_the_ledger_leads_to_its_object(bucket: MemoryStore, tmp_path: Path) -> None:
    obstore.put(bucket, "orders/a.csv", b"1")
    (tmp_path / "b.csv").write_text("2")

    paths = ["b.csv", "s3://raw/orders/a.csv", "s3://raw/orders/gone.csv"]
    assert existing_files(paths, lambda path: address_of(path, tmp_path)) == SourceFiles(there=(paths[0], paths[1]))
    assert read_file("s3://raw/orders/a.csv") == b"1"


def test_a_landing_folder_of_a_capture_is_on_this_machine() -> None:
    orders = table("snapshot", landing="s3://raw/landing")

    found = problems(Pipeline(pipeline="p", lake=Lake(warehouse="lake"), tables=(orders,)))

    assert any("no folder of this machine" in one.message for one in found)


def test_a_project_begins_from_files_in_a_bucket(bucket: MemoryStore, tmp_path: Path) -> None:
    obstore.put(bucket, "dms/shop/orders/2026/01/LOAD00000001.csv", LOAD)
    obstore.put(bucket, "dms/shop/orders/2026/02/20260201-101500123.csv", CHANGE)
    obstore.put(bucket, "dms/shop/hosts/LOAD00000001.csv.gz", gzip.compress(LOAD))

    begun = init(tmp_path / "whole", source="s3a://raw/dms/shop/")
    one = init(tmp_path / "one", source="s3://raw/dms/shop/hosts")
    said = command("init", f"{tmp_path / 'said'}", "--from", "s3://raw/dms/shop")

    assert [(table.name, table.path, table.keys) for table in begun.discovered] == [
        ("hosts", "s3://raw/dms/shop/hosts", ("id",)),
        ("orders", "s3://raw/dms/shop/orders", ("id",)),
    ]
    assert [(table.name, table.path) for table in one.discovered] == [("hosts", "s3://raw/dms/shop/hosts")]
    assert said.code == 0, said.text
    assert load(tmp_path / "said").tables == load(begun.declaration).tables
    orders = load(begun.declaration).tables[1]
    assert len(source_of(orders).find_new(tmp_path, Ledger()).files) == len(begun.discovered)


def test_a_mart_can_be_compared_with_a_dump_in_a_bucket(bucket: MemoryStore) -> None:
    obstore.put(bucket, "dumps/orders/1.csv", LOAD)
    obstore.put(bucket, "dumps/orders/2.csv", b"id,city\n3,Bern\n")
    orders = table()
    pipeline = Pipeline(pipeline="p", lake=Lake(warehouse="lake"), stores=orders.stores, tables=(orders,))
    key = [Compared(name="id", type="int", form="number")]
    columns = [*key, Compared(name="city", type="string", form="text")]

    for place, keys in {"s3://raw/dumps/orders": ["1", "2", "3"], "s3a://raw/dumps/orders/2.csv": ["3"]}.items():
        with dump_rows(pipeline, orders, place) as rows:
            assert rows.columns == ("id", "city")
            assert sum(count for count, _ in rows.sums(key, columns).values()) == len(keys)
    with pytest.raises(MissingFolderError), dump_rows(pipeline, orders, "s3://raw/dumps/none"):
        pass
