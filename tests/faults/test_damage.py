"""A missing or truncated file of the lake: the error, the file that it names, and the repair by ``rebuild``."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from tests.serve.conftest import DECLARATION, FIRST, SECOND

import frazil
from frazil import api
from frazil.catalog.conf import catalog_conf
from frazil.catalog.trouble import CatalogError
from frazil.iceberg.metadata import DamagedTableError, local_path
from frazil.runner.maintain import maintain
from frazil.serve.key import explain_key
from frazil.serve.query.query import query
from frazil.serve.status import status
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline

pytestmark = pytest.mark.spark

Part = Literal["metadata", "list", "manifest", "data", "deletes"]
Command = Literal["query", "key", "status", "plan", "run", "maintain"]

NAMESPACES = ("bronze", "silver", "marts", "gold")
REBUILD = "frazil run --full-refresh --select items"
RESTORE = "restore the file"


@dataclass(frozen=True)
class Lake:
    """A small lake that can be broken and put back.

    Attributes:
        kept: a copy of it as it was.
    """

    pipeline: Pipeline
    session: SparkSession
    kept: Path

    @property
    def folder(self) -> Path:
        """The warehouse."""
        return self.pipeline.folder / "my lake"

    def restore(self) -> None:
        """Put every file and the catalog's rows back; the catalog's file stays, since Java has it open."""
        for name in NAMESPACES:
            shutil.rmtree(self.folder / name)
            shutil.copytree(self.kept / name, self.folder / name)
        with sqlite3.connect(self.folder / "catalog.db", timeout=30) as catalog:
            catalog.execute("ATTACH ? AS kept", [f"{self.kept / 'catalog.db'}"])
            catalog.execute("DELETE FROM main.iceberg_tables")
            catalog.execute("INSERT INTO main.iceberg_tables SELECT * FROM kept.iceberg_tables")
        catalog.close()
        for name in SECOND:
            (self.pipeline.folder / "landing" / name).unlink(missing_ok=True)

    def damage(self, table: str, part: Part, *, cut: bool) -> list[str]:
        """Delete all files of one kind that a table consists of, or cut them in half; their names."""
        files = self.files(table, part)
        for file in files:
            if cut:
                file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
            else:
                file.unlink()
        return [file.name for file in files]

    def files(self, table: str, part: Part) -> list[Path]:
        """Find the files of one kind that a table consists of."""
        with sqlite3.connect(self.folder / "catalog.db", timeout=30) as catalog:
            sql = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace || '.' || table_name = ?"
            [(location,)] = catalog.execute(sql, [table]).fetchall()
        catalog.close()
        metadata = local_path(location)
        assert metadata
        root = metadata.parent.parent
        match part:
            case "metadata":
                return [metadata]
            case "list":
                said = json.loads(metadata.read_text())
                [newest] = [each for each in said["snapshots"] if each["snapshot-id"] == said["current-snapshot-id"]]
                return [Path(re.sub("^file:/+", "/", newest["manifest-list"]))]
            case "manifest":
                return [*root.glob("metadata/*-m*.avro")]
            case "data":
                return [file for file in root.rglob("data/**/*.parquet") if "deletes" not in file.name]
            case "deletes":
                return [*root.rglob("data/**/*deletes*")]

    def do(self, command: Command, table: str) -> None:
        """Do a command as the command line does it."""
        match command:
            case "query":
                query(self.pipeline, f"select * from {table}")
            case "key":
                explain_key(self.pipeline, "items", ["1"])
            case "plan":
                for error in api.plan(self.pipeline).failed.values():
                    raise error
            case "run":
                for name, text in SECOND.items():
                    (self.pipeline.folder / "landing" / name).write_text(text)
                self.run()
            case "maintain":
                maintain(self.pipeline, self.session)

    def run(self, *, rebuild: bool = False) -> None:
        """Run; of what failed, raise the first error itself."""
        try:
            frazil.run(self.pipeline, spark=self.session, rebuild=rebuild)
        except frazil.RunFailedError as failed:
            raise failed.errors[0] from None

    def rows(self) -> dict[str, list[str]]:
        """Read all marts, silver and the aggregate."""
        names = ("marts.items", "marts.items_all", "marts.items_history", "silver.items_changes", "gold.prices")
        return {name: sorted(map(str, self.session.table(f"lake.{name}").collect())) for name in names}


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake of one batch."""
    del spark  # only there so that Java runs
    folder = tmp_path_factory.mktemp("damage")
    (folder / "landing").mkdir()
    (folder / "frazil.yml").write_text(DECLARATION)
    for name, text in FIRST.items():
        (folder / "landing" / name).write_text(text)
    pipeline = frazil.load(folder)
    lake = Lake(pipeline, spark_session(pipeline), folder / "kept")
    frazil.run(pipeline, spark=lake.session)
    shutil.copytree(lake.folder, lake.kept)
    return lake


@pytest.fixture
def lake(whole: Lake) -> Lake:
    """The undamaged lake, and a session that has not loaded its tables, like a command's."""
    whole.restore()
    session = whole.session.newSession()
    for name, text in catalog_conf(whole.pipeline).items():
        session.conf.set(name, text)
    return replace(whole, session=session)


GONE, CUT = False, True
ALSO_LONG = pytest.mark.laws


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "part", "cut", "command", "cure"),
    [
        ("marts.items", "metadata", GONE, "query", REBUILD),
        pytest.param("marts.items", "metadata", GONE, "key", REBUILD, marks=ALSO_LONG),
        ("marts.items", "metadata", GONE, "plan", REBUILD),
        ("marts.items", "metadata", GONE, "run", REBUILD),
        pytest.param("marts.items", "metadata", GONE, "maintain", REBUILD, marks=ALSO_LONG),
        ("marts.items", "metadata", CUT, "query", REBUILD),
        pytest.param("marts.items", "metadata", CUT, "plan", REBUILD, marks=ALSO_LONG),
        pytest.param("marts.items", "list", GONE, "query", REBUILD, marks=ALSO_LONG),
        ("marts.items", "list", CUT, "key", REBUILD),
        pytest.param("marts.items", "list", GONE, "run", REBUILD, marks=ALSO_LONG),
        pytest.param("marts.items", "list", CUT, "maintain", REBUILD, marks=ALSO_LONG),
        ("marts.items", "manifest", GONE, "query", REBUILD),
        ("marts.items", "manifest", CUT, "query", REBUILD),
        ("marts.items", "manifest", CUT, "key", REBUILD),
        pytest.param("marts.items", "manifest", CUT, "run", REBUILD, marks=ALSO_LONG),
        pytest.param("marts.items", "manifest", GONE, "maintain", REBUILD, marks=ALSO_LONG),
        ("marts.items", "data", GONE, "query", REBUILD),
        ("marts.items", "data", CUT, "key", REBUILD),
        ("marts.items", "data", GONE, "run", REBUILD),
        pytest.param("marts.items", "data", CUT, "run", REBUILD, marks=ALSO_LONG),
        pytest.param("marts.items", "data", CUT, "maintain", REBUILD, marks=ALSO_LONG),
        ("silver.items_changes", "metadata", GONE, "plan", REBUILD),
        ("silver.items_changes", "manifest", GONE, "key", REBUILD),
        ("silver.items_changes", "data", GONE, "run", REBUILD),
        ("gold.prices", "metadata", GONE, "run", "frazil run --full-refresh"),
        ("bronze.items", "metadata", GONE, "plan", RESTORE),
        ("bronze.items", "metadata", GONE, "run", RESTORE),
        pytest.param("bronze.items", "manifest", GONE, "plan", RESTORE, marks=ALSO_LONG),
        ("bronze.items", "data", GONE, "plan", RESTORE),
        ("bronze.items", "data", CUT, "maintain", RESTORE),
    ],
)
def test_a_damaged_table_is_named_with_its_file_and_the_cure(
    lake: Lake, table: str, part: Part, *, cut: bool, command: Command, cure: str
) -> None:
    names = lake.damage(table, part, cut=cut)

    with pytest.raises(DamagedTableError) as caught:
        lake.do(command, table)

    error = caught.value
    assert (error.code, error.exit_code, error.table) == ("FZ306", 4, table)
    assert Path(error.path).name in names
    assert error.path in error.message
    assert cure in (error.hint or "")
    assert ("full-refresh" in (error.hint or "")) == (not table.startswith("bronze"))


@pytest.mark.parametrize(
    ("table", "part", "cut"),
    [("marts.items", "metadata", GONE), ("marts.items_all", "manifest", GONE), ("bronze.items", "manifest", CUT)],
)
def test_status_goes_on_and_names_the_file(lake: Lake, table: str, part: Part, *, cut: bool) -> None:
    names = lake.damage(table, part, cut=cut)

    found = f"{status(lake.pipeline)}"

    assert any(name in found for name in names)


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "part", "cut"),
    [
        ("marts.items", "metadata", GONE),
        pytest.param("marts.items_all", "manifest", GONE, marks=ALSO_LONG),
        pytest.param("marts.items", "metadata", CUT, marks=ALSO_LONG),
        pytest.param("marts.items", "list", GONE, marks=ALSO_LONG),
        pytest.param("marts.items", "manifest", CUT, marks=ALSO_LONG),
        pytest.param("marts.items_history", "data", GONE, marks=ALSO_LONG),
        pytest.param("silver.items_changes", "metadata", GONE, marks=ALSO_LONG),
        pytest.param("silver.items_changes", "data", CUT, marks=ALSO_LONG),
        pytest.param("silver.items_changes", "list", GONE, marks=ALSO_LONG),
        pytest.param("silver.items_changes", "data", GONE, marks=ALSO_LONG),
        ("gold.prices", "metadata", GONE),
    ],
)
def test_a_rebuild_cures_what_is_made_of_bronze(lake: Lake, table: str, part: Part, *, cut: bool) -> None:
    """CONVERGE: the rows are those from before the damage."""
    before = lake.rows()
    lake.damage(table, part, cut=cut)

    frazil.run(lake.pipeline, spark=lake.session, rebuild=True)

    assert lake.rows() == before
    assert frazil.run(lake.pipeline, spark=lake.session).steps == 0


@pytest.mark.parametrize("part", ["metadata", "manifest", "data"])
def test_a_rebuild_touches_nothing_when_bronze_is_damaged(lake: Lake, part: Part) -> None:
    before = lake.rows()
    lake.damage("bronze.items", part, cut=False)

    with pytest.raises(DamagedTableError) as caught:
        lake.run(rebuild=True)

    assert caught.value.table == "bronze.items"
    assert lake.rows() == before


@pytest.mark.parametrize("kept", ["another file", "half of a page, the rest in a log", "some pages"])
def test_a_catalog_of_other_bytes_is_a_storage_error(tmp_path: Path, kept: str) -> None:
    (tmp_path / "my lake").mkdir()
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(DECLARATION)
    catalog = tmp_path / "catalog.db"
    with contextlib.closing(sqlite3.connect(catalog)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        for name in ("iceberg_tables", "iceberg_namespace_properties"):
            database.execute(
                f"CREATE TABLE {name} (catalog_name TEXT, table_namespace TEXT, table_name TEXT PRIMARY KEY)"
            )
        half = catalog.read_bytes()[:2048]
    content = {"another file": b"no database at all" * 1000, "some pages": catalog.read_bytes()[:8192]}.get(kept, half)
    (tmp_path / "my lake" / "catalog.db").write_bytes(content)

    with pytest.raises(CatalogError, match=r"catalog\.db") as caught:
        query(frazil.load(tmp_path), "select 1")

    assert (caught.value.code, caught.value.exit_code) == ("FZ303", 4)
