"""Catalogs of services, read without Spark: their tables and snapshots."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from moto import mock_aws
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError, ServerError

from frazil import api
from frazil.catalog import catalogs as catalog_clients
from frazil.catalog.catalogs import catalog_reader
from frazil.catalog.trouble import CatalogError
from frazil.spec import CATALOG, DmsFiles, Lake, Pipeline, ServiceCatalog, Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def glue(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Answer as AWS Glue does, in this process."""
    keys = {"glue.access-key-id": "A", "glue.secret-access-key": "B", "glue.region": "eu-west-1"}
    for name, value in (("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "B"), ("AWS_REGION", "eu-west-1")):
        monkeypatch.setenv(name, value)
    with mock_aws():
        yield keys


def declared(folder: Path, properties: dict[str, str]) -> Pipeline:
    catalog = ServiceCatalog(type="glue", properties=properties)
    table = Table(name="orders", source=DmsFiles(path=("landing",), header=True), keys=("id",))
    return Pipeline(pipeline="shop", lake=Lake(warehouse="lake", catalog=catalog), tables=(table,)).at(folder)


@pytest.mark.long
def test_tables_that_glue_knows_are_found_and_queried(glue: dict[str, str], tmp_path: Path) -> None:
    shop = declared(tmp_path, glue)
    assert catalog_reader(shop).tables() == {}
    catalog = load_catalog(CATALOG, type="glue", warehouse=f"file://{tmp_path}/lake", **glue)
    catalog.create_namespace("marts")
    rows = pa.table({"id": [1, 2], "city": ["Oslo", "Rome"]})
    made = catalog.create_table("marts.orders", rows.schema, location=f"file://{tmp_path}/lake/marts/orders")
    made.append(rows)

    located = catalog_reader(shop).tables()

    assert located == {("marts", "orders"): catalog.load_table("marts.orders").metadata_location}
    assert api.query(shop, "select id, city from marts.orders order by id").rows == [(1, "Oslo"), (2, "Rome")]


def test_a_service_that_does_not_answer_is_an_error_of_the_catalog(tmp_path: Path) -> None:
    nowhere = {"glue.endpoint": "http://127.0.0.1:1", "glue.region": "eu-west-1", "glue.max-retries": "1"}
    nowhere |= {"glue.access-key-id": "A", "glue.secret-access-key": "secret-of-glue"}

    with pytest.raises(CatalogError, match="glue catalog does not answer") as caught:
        catalog_reader(declared(tmp_path, nowhere)).tables()

    assert "secret-of-glue" not in f"{caught.value}{caught.value.hint}"


class Shared:
    """A catalog in which other people's tables answer badly."""

    def __init__(self, broken: str) -> None:
        self.broken, self.asked = broken, set[str]()

    def list_tables(self, namespace: str) -> list[tuple[str, str]]:
        return [(namespace, "theirs"), (namespace, "dropped")]

    def load_table(self, path: tuple[str, str]) -> SimpleNamespace:
        self.asked.add(".".join(path))
        if path[-1] == self.broken:
            raise ServerError
        if path[-1] == "dropped":
            raise NoSuchTableError
        return SimpleNamespace(metadata_location=f"s3://{path}", io=SimpleNamespace(properties={}), location=lambda: "")


def test_tables_of_others_are_not_asked_for_and_change_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    catalog = Shared(broken="theirs")
    monkeypatch.setattr("pyiceberg.catalog.load_catalog", lambda *_, **__: catalog)
    reader = catalog_reader(declared(tmp_path, {}))

    own = reader.tables(of_others=False)

    assert {name for name in catalog.asked if "theirs" in name} == set()
    assert reader.tables() == own != {}


def test_a_table_of_the_pipeline_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pyiceberg.catalog.load_catalog", lambda *_, **__: Shared(broken="orders"))

    with pytest.raises(CatalogError, match=r"glue catalog does not answer for \w+\.orders: ServerError"):
        catalog_reader(declared(tmp_path, {})).tables(of_others=False)


@pytest.mark.parametrize(("there", "client"), [(["psycopg2", "psycopg"], "psycopg2"), (["psycopg"], "psycopg")])
def test_any_installed_client_of_postgresql_reads_its_catalog(
    there: list[str], client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_clients, "find_spec", lambda name: name if name in there else None)

    assert catalog_clients.postgres_client() == client
