from __future__ import annotations

import socket
import sqlite3
from typing import TYPE_CHECKING

import pytest

from frazil.catalog import catalogs as catalog_clients
from frazil.recover.doctor import Diagnosis, diagnose
from frazil.spec import DmsFiles, JdbcCatalog, Lake, Pipeline, Table

if TYPE_CHECKING:
    from pathlib import Path


def pipeline(folder: Path, path: str = "landing", lake: Lake | None = None) -> Pipeline:
    table = Table(name="hosts", source=DmsFiles(path=(path,)), keys=("id",))
    return Pipeline(pipeline="shop", lake=lake or Lake(warehouse="lake"), tables=(table,)).at(folder)


def finding(declared: Pipeline | None, what: str) -> Diagnosis:
    return next(found for found in diagnose(declared) if found.what == what)


def test_the_machine_alone_is_examined_without_a_declaration() -> None:
    looked_at = [found.what for found in diagnose(None)]

    assert looked_at[:2] == ["python", "java"]
    assert {"memory", "clock", "jar", "cache"} <= set(looked_at)
    assert "warehouse" not in looked_at


def test_a_missing_java_is_a_finding_with_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FRAZIL_JAVA_HOME", f"{tmp_path}")

    found = finding(None, "java")

    assert found.ok is False
    assert found.hint is not None
    assert "frazil[java]" in found.hint


def test_jars_that_are_not_here_yet_do_not_stop_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FRAZIL_CACHE", f"{tmp_path / 'cache'}")

    found = finding(None, "jar")

    assert (found.ok, found.hint) == (None, "the next run fetches it")


def test_a_warehouse_that_does_not_exist_yet_is_fine(tmp_path: Path) -> None:
    found = finding(pipeline(tmp_path), "warehouse")

    assert found == Diagnosis(what="warehouse", ok=True, detail=f"{tmp_path / 'lake'} (made by the first run)")


def test_a_file_where_the_warehouse_should_be_is_found(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("not a folder")

    assert finding(pipeline(tmp_path), "warehouse").ok is False


@pytest.mark.parametrize(
    ("path", "made", "ok"),
    [
        ("landing", "landing", True),
        ("landing", "elsewhere", False),
        ("landing/*/hosts_[0-9]*.csv", "landing", True),
        ("landing/shop_*/hosts", "landing", True),
        ("landing/shop_*/hosts", "elsewhere", False),
        ("hdfs://host/landing", "elsewhere", None),
    ],
)
def test_a_source_is_looked_at_up_to_its_first_wildcard(
    tmp_path: Path, path: str, made: str, *, ok: bool | None
) -> None:
    (tmp_path / made).mkdir()

    assert finding(pipeline(tmp_path, path), "source of hosts").ok is ok


def test_a_catalog_file_is_opened_and_its_tables_counted(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    with sqlite3.connect(tmp_path / "lake" / "catalog.db") as database:
        database.execute(
            "CREATE TABLE iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)"
        )
        database.execute("INSERT INTO iceberg_tables VALUES ('lake', 'marts', 'hosts', 'file:///hosts', 'TABLE')")
    database.close()

    assert finding(pipeline(tmp_path), "catalog").detail == f"{tmp_path / 'lake' / 'catalog.db'}: 1 table"


def test_a_damaged_catalog_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "catalog.db").write_bytes(b"this is no database" * 100)

    found = finding(pipeline(tmp_path), "catalog")

    assert found.ok is False
    assert "not a database" in found.detail


def test_doctor_checks_the_catalog_server_without_showing_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAKE_PASSWORD", "s3cret")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        uri = f"jdbc:postgresql://ada:${{env:LAKE_PASSWORD}}@127.0.0.1:{port}/lake"
        declared = pipeline(tmp_path, lake=Lake(warehouse="lake", catalog=JdbcCatalog(type="jdbc", uri=uri)))
        reached = finding(declared, "catalog")
    closed = finding(declared, "catalog")

    assert reached == Diagnosis(what="catalog", ok=True, detail=f"jdbc: 127.0.0.1:{port} answers; no login was tried")
    assert closed.ok is False
    assert "s3cret" not in f"{diagnose(declared)}"


def test_a_catalog_in_a_sqlite_file_of_its_own_needs_a_folder(tmp_path: Path) -> None:
    def found(path: str) -> Diagnosis:
        catalog = JdbcCatalog(type="jdbc", uri=f"jdbc:sqlite:{tmp_path}/{path}?journal_mode=WAL")
        lake = Lake(warehouse="lake", catalog=catalog)
        return finding(pipeline(tmp_path, lake=lake), "catalog")

    new, nowhere = found("catalog.db"), found("none/catalog.db")
    (tmp_path / "catalog.db").touch()

    assert (new.ok, new.detail) == (True, f"jdbc: {tmp_path}/catalog.db (made by the first run)")
    assert (found("catalog.db").ok, found("catalog.db").detail) == (True, f"jdbc: {tmp_path}/catalog.db")
    assert (nowhere.ok, nowhere.hint is None) == (False, False)


def test_a_secret_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    catalog = JdbcCatalog(type="jdbc", uri="jdbc:postgresql://db/lake", password="${env:FRAZIL_NOT_SET}")  # noqa: S106

    found = finding(pipeline(tmp_path, lake=Lake(warehouse="lake", catalog=catalog)), "catalog")

    assert found.ok is False
    assert found.detail == "lake.catalog.password: ${env:FRAZIL_NOT_SET} is not set"


def test_doctor_reports_the_missing_client_of_a_jdbc_catalog(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    catalog = JdbcCatalog(type="jdbc", uri="jdbc:postgresql://127.0.0.1:1/lake")
    declared = pipeline(tmp_path, lake=Lake(warehouse="lake", catalog=catalog))
    monkeypatch.setattr(catalog_clients, "find_spec", lambda _: None)

    found = finding(declared, "catalog client")

    assert (found.ok, found.detail) == (None, "a jdbc catalog needs psycopg2, which is not installed")
    assert found.hint is not None
    assert "frazil[catalogs]" in found.hint
    assert "catalog client" not in [other.what for other in diagnose(pipeline(tmp_path))]
