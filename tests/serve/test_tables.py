"""The catalog and the metadata, read as files."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from frazil.catalog.catalogs import CatalogClientError, NoLakeError
from frazil.catalog.trouble import CatalogError
from frazil.iceberg.metadata import DamagedTableError, NotOnThisMachineError
from frazil.iceberg.snapshot import TableSnapshot
from frazil.serve.tables import read_snapshot, tables
from frazil.spec import DmsFiles, JdbcCatalog, Lake, Pipeline, ServiceCatalog, Table

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.spec import EmbeddedCatalog

CATALOG_SQL = """
    CREATE TABLE iceberg_tables(catalog_name TEXT, table_namespace TEXT, table_name TEXT,
        metadata_location TEXT, previous_metadata_location TEXT, iceberg_type TEXT);
    INSERT INTO iceberg_tables VALUES
        ('lake', 'marts', 'hosts', 'file:/wh/marts/hosts/metadata/1.metadata.json', NULL, 'TABLE'),
        ('lake', 'marts', 'old', 'file:/wh/marts/old/metadata/1.metadata.json', NULL, NULL),
        ('lake', 'marts', 'hosts_live', 'file:/wh/marts/hosts_live/metadata/1.metadata.json', NULL, 'VIEW'),
        ('other', 'marts', 'hosts', 'file:/elsewhere/metadata/1.metadata.json', NULL, 'TABLE');
    """
LOCATED = {
    ("marts", "hosts"): "file:/wh/marts/hosts/metadata/1.metadata.json",
    ("marts", "old"): "file:/wh/marts/old/metadata/1.metadata.json",
}


def declared(folder: Path, catalog: EmbeddedCatalog | JdbcCatalog | ServiceCatalog | None = None) -> Pipeline:
    lake = Lake(warehouse="lake") if catalog is None else Lake(warehouse="lake", catalog=catalog)
    table = Table(name="hosts", source=DmsFiles(path=("landing",)), keys=("id",))
    return Pipeline(pipeline="shop", lake=lake, tables=(table,)).at(folder)


def snapshot(number: int, parent: int | None, **summary: Any) -> dict[str, Any]:
    return {
        "snapshot-id": number,
        "timestamp-ms": 1_700_000_000_000 + number,
        "summary": {"operation": "append", **summary},
    } | ({} if parent is None else {"parent-snapshot-id": parent})


def metadata(*snapshots: dict[str, Any], main: int | None) -> str:
    schema = {"schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "int"}]}
    refs = {} if main is None else {"main": {"snapshot-id": main, "type": "branch"}}
    return json.dumps({"schemas": [schema], "current-schema-id": 0, "snapshots": snapshots, "refs": refs})


def test_a_lake_that_was_never_made_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(NoLakeError, match="frazil run"):
        tables(declared(tmp_path))

    (tmp_path / "lake").mkdir()
    sqlite3.connect(tmp_path / "lake" / "catalog.db").close()
    with pytest.raises(NoLakeError, match="frazil run"):
        tables(declared(tmp_path))


def test_tables_are_found_while_another_process_writes(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    with closing(sqlite3.connect(tmp_path / "lake" / "catalog.db", isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.executescript(CATALOG_SQL)
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM iceberg_tables")

        assert tables(declared(tmp_path)) == LOCATED


def test_a_file_other_than_a_catalog_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "catalog.db").write_text("not a database at all, but long enough to be one", "utf-8")

    with pytest.raises(CatalogError, match="cannot be read"):
        tables(declared(tmp_path))


def test_a_jdbc_catalog_is_read_directly(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shared.db")) as database:
        database.executescript(CATALOG_SQL)
    uri = f"jdbc:sqlite:{tmp_path}/shared.db?journal_mode=WAL"

    assert tables(declared(tmp_path, JdbcCatalog(type="jdbc", uri=uri))) == LOCATED


def test_only_the_tables_that_are_looked_for_are_found(tmp_path: Path) -> None:
    """Those of the same name in another namespace are others."""
    (tmp_path / "lake").mkdir()
    with closing(sqlite3.connect(tmp_path / "lake" / "catalog.db")) as database:
        database.executescript(CATALOG_SQL)
    shop = declared(tmp_path)

    assert tables(shop, only={("marts", "old"), ("marts", "new")}) == {("marts", "old"): LOCATED["marts", "old"]}
    assert tables(shop, only={("silver", "old")}) == {}


def test_an_unused_jdbc_catalog_means_that_the_lake_does_not_exist_yet(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "empty.db").close()
    catalog = JdbcCatalog(type="jdbc", uri=f"jdbc:sqlite:{tmp_path}/empty.db")

    with pytest.raises(NoLakeError):
        tables(declared(tmp_path, catalog))


def test_a_jdbc_catalog_without_a_reader_is_an_error(tmp_path: Path) -> None:
    catalog = JdbcCatalog(type="jdbc", uri="jdbc:mysql://db/lake")

    with pytest.raises(CatalogClientError, match="on mysql"):
        tables(declared(tmp_path, catalog))


def test_a_catalog_that_does_not_answer_keeps_its_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_PASSWORD", "s3cr3t")
    uri = "jdbc:sqlite:/nowhere/at/all.db?password=${env:LAKE_PASSWORD}"

    with pytest.raises(CatalogError, match="does not answer") as caught:
        tables(declared(tmp_path, JdbcCatalog(type="jdbc", uri=uri)))

    assert "s3cr3t" not in str(caught.value)


def test_a_bookmark_outlives_commits_that_carry_none(tmp_path: Path) -> None:
    bookmarked = snapshot(2, 1, **{"frazil.bookmark": '{"batch": 7}'})
    compacted = snapshot(3, 2, **{"total-records": "5", "total-files-size": "99", "total-delete-files": "1"})
    branch = snapshot(4, 2, **{"frazil.bookmark": '{"batch": 8}'})
    file = tmp_path / "3.metadata.json"
    file.write_text(metadata(snapshot(1, None), bookmarked, compacted, branch, main=3), encoding="utf-8")

    found = read_snapshot(f"file:{file}")

    assert (found.batch, found.records, found.size_bytes, found.delete_files) == (7, 5, 99, 1)
    assert (found.snapshots, found.columns) == (4, {"id": "int"})
    assert found.committed_at is not None
    assert found.committed_at.isoformat() == "2023-11-14T22:13:20.003000+00:00"


def test_metadata_may_be_compressed(tmp_path: Path) -> None:
    file = tmp_path / "1.gz.metadata.json"
    file.write_bytes(gzip.compress(metadata(main=None).encode()))

    assert read_snapshot(f"file://{file}") == TableSnapshot(columns={"id": "int"})


def test_a_table_that_does_not_exist_stands_nowhere() -> None:
    assert (read_snapshot(None).batch, read_snapshot(None).bookmark) == (0, {})


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff\xfe"])
def test_damaged_metadata_is_an_error_of_storage(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "1.metadata.json"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(DamagedTableError, match=r"1\.metadata\.json (is missing|cannot be read)"):
        read_snapshot(f"file:{file}")


def test_a_table_that_only_spark_can_read_has_its_own_error() -> None:
    with pytest.raises(NotOnThisMachineError, match="hdfs://name"):
        read_snapshot("hdfs://name/marts/hosts/metadata/1.metadata.json")
