"""Where declared folders are: one answer for the lock, the catalog, the jars, the rules and the sources."""

from __future__ import annotations

from contextlib import ExitStack
from threading import Timer
from typing import TYPE_CHECKING

import pytest

from frazil.audit.run_files import runs_folder
from frazil.catalog.conf import PREFIX, catalog_conf
from frazil.catalog.lock import lock, waiting_lock
from frazil.errors import BusyError
from frazil.sources.dms.layout import list_files
from frazil.spark.jars import AWS, jars_for
from frazil.spec import DmsFiles, JdbcCatalog, Lake, Pipeline, Table
from frazil.spec.check.check import problems
from frazil.spec.location import warehouse

if TYPE_CHECKING:
    from pathlib import Path

ON_POSTGRESQL = JdbcCatalog(type="jdbc", uri="jdbc:postgresql://db/lake")


def pipeline(folder: Path, lake: str, landing: str = "landing", *, embedded: bool = True) -> Pipeline:
    table = Table(name="orders", source=DmsFiles(path=(landing,), header=True), keys=("id",))
    declared = Lake(warehouse=lake) if embedded else Lake(warehouse=lake, catalog=ON_POSTGRESQL)
    return Pipeline(pipeline="shop", lake=declared, tables=(table,)).at(folder)


def told(declared: Pipeline) -> list[str]:
    return [f"{problem.path[0]}.{problem.path[-1]}: {problem}" for problem in problems(declared)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a home folder that ``~`` and ``${env:DATA}`` lead to."""
    folder = tmp_path / "home"
    (folder / "landing").mkdir(parents=True)
    (folder / "landing" / "LOAD1.csv").write_text("id\n1\n", encoding="utf-8")
    monkeypatch.setenv("HOME", f"{folder}")
    monkeypatch.setenv("DATA", f"{folder}")
    return folder


@pytest.mark.parametrize("declared", ["~/lake", "${env:DATA}/lake", "file://${env:DATA}/lake", "../home/lake"])
def test_lock_catalog_and_records_are_in_one_warehouse(tmp_path: Path, home: Path, declared: str) -> None:
    (tmp_path / "project").mkdir()
    shop = pipeline(tmp_path / "project", declared)

    with lock(shop):
        settings = catalog_conf(shop)

    assert (home / "lake" / ".shop.lock").exists()
    assert settings[f"{PREFIX}.warehouse"] == f"file://{home}/lake"
    assert settings[f"{PREFIX}.uri"].startswith(f"jdbc:sqlite:{home}/lake/catalog.db?")
    assert runs_folder(shop) == home / "lake" / ".frazil" / "runs"
    assert [path.name for path in (tmp_path / "project").iterdir()] == []


def test_a_waiting_process_gets_the_lock_when_it_is_released(tmp_path: Path) -> None:
    shop = pipeline(tmp_path, "lake")
    with ExitStack() as held:
        held.enter_context(lock(shop))
        with pytest.raises(BusyError), waiting_lock(shop, 0.01):
            pass
        Timer(0.05, held.close).start()

        with waiting_lock(shop), pytest.raises(BusyError, match="held by another run"), lock(shop):
            pass


@pytest.mark.parametrize("declared", ["~/landing", "${env:DATA}/landing", "~/land*", "file://${env:DATA}/landing"])
def test_a_source_is_found_in_the_same_way(tmp_path: Path, home: Path, declared: str) -> None:
    shop = pipeline(tmp_path, "lake", declared)

    files = list_files(shop.tables[0].source, shop.folder).files

    assert [file.uri for file in files] == [f"{home}/landing/LOAD1.csv"]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("lake", "landing"), [("${env:DATA}/landing/lake", "~/landing"), ("~/landing/lake", "${env:DATA}/*")]
)
def test_a_lake_that_a_reference_puts_into_a_landing_folder_is_refused(tmp_path: Path, lake: str, landing: str) -> None:
    assert [text.partition(" of the source")[0] for text in told(pipeline(tmp_path, lake, landing))] == [
        f"tables.0: the warehouse {lake} is below path '{landing}'"
    ]


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ("${env:NOT_SET}/lake", "lake.warehouse: ${env:NOT_SET} is not set; export NOT_SET=… before the command"),
        ("${env:EMPTY}", "lake.warehouse: '${env:EMPTY}' is empty; name a folder, such as ./lake"),
        ("~nobody-of-this-name/lake", "lake.warehouse: ~nobody-of-this-name/lake: no such home folder; a folder of "),
        ("file:lake", "lake.warehouse: file:lake is not an absolute address; write file:///folder, or "),
        ("file://lake/shop", "lake.warehouse: file://lake/shop is not an absolute address; write file:///folder, or "),
        ("s3:bucket/lake", "lake.warehouse: s3:bucket/lake is not an address; write // after the colon"),
        ("s3://bucket/lake", "lake.warehouse: the embedded catalog cannot live at s3://bucket/lake; declare a "),
        ("la?ke", "has a question mark; choose another folder"),
    ],
)
def test_a_warehouse_that_leads_nowhere_is_a_problem_of_the_declaration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: str, problem: str
) -> None:
    monkeypatch.setenv("EMPTY", "")

    (text,) = told(pipeline(tmp_path, declared))

    assert text.startswith("lake.warehouse: ")
    assert problem in text


def test_a_source_that_leads_nowhere_is_one_too(tmp_path: Path) -> None:
    assert told(pipeline(tmp_path, "lake", "${env:NOT_SET}/in")) == [
        "tables.0: path: ${env:NOT_SET} is not set; export NOT_SET=… before the command"
    ]


def test_a_reference_may_lead_to_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE", "s3://bucket/lake/")
    shop = pipeline(tmp_path, "${env:LAKE}", embedded=False)

    assert (warehouse(shop).uri, warehouse(shop).path) == ("s3://bucket/lake", None)
    assert AWS in jars_for(shop)
    assert told(shop) == []
