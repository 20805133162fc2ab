"""The wheel, installed alone into a bare environment: what only reads a lake works without PySpark."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.shop import Shop

pytestmark = [pytest.mark.long, pytest.mark.process]

ROOT = Path(__file__).parents[2]
READING = ("validate", "status", "ls", "check", "plan", "runs", "quarantine", "doctor")


def call(*words: Path | str, code: int = 0) -> str:
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the wheel and the sdist, built from this source."""
    folder = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "uv", "build", "--quiet", "--out-dir", folder, ROOT)
    return folder


@pytest.fixture(scope="module")
def frazil(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command ``frazil`` of an environment with the wheel and nothing but what it requires."""
    folder = tmp_path_factory.mktemp("bare")
    call(sys.executable, "-m", "uv", "venv", "--quiet", "--python", sys.executable, folder)
    [wheel] = built.glob("*.whl")
    python = folder / "bin" / "python"
    call(
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--quiet",
        "--python",
        python,
        "-c",
        ROOT / "constraints.txt",
        wheel,
    )
    return folder / "bin" / "frazil"


def test_wheel_and_sdist_have_every_file_of_the_package(built: Path) -> None:
    package = {
        f"{path.relative_to(ROOT / 'src')}"
        for path in (ROOT / "src" / "frazil").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    [wheel], [sdist] = built.glob("*.whl"), built.glob("*.tar.gz")

    in_wheel = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("frazil/")}
    with tarfile.open(sdist) as tar:
        in_sdist = {name.partition("/src/")[2] for name in tar.getnames() if "/src/frazil/" in name}

    assert in_wheel == package
    assert package <= in_sdist


def test_a_lake_is_read_without_pyspark_and_a_run_says_what_it_needs(shop: Shop, frazil: Path) -> None:
    shop.land("20260101.csv", "U,1,2026-01-01 00:00:00,ada")
    shop.run()
    folder = shop.pipeline.folder

    for word in READING:
        call(frazil, word, "--project", folder)
    call(frazil, "lineage", "orders", "--project", folder)
    rows = call(frazil, "query", "--project", folder, "SELECT id, note FROM marts.orders", "--json")
    story = call(frazil, "key", "orders", "1", "--project", folder)
    doctor = call(frazil, "doctor", folder)
    shop.land("20260102.csv", "U,2,2026-01-02 00:00:00,bob")
    run = call(frazil, "run", folder, code=2)
    maintain = call(frazil, "maintain", folder, code=2)

    assert json.loads(rows) == [{"id": 1, "note": "ada"}]
    assert "ada" in story
    assert "pip install 'frazil[spark]'" in " ".join(doctor.split())
    assert "[FZ919]" in run
    assert "[FZ919]" in maintain
    assert [*Path(folder, "landing").glob("20260102.csv")]


@pytest.mark.parametrize("others", ["dbt-core dbt-duckdb", "dlt[duckdb]", "sqlmesh", "apache-airflow>=3"])
def test_the_wheel_fits_into_an_environment_with_other_tools(built: Path, others: str, tmp_path: Path) -> None:
    [wheel] = built.glob("*.whl")
    wanted = tmp_path / "requirements.in"
    wanted.write_text(
        "\n".join([f"frazil[catalogs,postgres,stores,ui] @ {wheel.as_uri()}", *others.split()]), encoding="utf-8"
    )

    found = call(sys.executable, "-m", "uv", "pip", "compile", "--quiet", wanted)

    assert all(f"\n{one.partition('[')[0].partition('>')[0]}==" in found for one in others.split())
