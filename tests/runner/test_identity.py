"""Identity of a lake: swapped and renamed tables, shared catalogs, lost, older and moved ones."""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.failing import leave_half_a_version

import frazil
from frazil import api
from frazil.catalog.warehouse import WarehouseMovedError
from frazil.errors import FrazilError
from frazil.past import drop
from frazil.recover.catalog import repair_catalog
from frazil.serve.check.check import check
from frazil.serve.leftovers import chosen, leftovers
from frazil.serve.query.query import query
from frazil.serve.status import status
from frazil.spark.session import spark_session
from frazil.spec.load.parse import parse_declaration

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.runner.report import RunReport
    from frazil.spec import Pipeline

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

TABLE = """
  - name: {name}
    source: {{kind: dms, path: ./landing/{path}, header: true}}
    keys: [id]
    sequence_by: [ts]
    columns: [{{name: id, type: int}}, {{name: ts, type: timestamp}}, {columns}]
    marts: [{marts}]
"""


class Shop:
    """A lake of small tables, each with a landing folder of its own."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        del spark  # only there so that Java runs
        self.folder = folder

    def land(self, table: str, file: str, *records: str, header: str = "op,id,ts,v") -> None:
        """Write a file of records."""
        folder = self.folder / "landing" / table
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text("\n".join([header, *records, ""]), encoding="utf-8")

    def declare(self, *tables: str, name: str = "shop", more: str = "", warehouse: str = "./lake") -> Pipeline:
        """Declare a pipeline of tables."""
        return parse_declaration(self.text(*tables, name=name, more=more, warehouse=warehouse)).at(self.folder)

    def text(self, *tables: str, name: str = "shop", more: str = "", warehouse: str = "./lake") -> str:
        """Write a declaration."""
        return f"pipeline: {name}\nlake: {{warehouse: {warehouse}{more}}}\ntables:{''.join(tables)}"

    def run(self, pipeline: Pipeline) -> RunReport:
        """Run as a notebook does, in a session on the pipeline's lake."""
        return frazil.run(pipeline, spark=self.session(pipeline))

    def session(self, pipeline: Pipeline) -> SparkSession:
        """Open a session on the pipeline's lake."""
        return spark_session(pipeline)


def table(name: str, *, path: str | None = None, columns: str = "{name: v}", marts: str = "{kind: current}") -> str:
    return TABLE.format(name=name, path=path or name, columns=columns, marts=marts)


def two(one: str, other: str) -> tuple[str, str]:
    return table("a", marts=f"{{kind: current, name: {one}}}"), table("b", marts=f"{{kind: current, name: {other}}}")


def rows(pipeline: Pipeline, name: str, columns: str = "*") -> list[tuple[Any, ...]]:
    return sorted(query(pipeline, f"select {columns} from {name}").rows, key=repr)


def planned_refusals(pipeline: Pipeline) -> list[FrazilError]:
    try:
        return [*api.plan(pipeline).failed.values()]
    except FrazilError as error:
        return [error]


def refused(pipeline: Pipeline, shop: Shop) -> FrazilError:
    """Run and plan, which must refuse alike, with a way out."""
    planned = planned_refusals(pipeline)
    with pytest.raises(frazil.RunFailedError) as run:
        shop.run(pipeline)
    assert {error.code for error in run.value.errors} == {error.code for error in planned}
    assert all(error.hint for error in run.value.errors)
    return run.value.errors[0]


def made_shop(folder: Path, spark: SparkSession) -> Shop:
    made = Shop(folder, spark)
    made.land("a", "LOAD00000001.csv", "I,1,2024-01-01 00:00:00,a1", "I,2,2024-01-01 00:00:00,a2")
    made.land("b", "LOAD00000001.csv", "I,1,2024-01-01 00:00:00,b1")
    return made


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Shop:
    return made_shop(tmp_path, spark)


@pytest.mark.laws
def test_marts_whose_names_were_swapped_are_rebuilt_and_the_plan_says_why(shop: Shop) -> None:
    before = shop.declare(*two("m1", "m2"))
    shop.run(before)

    swapped = shop.declare(*two("m2", "m1"))
    reasons = [step.reason for step in api.plan(swapped).steps if hasattr(step, "reason")]
    shop.run(swapped)

    assert reasons == ["its rows are those of table 'b'", "its rows are those of table 'a'"]
    assert rows(swapped, "marts.m2", "id, v") == [(1, "a1"), (2, "a2")]
    assert rows(swapped, "marts.m1", "id, v") == [(1, "b1")]
    assert all(finding.ok for finding in check(swapped))
    assert shop.run(swapped).steps == 0


@pytest.mark.laws
def test_a_renamed_table_begins_again_and_drop_removes_what_it_left(shop: Shop) -> None:
    shop.run(shop.declare(table("a", marts="{kind: current, name: m1}, {kind: history}")))
    renamed = shop.declare(table("z", path="a", marts="{kind: current, name: m1}, {kind: history}"))

    shop.run(renamed)
    left = leftovers(renamed)
    dropped = drop(renamed, shop.session(renamed), [(one.namespace, one.name) for one in left])

    assert rows(renamed, "marts.m1", "id, v") == [(1, "a1"), (2, "a2")]
    assert sorted(dropped) == ["bronze.a", "marts.a_history", "silver.a_changes", "silver.a_quarantine"]
    assert leftovers(renamed) == []
    assert not (shop.folder / "lake" / "bronze" / "a").exists()
    assert all(finding.ok for finding in check(renamed))


def test_a_dropped_table_is_read_again_from_its_source(shop: Shop) -> None:
    pipeline = shop.declare(table("a"), table("b"))
    shop.run(pipeline)

    names = [(one.namespace, one.name) for one in chosen(pipeline, ["a"])]
    drop(pipeline, shop.session(pipeline), names)
    report = shop.run(pipeline)

    assert ("marts", "a") in names
    assert ("marts", "b") not in names
    assert {done.table: done.outcome for done in report.tables} == {"a": "done", "b": "nothing new"}
    assert rows(pipeline, "marts.a", "id, v") == [(1, "a1"), (2, "a2")]


def test_two_pipelines_of_one_catalog_do_not_take_each_others_tables(shop: Shop) -> None:
    shop.run(shop.declare(table("a")))

    error = refused(shop.declare(table("a"), name="web"), shop)

    assert error.code == "FZ108"
    assert "pipeline 'shop'" in error.message
    own = ", namespaces: {bronze: web_bronze, silver: web_silver, marts: web_marts, gold: web_gold}"
    apart = shop.declare(table("a"), name="web", more=own)
    shop.run(apart)
    assert rows(apart, "web_marts.a", "id") == [(1,), (2,)]


def test_namespaces_that_changed_places_are_refused(shop: Shop) -> None:
    shop.run(shop.declare(table("a")))

    assert refused(shop.declare(table("a"), more=", namespaces: {bronze: marts, marts: bronze}"), shop).code == "FZ108"


def test_a_source_that_was_exchanged_for_another_is_refused(shop: Shop) -> None:
    shop.run(shop.declare(table("a"), table("b")))
    shop.land("a", "20240102-000000000.csv", "U,1,2024-01-02 00:00:00,a1x")
    shop.land("b", "20240102-000000000.csv", "U,1,2024-01-02 00:00:00,b1x")

    swapped = shop.declare(table("a", path="b"), table("b", path="a"))

    # The load files of a and b are known by nobody but their own table.
    assert refused(swapped, shop).code == "FZ504"


def lose(catalog: Path, how: str) -> None:
    """Damage a catalog: another file takes its place, as this process still has the old one open."""
    content = catalog.read_bytes()
    for path in catalog.parent.glob("catalog.db*"):
        path.unlink()
    if how != "deleted":
        catalog.write_bytes(content[:10_000] if how == "cut" else b"")


REPAIR = """
import datetime, sys
import frazil
from frazil.recover.catalog import repair_catalog
for folder in sys.argv[1:]:
    pipeline = frazil.load(folder)
    print(folder, sorted(repair_catalog(pipeline, datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc))))
    frazil.run(pipeline)
"""


@pytest.mark.laws
@pytest.mark.fault
def test_a_lost_catalog_is_refused_and_can_be_restored(tmp_path: Path, spark: SparkSession) -> None:
    """In a process of its own: this one has connections to the catalogs that are lost."""
    lakes = [made_shop(tmp_path / how, spark) for how in ("deleted", "emptied", "cut")]
    for shop in lakes:
        text = shop.text(table("a", marts="{kind: current, deletes: soft, live_view: live}, {kind: history}"))
        (shop.folder / "frazil.yml").write_text(text, encoding="utf-8")
        shop.run(frazil.load(shop.folder))
        shop.land("a", "20240102-000000000.csv", "U,1,2024-01-02 00:00:00,a1x")
        (shop.folder / "landing" / "a" / "LOAD00000001.csv").unlink()
        lose(shop.folder / "lake" / "catalog.db", shop.folder.name)

    refusals = [lost(frazil.load(shop.folder)) for shop in lakes]
    folders = [f"{shop.folder}" for shop in lakes]
    done = subprocess.run([sys.executable, "-c", REPAIR, *folders], capture_output=True, text=True, check=False)

    assert {code for code, _ in refusals} <= {"FZ703", "FZ303"}  # SQLite can read some of a file that was cut
    assert all("frazil doctor --repair" in (hint or "") for _, hint in refusals)
    assert done.returncode == 0, done.stderr
    for shop, told in zip(lakes, done.stdout.splitlines(), strict=True):
        pipeline = frazil.load(shop.folder)
        assert "'bronze.a', 'marts.a', 'marts.a_history', 'silver.a_changes', 'silver.a_quarantine'" in told
        assert rows(pipeline, "marts.a", "id, v") == [(1, "a1x"), (2, "a2")]
        assert all(finding.ok is not False for finding in check(pipeline))


def lost(pipeline: Pipeline) -> tuple[str, str | None]:
    error = planned_refusals(pipeline)[0]
    return error.code, error.hint


def test_a_run_in_python_refuses_a_lost_catalog_too(shop: Shop, tmp_path: Path) -> None:
    pipeline = shop.declare(table("a"))
    shop.run(pipeline)
    shutil.copytree(shop.folder / "lake" / "bronze", tmp_path / "other" / "bronze")

    with pytest.raises(frazil.RunFailedError) as caught:
        shop.run(shop.declare(table("a"), warehouse="./other"))

    assert [error.code for error in caught.value.errors] == ["FZ703"]


def test_a_catalog_from_yesterday_is_refused_and_brought_up_to_date(shop: Shop) -> None:
    pipeline = shop.declare(table("a"))
    catalog = shop.folder / "lake" / "catalog.db"
    shop.run(pipeline)
    saved = {path: path.read_bytes() for path in catalog.parent.glob("catalog.db*")}
    shop.land("a", "20240102-000000000.csv", "U,1,2024-01-02 00:00:00,a1x")
    shop.run(pipeline)
    (shop.folder / "landing" / "a" / "20240102-000000000.csv").unlink()
    for path in catalog.parent.glob("catalog.db*"):
        path.unlink()
    for path, content in saved.items():
        path.write_bytes(content)

    assert refused(pipeline, shop).code == "FZ703"
    [shown] = status(pipeline)
    assert (shown.trouble or "").startswith("[FZ703]")
    repair_catalog(pipeline, NOW)

    assert status(pipeline)[0].trouble is None
    assert shop.run(pipeline).steps == 0
    assert rows(pipeline, "marts.a", "id, v") == [(1, "a1x"), (2, "a2")]


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["empty", "half"])
def test_a_half_written_version_of_a_killed_run_is_ignored(share: float, shop: Shop) -> None:
    pipeline = shop.declare(table("a"))
    shop.run(pipeline)
    leave_half_a_version(shop.folder / "lake" / "bronze" / "a", share)
    shop.land("a", "20240102-000000000.csv", "U,1,2024-01-02 00:00:00,a1x")

    assert planned_refusals(pipeline) == []
    shop.run(pipeline)

    assert rows(pipeline, "marts.a", "id, v") == [(1, "a1x"), (2, "a2")]


WRITES: dict[str, Callable[[Pipeline], object]] = {
    "run": frazil.run,
    "erase": lambda pipeline: api.erase(pipeline, "a", keys=["1"]),
    "maintain": api.maintain,
    "drop": lambda pipeline: api.drop(pipeline, api.droppable(pipeline, "a")),
    "cut": lambda pipeline: api.cut(pipeline, "today"),
}


@pytest.mark.long
@pytest.mark.parametrize("command", WRITES)
def test_no_command_on_a_copied_warehouse_changes_its_original(command: str, shop: Shop) -> None:
    pipeline = shop.declare(table("a"))
    shop.run(pipeline)
    before = {path: path.stat().st_mtime_ns for path in (shop.folder / "lake").rglob("*") if path.is_file()}
    shutil.copytree(shop.folder / "lake", shop.folder / "copy")

    with pytest.raises(FrazilError) as refused:
        WRITES[command](shop.declare(table("a"), warehouse="./copy"))
    assert [type(error) for error in getattr(refused.value, "errors", [refused.value])] == [WarehouseMovedError]

    assert {path: path.stat().st_mtime_ns for path in (shop.folder / "lake").rglob("*") if path.is_file()} == before


def test_a_lake_from_yesterday_catches_up(shop: Shop) -> None:
    pipeline = shop.declare(table("a"))
    shop.run(pipeline)
    shutil.copytree(shop.folder / "lake", shop.folder / "backup")
    shop.land("a", "20240102-000000000.csv", "U,1,2024-01-02 00:00:00,a1x")
    shop.run(pipeline)
    shutil.rmtree(shop.folder / "lake")
    (shop.folder / "backup").rename(shop.folder / "lake")

    shop.run(pipeline)

    assert rows(pipeline, "marts.a", "id, v") == [(1, "a1x"), (2, "a2")]


def test_marts_may_be_called_like_layers(shop: Shop) -> None:
    pipeline = shop.declare(table("a", marts="{kind: current, name: bronze}, {kind: history, name: silver}"))
    shop.run(pipeline)
    shop.land("a", "20240102-000000000.csv", "U,1,2024-01-02 00:00:00,a1x")

    shop.run(pipeline)

    assert rows(pipeline, "marts.bronze", "id, v") == [(1, "a1x"), (2, "a2")]
    assert len(rows(pipeline, "marts.silver", "id")) == 3
