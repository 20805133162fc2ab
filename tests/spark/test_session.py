from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.connect.session import SparkSession as ConnectSession

from frazil.catalog.conf import EXTENSIONS, PREFIX, catalog_conf
from frazil.errors import DeclarationError, SessionError
from frazil.spark.java import find_java
from frazil.spark.session import adopt, siblings, spark_session
from frazil.spec import DmsFiles, EmbeddedCatalog, JdbcCatalog, Lake, Pipeline, ServiceCatalog, Table
from frazil.spec.location import warehouse

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.spec.model.pipeline import Catalog


def pipeline(folder: Path, lake: str = "lake", catalog: Catalog | None = None) -> Pipeline:
    table = Table(name="t", source=DmsFiles(path=("landing",)), keys=("id",))
    where = Lake(warehouse=lake, catalog=catalog or EmbeddedCatalog())
    return Pipeline(pipeline="shop", lake=where, tables=(table,)).at(folder)


def settings(declared: Pipeline) -> dict[str, str]:
    """Settings of the catalog without their common prefix."""
    return {key.removeprefix(PREFIX).removeprefix("."): text for key, text in catalog_conf(declared).items()}


def test_the_embedded_catalog_is_a_sqlite_file_in_the_warehouse(tmp_path: Path) -> None:
    assert settings(pipeline(tmp_path)) == {
        "": "org.apache.iceberg.spark.SparkCatalog",
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{tmp_path}/lake/catalog.db?journal_mode=WAL&busy_timeout=30000&transaction_mode=IMMEDIATE",
        "jdbc.schema-version": "V1",
        "warehouse": f"file://{tmp_path}/lake",
        "cache-enabled": "false",
    }


def test_secrets_of_a_catalog_are_looked_up_when_they_are_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAKE_USER", "ada")
    (tmp_path / "password").write_text("pass word\n")
    reference = "${file:password}"
    catalog = JdbcCatalog(type="jdbc", uri="jdbc:postgresql://db/lake", user="${env:LAKE_USER}", password=reference)

    made = settings(pipeline(tmp_path, "s3://bucket/lake/", catalog))

    assert made["jdbc.user"] == "ada"
    assert made["jdbc.password"] == "pass word"
    assert made["warehouse"] == "s3://bucket/lake"
    assert made["io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
    assert made["io.manifest.cache-enabled"] == "true"
    assert "io.manifest.cache-enabled" not in settings(pipeline(tmp_path, "lake", EmbeddedCatalog()))


def test_properties_of_a_catalog_have_the_last_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TOKEN", "t0k3n")
    catalog = ServiceCatalog(
        type="rest",
        uri="https://catalog",
        properties={"credential": "id:${env:TOKEN}", "io-impl": "org.example.Own"},
    )

    made = settings(pipeline(tmp_path, "s3://bucket/lake", catalog))

    assert (made["type"], made["uri"]) == ("rest", "https://catalog")
    assert made["credential"] == "id:t0k3n"
    assert made["io-impl"] == "org.example.Own"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("${env:FRAZIL_NOT_SET}", "lake.catalog.password: ${env:FRAZIL_NOT_SET} is not set"),
        ("${file:nowhere}", "lake.catalog.password: ${file:nowhere} cannot be read: FileNotFoundError"),
        ("${vault:x}", "lake.catalog.password: ${vault:x} is not a known reference"),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(tmp_path: Path, reference: str, message: str) -> None:
    catalog = JdbcCatalog(type="jdbc", uri="jdbc:postgresql://db/lake", password=reference)

    with pytest.raises(DeclarationError, match=re.escape(message)):
        catalog_conf(pipeline(tmp_path, catalog=catalog))


@pytest.mark.parametrize(
    ("declared", "address"),
    [
        ("./lake", "file://{here}/lake"),
        ("a b/é%20", "file://{here}/a b/é%20"),
        ("file:///data/lake/", "file:///data/lake"),
        ("file:/data/lake", "file:///data/lake"),
        ("s3a://bucket/lake/", "s3a://bucket/lake"),
        ("hdfs://cluster:8020/lake", "hdfs://cluster:8020/lake"),
    ],
)
def test_a_warehouse_is_always_an_address_with_a_scheme(tmp_path: Path, declared: str, address: str) -> None:
    assert warehouse(pipeline(tmp_path, declared)).uri == address.format(here=tmp_path)


def test_the_embedded_catalog_refuses_an_object_store(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="the embedded catalog cannot live at s3://bucket/lake"):
        catalog_conf(pipeline(tmp_path, "s3://bucket/lake"))


@pytest.mark.spark
def test_a_session_writes_a_branch_and_publishes_it_at_once(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.session")
    spark.sql("CREATE TABLE lake.session.t (id BIGINT, said STRING) USING iceberg")
    spark.sql("INSERT INTO lake.session.t VALUES (1, 'old')")
    spark.sql("ALTER TABLE lake.session.t CREATE BRANCH next")
    spark.sql("INSERT INTO lake.session.t.branch_next VALUES (2, 'new')")

    before = spark.table("lake.session.t").count()
    spark.sql("CALL lake.system.fast_forward('session.t', 'main', 'next')")
    after = sorted(map(tuple, spark.table("lake.session.t").collect()))

    assert before == 1
    assert after == [(1, "old"), (2, "new")]


@pytest.mark.spark
def test_two_pipelines_in_one_process_keep_their_lakes_apart(spark: SparkSession, tmp_path: Path) -> None:
    first = spark_session(pipeline(tmp_path, "warehouse with a space & é%20"))
    second = spark_session(pipeline(tmp_path, "second"))
    for session, rows in ((first, 1), (second, 2)):
        session.sql("CREATE NAMESPACE lake.n")
        session.range(rows).writeTo("lake.n.t").create()

    assert first.table("lake.n.t").count() == 1
    with siblings(second, 2) as lent:
        assert [session.table("lake.n.t").count() for session in lent] == [2, 2]
    assert not spark.catalog.tableExists("lake.n.t")
    assert (tmp_path / "warehouse with a space & é%20" / "n" / "t" / "metadata").is_dir()


@pytest.mark.fault
def test_a_second_lake_has_no_setting_of_the_one_that_spark_was_started_with(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
import frazil
from frazil.catalog.conf import catalog_conf
from frazil.spark.session import _lake_settings, siblings, spark_session
first, second = (frazil.load(Path(sys.argv[1]) / name) for name in ("first", "second"))
spark_session(first)
session = spark_session(second)
with siblings(session, 1) as lent:
    print(*(_lake_settings(one) == catalog_conf(second) for one in (session, *lent)))
"""
    tables = "tables: [{name: t, source: {kind: dms, path: ./landing, header: true}, keys: [id]}]"
    catalog = "catalog: {type: rest, uri: 'https://catalog', properties: {io-impl: org.example.Own}}"
    for name, more in (("first", f", {catalog}"), ("second", "")):
        (tmp_path / name).mkdir()
        text = f"pipeline: shop\nlake: {{warehouse: ./lake{more}}}\n{tables}\n"
        (tmp_path / name / "frazil.yml").write_text(text)

    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, timeout=300, check=False
    )

    assert done.stdout.split() == ["True", "True"], done.stderr


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_session_is_lent_again_but_never_twice_at_once(tmp_path: Path) -> None:
    ours = spark_session(pipeline(tmp_path))

    with siblings(ours, 1) as first, siblings(ours, 1) as second:
        assert first[0] is not second[0]
    with siblings(ours, 2) as again:
        assert {*again} == {*first, *second}


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_session_handed_in_must_not_have_another_lake(tmp_path: Path) -> None:
    ours = spark_session(pipeline(tmp_path))

    assert adopt(ours, pipeline(tmp_path)) is ours
    with pytest.raises(SessionError, match=r"spark\.sql\.catalog\.lake\.uri differs"):
        adopt(ours, pipeline(tmp_path, "elsewhere"))


def test_a_session_of_spark_connect_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    # Made without its server: nothing of it may be asked.
    connect = ConnectSession.__new__(ConnectSession)

    with pytest.raises(SessionError, match="Spark Connect, which gives wrong tables") as caught:
        adopt(connect, pipeline(tmp_path))  # type: ignore[arg-type]

    assert (caught.value.code, caught.value.exit_code) == ("FZ903", 2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.laws
@pytest.mark.process
def test_a_real_spark_connect_server_is_refused(tmp_path: Path) -> None:
    script = """
import sys
from pyspark.sql import SparkSession
import frazil
connect = SparkSession.builder.remote("local[1]").getOrCreate()
assert connect.range(3).count() == 3
pipeline = frazil.load(sys.argv[1])
for session in (connect, None):
    try:
        frazil.run(pipeline, spark=session)
    except frazil.FrazilError as error:
        print(error.code)
connect.stop()
"""
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "LOAD00000001.csv").write_text("1\n")
    (tmp_path / "frazil.yml").write_text(
        "pipeline: shop\nlake: {warehouse: ./lake}\ntables:\n"
        "  - {name: t, source: {kind: dms, path: ./landing}, keys: [id], columns: [{name: id, type: int}]}\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, timeout=300, check=False
    )

    assert done.stdout.split() == ["FZ903", "FZ903"], done.stderr
    assert not (tmp_path / "lake").exists()


@pytest.mark.fault
def test_a_session_whose_iceberg_does_not_load_is_refused(tmp_path: Path) -> None:
    script = """
import sys
from pyspark.sql import SparkSession
import frazil
from frazil.catalog.conf import EXTENSIONS
spark = SparkSession.builder.master("local[1]").config("spark.sql.extensions", EXTENSIONS).getOrCreate()
try:
    frazil.run(frazil.load(sys.argv[1]), spark=spark)
except frazil.FrazilError as error:
    print(error)
"""
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(
        "pipeline: shop\nlake: {warehouse: ./lake}\ntables:\n"
        "  - {name: t, source: {kind: dms, path: ./landing}, keys: [id], columns: [{name: id, type: int}]}\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "JAVA_HOME": f"{find_java().home}"},
    )

    assert done.stdout.startswith(f"[FZ903] this Spark session cannot load {EXTENSIONS}"), done.stderr
    assert "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:" in done.stdout
    assert not (tmp_path / "lake").exists()


@pytest.mark.spark
def test_failing_casts_are_errors_and_time_is_utc(spark: SparkSession) -> None:
    (row,) = spark.sql("SELECT try_cast('x' AS INT) AS number, current_timezone() AS zone").collect()

    assert (row.number, row.zone) == (None, "UTC")
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"


@pytest.mark.spark
def test_a_file_of_the_lake_has_no_other_with_checksums(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    session = spark_session(pipeline(tmp_path))
    session.sql("CREATE NAMESPACE lake.n")
    session.range(1).writeTo("lake.n.t").create()

    assert list(tmp_path.rglob("*.crc")) == []
