"""The dbt package against the engine: one log of changes, drawn at random, is equal tables on Trino, and on Spark."""

from __future__ import annotations

import datetime as dt
import json
import random
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil import api
from frazil.catalog.conf import catalog_conf
from frazil.spark.jars import jars_for, ready_jars
from frazil.spark.session import spark_session
from frazil.testing.spark_cluster import QUICK_JAVA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
DBT = ROOT / ".venv-dbt" / "bin" / "dbt"
PACKAGE = ROOT / "integrations" / "dbt"
BATCHES, KEYS = 2, 12
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: dms, path: ./landing, header: true}
    keys: [id]
    sequence_by: [updated_at]
    columns:
      - {name: id, type: int}
      - {name: updated_at, type: timestamp}
      - {name: total, type: "decimal(8,2)"}
      - {name: status, type: string}
      - {name: note, type: string}
    marts:
      - {kind: current}
      - {kind: current, name: orders_soft, deletes: soft}
      - {kind: history, track_history_except_columns: [updated_at, note]}
"""
MODEL = """
{{{{ config(materialized='{kind}', keys=['id'], sequence_by=['updated_at', 'line'], arrived_by='batch',
           except_columns=['op', 'line', 'batch'], delete_when="op = 'D'"{more}) }}}}
select op, id, updated_at, total, status, note, line, batch from {{{{ source('raw', 'orders_log') }}}}
"""
MODELS = {
    "orders": MODEL.format(kind="frazil_current", more=""),
    "orders_soft": MODEL.format(kind="frazil_current", more=", deletes='soft'"),
    "orders_history": MODEL.format(kind="frazil_history", more=", track_history_except_columns=['note']"),
}
FLAT = """
{{ config(materialized='table') }}
select {{ frazil.flatten_json('doc', {'order_id': 'bigint', 'total': 'decimal(12,2)', 'odd name': 'varchar(9)'}) }}
from (select '{"order_id": 7, "total": "1.50", "odd name": null, "more": {"a": 1}}' as doc) docs
"""
SCHEMA = """
sources:
  - {name: raw, schema: raw, tables: [{name: orders_log}]}
models:
  - name: orders_history
    data_tests: [{frazil.one_current_row: {arguments: {keys: [id]}}}, {frazil.no_overlap: {arguments: {keys: [id]}}}]
  - name: orders
    config: {contract: {enforced: true}}
    columns:
"""
TYPES = {
    "spark": {"id": "int", "updated_at": "timestamp", "status": "string", "note": "string", "_cdc_arrived": "int"},
    "trino": {
        "id": "integer",
        "updated_at": "timestamp(6) with time zone",
        "status": "varchar",
        "note": "varchar",
        "_cdc_arrived": "integer",
    },
}

Change = tuple[str, int, dt.datetime, Decimal | None, str | None, str | None, int, int]


def draw(seed: int) -> list[list[Change]]:
    """Batches of changes: late ones, ties of event time, deletes, keys that come back, states that repeat, NULLs."""
    dice, line, batches = random.Random(seed), 0, []
    for batch in range(BATCHES):
        changes: list[Change] = []
        for _ in range(30):
            line += 1
            at = START + dt.timedelta(seconds=dice.randint(0, 20 + 10 * batch))
            key, gone = dice.randint(1, KEYS), dice.random() < 0.2
            total = None if gone or dice.random() < 0.1 else Decimal(dice.randint(1, 3))
            status, note = (None if gone else dice.choice(texts) for texts in (("new", "paid", None), ("a", "b", "")))
            changes.append(("D" if gone else dice.choice("IU"), key, at, total, status, note, line, batch))
        batches.append(changes)
    return batches


def text(value: object) -> str:
    if isinstance(value, dt.datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return "" if value is None else f'"{value}"'


class Project:
    """A dbt project with the three models and the package, on one engine."""

    def __init__(self, folder: Path, schema: str, profile: dict[str, Any]) -> None:
        self.folder, self.schema, self.kind = folder, schema, profile["type"]
        (folder / "models").mkdir(parents=True)
        settings = {"+file_format": "iceberg"} if self.kind == "spark" else {}
        project = {"name": "shop", "profile": "shop", "version": "1.0.0", "models": settings}
        (folder / "dbt_project.yml").write_text(json.dumps(project), encoding="utf-8")
        (folder / "packages.yml").write_text(json.dumps({"packages": [{"local": f"{PACKAGE}"}]}), encoding="utf-8")
        outputs = {"target": "it", "outputs": {"it": {"schema": schema, "threads": 1, **profile}}}
        (folder / "profiles.yml").write_text(json.dumps({"shop": outputs}), encoding="utf-8")
        (folder / "models" / "flat.sql").write_text(FLAT, encoding="utf-8")
        self.contract(total="decimal(8,2)")
        for name, sql in MODELS.items():
            (folder / "models" / f"{name}.sql").write_text(sql, encoding="utf-8")
        self.dbt("deps")

    def contract(self, **types: str) -> None:
        """Say which types the columns of orders have."""
        columns = [f"      - {json.dumps({'name': n, 'data_type': d})}" for n, d in (TYPES[self.kind] | types).items()]
        (self.folder / "models" / "schema.yml").write_text("\n".join([SCHEMA.strip(), *columns, ""]), encoding="utf-8")

    def dbt(self, *words: str) -> None:
        """Call dbt, which must succeed."""
        ended = self.call(*words)
        assert ended.returncode == 0, ended.stdout + ended.stderr

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        call = [f"{DBT}", "--quiet", "--no-send-anonymous-usage-stats", *words, "--profiles-dir", f"{self.folder}"]
        return subprocess.run(call, cwd=self.folder, capture_output=True, text=True, check=False)


class Lake:
    """A lake with the engine's marts and a log of the same changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "landing").mkdir(parents=True)
        (folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
        self.pipeline = frazil.load(folder)

    def session(self) -> SparkSession:
        return spark_session(self.pipeline)

    def take(self, number: int, changes: list[Change]) -> None:
        """Give a batch to the engine as a file, and to dbt as rows of a table."""
        header = "Op,id,updated_at,total,status,note"
        lines = [",".join([row[0], *map(text, row[1:6])]) for row in changes]
        path = self.folder / "landing" / f"{number + 1}.csv"  # a time in its name would be that of its deletes
        path.write_text("\n".join([header, *lines, ""]), encoding="utf-8")
        frazil.run(self.pipeline, spark=self.session())
        types = "op string, id int, updated_at timestamp, total decimal(8,2), status string, note string, line int"
        rows = self.session().createDataFrame([tuple(row) for row in changes], f"{types}, batch int")
        self.session().sql("CREATE NAMESPACE IF NOT EXISTS lake.raw")
        self.session().sql(f"CREATE TABLE IF NOT EXISTS lake.raw.orders_log ({types}, batch int) USING iceberg")
        rows.writeTo("lake.raw.orders_log").append()

    def rows(self, table: str, columns: str) -> list[str]:
        self.session().sql(f"REFRESH TABLE lake.{table}")
        found = self.session().sql(f"SELECT {columns} FROM lake.{table}").collect()
        return sorted(repr(tuple(row)) for row in found)


COLUMNS = {
    "orders": "id, updated_at, total, status, note",
    "orders_soft": "id, updated_at, total, status, note, is_deleted, deleted_at",
    "orders_history": "id, total, status, note, valid_from, valid_to, is_current, is_deleted",
}


@pytest.fixture(scope="module", params=["trino", pytest.param("spark", marks=pytest.mark.laws)])
def engine(request: pytest.FixtureRequest) -> str:
    """The one that dbt asks."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def lake(engine: str, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake of its own for each engine, so that each sees every batch come."""
    del spark  # only there so that Java runs
    return Lake(tmp_path_factory.mktemp(engine))


@pytest.fixture(scope="module")
def profile(engine: str, lake: Lake) -> Iterator[dict[str, Any]]:
    """How dbt reaches the engine, which is a Trino on the lake or a session that dbt starts."""
    lake.take(0, draw(1)[0])
    if engine == "trino":
        with api.serve(lake.folder) as trino:
            place = {"host": "127.0.0.1", "port": trino.port, "database": "lake"}
            yield {"type": "trino", "method": "none", "user": "me", **place}
        return
    conf = catalog_conf(lake.pipeline) | {
        "spark.jars": ",".join(map(str, ready_jars(jars_for(lake.pipeline)))),
        "spark.sql.defaultCatalog": "lake",
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.sql.codegen.wholeStage": "false",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    yield {"type": "spark", "method": "session", "host": "none", "server_side_parameters": conf}


@pytest.fixture(scope="module")
def project(engine: str, profile: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(tmp_path_factory.mktemp("project") / engine, f"dbt_{engine}", profile)


@pytest.mark.server
def test_package_and_engine_make_equal_tables_of_one_log(lake: Lake, project: Project) -> None:
    """HISTORY, AGREE, LATE, DELETES: after each batch, whatever it holds."""
    for number, changes in enumerate(draw(1)):
        if number:
            lake.take(number, changes)
        project.dbt("build")
        for name, columns in COLUMNS.items():
            made, wanted = lake.rows(f"{project.schema}.{name}", columns), lake.rows(f"marts.{name}", columns)
            assert wanted
            assert made == wanted, (project.schema, name, number)


@pytest.mark.laws
@pytest.mark.server
def test_a_column_that_is_new_is_added_and_a_full_refresh_fills_it(lake: Lake, project: Project) -> None:
    model = project.folder / "models" / "orders_soft.sql"
    model.write_text(MODELS["orders_soft"].replace("select op,", "select 'CH' as country, op,"), encoding="utf-8")
    project.dbt("run", "--select", "orders_soft")
    table = f"{project.schema}.orders_soft"
    assert set(lake.rows(table, "DISTINCT country")) == {"('CH',)", "(None,)"}
    assert lake.rows(table, COLUMNS["orders_soft"]) == lake.rows("marts.orders_soft", COLUMNS["orders_soft"])
    project.dbt("run", "--select", "orders_soft", "--full-refresh")
    assert lake.rows(table, "DISTINCT country") == ["('CH',)"]
    assert lake.rows(table, COLUMNS["orders_soft"]) == lake.rows("marts.orders_soft", COLUMNS["orders_soft"])


@pytest.mark.server
def test_a_contract_that_is_broken_fails_before_anything_is_written(lake: Lake, project: Project) -> None:
    before = lake.rows(f"{project.schema}.orders.snapshots", "snapshot_id")
    project.contract(total="bigint")
    ended = project.call("run", "--select", "orders")
    assert ended.returncode == 1
    assert "contract" in ended.stdout
    assert lake.rows(f"{project.schema}.orders.snapshots", "snapshot_id") == before
    project.contract(total="decimal(8,2)")


@pytest.mark.server
def test_fields_of_json_become_typed_columns(lake: Lake, project: Project) -> None:
    found = lake.rows(f"{project.schema}.flat", "order_id, total, `odd name`")
    assert found == ["(7, Decimal('1.50'), None)"]
