"""The settings of clusters, in the form that each platform takes."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from tests.hostile.situation import command

from frazil.errors import JarError
from frazil.interop.spark_conf import LocalLakeError, Platform, spark_conf
from frazil.spec import Pipeline

if TYPE_CHECKING:
    from pathlib import Path

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
REDACTED = "(?i)authorization|uri|password|secret|token|credential|(access|shared|account)[.-]?key"
SHARED = {
    "warehouse": "s3://company-lake/shop",
    "catalog": {"type": "jdbc", "uri": "jdbc:postgresql://db/lake", "password": "${env:LAKE_PASSWORD}"},
}
JARS = [
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.xerial:sqlite-jdbc:3.54.1.0",
    "org.postgresql:postgresql:42.7.14",
    "org.apache.iceberg:iceberg-aws-bundle:1.12.0",
]
ELSEWHERE: tuple[Platform, ...] = ("kubernetes", "emr", "glue", "databricks", "dataproc")
COMMON = {"spark.sql.extensions": EXTENSIONS, "spark.redaction.regex": REDACTED, "spark.task.maxFailures": "8"}


def pipeline(**lake: Any) -> Pipeline:
    table = {
        "name": "orders",
        "source": {"kind": "dms", "path": "s3://company-lake/dms", "header": True},
        "keys": ["id"],
    }
    return Pipeline.model_validate({"pipeline": "shop", "lake": lake, "tables": [table]})


@pytest.mark.parametrize("platform", ["standalone", "dataproc"])
def test_a_file_of_properties_names_the_jars_that_spark_fetches(platform: Platform, tmp_path: Path) -> None:
    text = spark_conf(pipeline(**SHARED).at(tmp_path), platform, "4.1").text

    assert text == (
        "# Spark 4.1. The catalog is not here: Frazil adds it when it runs.\n"
        "# The driver's environment needs LAKE_PASSWORD.\n"
        f"spark.sql.extensions={EXTENSIONS}\n"
        f"spark.redaction.regex={REDACTED}\n"
        "spark.task.maxFailures=8\n"
        f"spark.jars.packages={','.join(JARS)}\n"
    )


def test_kubernetes_also_needs_an_image_and_a_folder_for_what_is_fetched(tmp_path: Path) -> None:
    lines = spark_conf(pipeline(**SHARED).at(tmp_path), "kubernetes", "4.1").text.splitlines()

    assert lines[1] == "# spark.kubernetes.container.image: yours, with Python 3.11 or newer and frazil."
    assert lines[-2:] == [f"spark.jars.packages={','.join(JARS)}", "spark.jars.ivy=/tmp/.ivy2"]


def test_emr_takes_a_classification(tmp_path: Path) -> None:
    made = json.loads(spark_conf(pipeline(**SHARED).at(tmp_path), "emr", "4.1").text)

    properties = COMMON | {"spark.jars.packages": ",".join(JARS)}
    assert made == [{"Classification": "spark-defaults", "Properties": properties}]


def test_glue_takes_jars_from_s3_and_all_settings_as_one_argument(tmp_path: Path) -> None:
    made = json.loads(spark_conf(pipeline(**SHARED).at(tmp_path), "glue", "4.1").text)["DefaultArguments"]

    assert [path.rpartition("/")[2] for path in made["--extra-jars"].split(",")] == [
        "iceberg-spark-runtime-4.1_2.13-1.12.0.jar",
        "sqlite-jdbc-3.54.1.0.jar",
        "postgresql-42.7.14.jar",
        "iceberg-aws-bundle-1.12.0.jar",
    ]
    settings = f"--conf {made['--conf']}".split("--conf ")[1:]
    assert dict(one.strip().split("=", 1) for one in settings) == COMMON


def test_databricks_takes_a_cluster_without_spark_connect(tmp_path: Path) -> None:
    made = json.loads(spark_conf(pipeline(**SHARED).at(tmp_path), "databricks", "4.1").text)["new_cluster"]

    assert made["data_security_mode"] == "SINGLE_USER"
    assert made["spark_conf"] == COMMON
    assert [script["volumes"]["destination"].rpartition("/")[2] for script in made["init_scripts"]] == ["jars.sh"]


def test_the_version_of_spark_decides_the_jar_of_iceberg(tmp_path: Path) -> None:
    shop = pipeline(**SHARED).at(tmp_path)

    assert spark_conf(shop, "emr", "4.0").jars[0] == "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"
    assert spark_conf(shop, "glue", "3.5").jars[0] == "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0"
    with pytest.raises(JarError, match=r"no Iceberg for Spark 3\.4"):
        spark_conf(shop, "emr", "3.4")


@pytest.mark.parametrize(
    ("warehouse", "client"),
    [
        ("gs://company-lake/shop", "org.apache.iceberg:iceberg-gcp-bundle:1.12.0"),
        ("abfss://lake@company.dfs.core.windows.net/shop", "org.apache.iceberg:iceberg-azure-bundle:1.12.0"),
        ("hdfs://cluster:8020/lake", "org.postgresql:postgresql:42.7.14"),
    ],
)
def test_a_store_brings_its_client(warehouse: str, client: str, tmp_path: Path) -> None:
    assert spark_conf(pipeline(**SHARED | {"warehouse": warehouse}).at(tmp_path), "dataproc", "4.1").jars[-1] == client


@pytest.mark.parametrize("platform", ELSEWHERE)
def test_a_lake_on_a_local_disk_is_refused_where_machines_share_none(platform: Platform, tmp_path: Path) -> None:
    with pytest.raises(LocalLakeError, match=f"{platform}: the lake is on a local disk, at ./lake"):
        spark_conf(pipeline(warehouse="./lake").at(tmp_path), platform, "4.1")

    assert spark_conf(pipeline(warehouse="./lake").at(tmp_path), "standalone", "4.1").jars == tuple(JARS[:2])


def test_the_command_writes_it_and_never_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKE_PASSWORD", "s3cr3t")
    (tmp_path / "frazil.yml").write_text(pipeline(**SHARED).model_dump_json(exclude_unset=True))
    words = shlex.split(f"export spark-conf {tmp_path} --platform standalone --spark 4.0")

    made, as_json = command(*words), command(*words, "--json")

    assert made.code == as_json.code == 0
    assert "spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0," in made.text
    assert json.loads(as_json.text)["environment"] == ["LAKE_PASSWORD"]
    assert "s3cr3t" not in made.text + as_json.text


@pytest.mark.parametrize(
    ("words", "said"), [("spark-conf", "Missing option '--platform'"), ("dbt --platform emr", "No such option")]
)
def test_settings_and_a_platform_belong_together(words: str, said: str) -> None:
    made = command("export", *words.split())

    assert made.code == 2
    assert said in made.text
