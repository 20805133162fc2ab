"""A real cluster: it writes the rows that one process writes, also when executors are lost meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from select import select
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

import pytest

import frazil
from frazil import api
from frazil.spark.jars import default_jars, ready_jars
from frazil.testing.generate import COLUMNS, generate, sample_declaration
from frazil.testing.sample_files import SampleFiles
from frazil.testing.spark_cluster import QUICK_JAVA, spark_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.testing.spark_cluster import SparkCluster

pytestmark = [pytest.mark.server, pytest.mark.long]

KILLS = 10
ERASES = 4
COMMAND = Path(__file__).parents[2] / "integrations" / "spark" / "run_frazil.py"

# Every batch is read, typed, folded and written by executors, however small it is.
DRIVER = """
import sys
from pathlib import Path
from time import sleep
import frazil
from frazil import api
from frazil.runner.options import RunOptions
from frazil.spark.session import spark_session
from frazil.plan.policy import Policy

home, given = Path(sys.argv[1]), Path(sys.argv[2])
pipeline = frazil.load(home)
policy = Policy(reader="executors", row_delta_bytes=0, driver_scan_bytes=0, strategy="delete_append")
spark = spark_session(pipeline)
while True:
    for batch in given.glob("2*.csv"):
        batch.rename(home / "landing" / batch.name)
        print("begins", flush=True)
        frazil.run(pipeline, spark=spark, options=RunOptions(policy=policy))
        print("ends", flush=True)
    for keys in given.glob("erase-*"):
        named = keys.read_text().split()
        keys.unlink()
        print("begins", flush=True)
        api.erase(pipeline, "orders", keys=named, spark=spark)
        print("ends", flush=True)
    if (given / "end").exists():
        break
    sleep(0.05)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    """Two workers with one core each."""
    with spark_cluster() as running:
        yield running


def shop(folder: Path, files: SampleFiles) -> tuple[Path, Path]:
    """Make a project that has the full load in its landing folder, and the folder of the batches to come."""
    home, coming = folder / "home", folder / "coming"
    made = generate(coming, files)
    (home / "landing").mkdir(parents=True)
    for path in made.load:
        path.rename(home / "landing" / path.name)
    (home / "frazil.yml").write_text(sample_declaration("landing"))
    return home, coming


def shops(folder: Path, *, batches: int) -> list[tuple[Path, Path]]:
    """Make the same project twice: one for the cluster, one for this process."""
    files = SampleFiles(rows=20_000, changes=2_000, batches=batches, late=0.1, nasty=True)
    return [shop(folder / name, files) for name in ("cluster", "local")]


@contextmanager
def followed(cluster: SparkCluster, folder: Path, home: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Let a driver do what comes into a folder while the block runs; it must end well."""
    given, script = folder / "given", folder / "driver.py"
    given.mkdir()
    script.write_text(DRIVER)
    driver = submit(cluster, script, f"{home}", f"{given}")
    try:
        yield driver, given
        (given / "end").touch()
        driver.wait(300)
    finally:
        driver.kill()
    assert driver.returncode == 0, said(cluster)


def submit(cluster: SparkCluster, script: Path, *words: str) -> subprocess.Popen[str]:
    """Start a script on the cluster; what it prints can be read line by line."""
    jars = ",".join(map(str, ready_jars(default_jars())))
    sizes = ["--driver-memory", "1g", "--executor-memory", "1g", "--driver-java-options", QUICK_JAVA]
    settings = (
        "spark.ui.enabled=false",
        "spark.sql.shuffle.partitions=4",
        f"spark.executor.extraJavaOptions={QUICK_JAVA}",
    )
    options = [*sizes, *(word for setting in settings for word in ("--conf", setting)), "--jars", jars]
    command = [f"{Path(sys.executable).with_name('spark-submit')}", "--master", cluster.master, *options]
    with (cluster.folder / "driver.log").open("ab") as log:
        return subprocess.Popen(
            [*command, f"{script}", *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, **cluster.environment},
        )


def said(cluster: SparkCluster) -> str:
    return (cluster.folder / "driver.log").read_text(errors="replace")[-4000:]


def rows_of(home: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Give the marts' rows, without the columns that tell of their writing."""
    columns = ", ".join(COLUMNS)
    queries = {
        "orders": f"SELECT {columns} FROM marts.orders ORDER BY id",
        "orders_history": f"SELECT {columns}, valid_from, valid_to, is_current FROM marts.orders_history "
        "ORDER BY id, valid_from",
    }
    return {mart: api.query(home, text).rows for mart, text in queries.items()}


def test_a_script_that_is_submitted_writes_what_one_process_writes(cluster: SparkCluster, tmp_path: Path) -> None:
    (home, coming), (beside, its_coming) = shops(tmp_path, batches=1)

    for path in (None, *sorted(coming.glob("2*.csv"))):
        if path is not None:
            path.rename(home / "landing" / path.name)
            its_coming.joinpath(path.name).rename(beside / "landing" / path.name)
        done = submit(cluster, COMMAND, "run", f"{home}", "--json")
        out, _ = done.communicate(timeout=900)
        assert done.returncode == 0, out + said(cluster)
        assert json.loads(out)["tables"][0]["outcome"] == "done"
        frazil.run(frazil.load(beside))

    assert rows_of(home) == rows_of(beside)
    assert all(proof.ok for proof in api.check(home))


@pytest.mark.laws
def test_executors_that_are_lost_cost_time_and_no_run(cluster: SparkCluster, tmp_path: Path) -> None:
    """Executors are killed at moments of a batch which spread over what a batch takes."""
    (home, coming), (beside, its_coming) = shops(tmp_path, batches=2 * KILLS + 2)
    with followed(cluster, tmp_path, home) as (driver, given):
        for path in _kill_during_batches(cluster, driver, coming, given):
            its_coming.joinpath(path).rename(beside / "landing" / path)

    frazil.run(frazil.load(beside))
    assert rows_of(home) == rows_of(beside)
    assert all(proof.ok for proof in api.check(home))


@pytest.mark.laws
@pytest.mark.laws
def test_an_erase_goes_on_without_executors_that_are_lost(cluster: SparkCluster, tmp_path: Path) -> None:
    keys = range(1, ERASES + 2)
    (home, coming), (beside, its_coming) = shops(tmp_path, batches=2)
    with followed(cluster, tmp_path, home) as (driver, given):
        for path in sorted(coming.glob("2*.csv")):
            its_coming.joinpath(path.name).rename(beside / "landing" / path.name)
            path.rename(given / path.name)
            _begins_and_ends(cluster, driver)
        seconds = _erased(cluster, driver, given, 1)
        for key in keys[1:]:
            kill_after = seconds * (key - 1.5) / ERASES
            seconds = min(seconds, _erased(cluster, driver, given, key, kill_after))

    frazil.run(frazil.load(beside))
    api.erase(beside, "orders", keys=[f"{key}" for key in keys])
    assert rows_of(home) == rows_of(beside)
    assert [proof for proof in api.check(home) if proof.ok is False] == []


def _erased(
    cluster: SparkCluster, driver: subprocess.Popen[str], given: Path, key: int, kill_after: float | None = None
) -> float:
    """Erase a key; see :func:`_begins_and_ends`."""
    (given / ".new").write_text(f"{key}")
    (given / ".new").rename(given / f"erase-{key}")
    return _begins_and_ends(cluster, driver, kill_after)


def _begins_and_ends(cluster: SparkCluster, driver: subprocess.Popen[str], kill_after: float | None = None) -> float:
    """Wait until the driver has done something, and kill an executor while it does; return the seconds it took."""
    lines = driver.stdout
    assert lines is not None
    assert lines.readline().strip() == "begins", said(cluster)
    began = monotonic()
    if kill_after is not None:
        has_ended, _, _ = select([lines], [], [], kill_after)
        assert not has_ended, said(cluster)
        assert cluster.kill_executor(_wait_for_executors(cluster)[0])
    assert lines.readline().strip() == "ends", said(cluster)
    return monotonic() - began


def _kill_during_batches(
    cluster: SparkCluster, driver: subprocess.Popen[str], coming: Path, given: Path
) -> Iterator[str]:
    """Let two batches pass, and give more until executors were killed while one was applied; names them."""
    lines, names = driver.stdout, iter(sorted(path.name for path in coming.glob("2*.csv")))
    assert lines is not None
    killed, seconds = -2, 0.0
    while killed < KILLS:
        name = next(names)  # where batches end before their kill again and again, this ends the test
        coming.joinpath(name).rename(given / name)
        assert lines.readline().strip() == "begins", said(cluster)
        began = monotonic()
        if killed < 0:
            killed += 1
        else:
            has_ended, _, _ = select([lines], [], [], seconds * (killed + 0.5) / KILLS)
            alive = [] if has_ended else _wait_for_executors(cluster)
            killed += bool(alive) and cluster.kill_executor(alive[killed % len(alive)])
        assert lines.readline().strip() == "ends", said(cluster)
        took = monotonic() - began
        seconds = took if killed <= 0 else min(seconds, took)
        yield name


def _wait_for_executors(cluster: SparkCluster) -> list[int]:
    """Return the executors; on a busy machine those that were killed take a while to be replaced."""
    until = monotonic() + 300
    while not (alive := cluster.executors()):
        assert monotonic() < until, said(cluster)
        sleep(0.1)
    return alive
