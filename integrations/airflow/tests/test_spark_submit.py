"""The operator with ``spark-submit`` as its command: the way onto a cluster, here with a master in one process."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from airflow.sdk import DAG
from frazil_airflow.operators import FrazilRunOperator
from test_operators import context

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
JARS = "from frazil.spark.jars import default_jars, ready_jars; print(*ready_jars(default_jars()), sep=',')"


@pytest.mark.parametrize("example", ["products"], indirect=True)
def test_spark_submit_is_a_command_like_any_other(example: Path, tmp_path: Path) -> None:
    frazil = shutil.which("frazil")
    assert frazil, "these tests need frazil on the PATH: make e2e"
    python, submit = (str(Path(frazil).with_name(name)) for name in ("python", "spark-submit"))
    jars = subprocess.run([python, "-c", JARS], check=True, capture_output=True, text=True).stdout.strip()
    script = tmp_path / "run_frazil.py"
    script.write_text("from frazil.cli import main\n\nmain()\n")
    command = [submit, "--master", "local[1]", "--jars", jars, "--conf", f"spark.sql.extensions={EXTENSIONS}"]
    with DAG("submitted", schedule=None):
        run = FrazilRunOperator(
            task_id="run", project=str(example), command=[*command, str(script)], env={"PYSPARK_PYTHON": python}
        )
    given = context()
    report = run.execute(given)
    assert report["exit_code"] == 0
    assert "iceberg://products/marts/products" in given["outlet_events"].added
