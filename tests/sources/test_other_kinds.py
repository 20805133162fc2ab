"""Kinds of sources that another distribution brings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from frazil.sources.kinds import add_source
from frazil.spec.load.parse import KindError
from frazil.spec.model.kinds import DmsFiles

DECLARATION = """\
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: items
    source: {kind: tiny, path: ./landing}
    keys: [id]
"""


def installed(folder: Path, code: str) -> dict[str, str]:
    """Install a distribution with the entry point into a folder; returns the environment that finds it."""
    about = folder / "frazil_tiny-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: frazil-tiny\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[frazil.kinds]\ntiny = frazil_tiny:add\n", encoding="utf-8")
    (folder / "frazil_tiny.py").write_text(code, encoding="utf-8")
    return {**os.environ, "PYTHONPATH": f"{folder}"}


def frazil(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "frazil", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.long
@pytest.mark.process
def test_a_kind_of_another_distribution_is_declared_read_and_proved(tmp_path: Path) -> None:
    env = installed(tmp_path / "site", Path(__file__).with_name("tiny.py").read_text(encoding="utf-8"))
    shop = tmp_path / "shop"
    (shop / "landing").mkdir(parents=True)
    (shop / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    lines = '{"what": "set", "id": 1, "n": 1}\n{"what": "set", "id": 2, "n": 2}\n{"what": "unset", "id": 1}\n'
    (shop / "landing" / "1.jsonl").write_text(lines, encoding="utf-8")

    done = [frazil(env, *words, f"{shop}") for words in (["validate"], ["run"], ["check"])]
    rows = frazil(env, "query", "--project", f"{shop}", "SELECT id, n FROM marts.items", "--json")
    without = frazil({**os.environ}, "validate", f"{shop}")

    assert [one.returncode for one in done] == [0, 0, 0], [one.stdout + one.stderr for one in done]
    assert '"id": "2", "n": "2"' in rows.stdout
    assert without.returncode == 2
    assert "tiny" in without.stdout + without.stderr


@pytest.mark.process
def test_a_distribution_whose_code_fails_is_named(tmp_path: Path) -> None:
    env = installed(tmp_path / "site", "import frazil_of_tomorrow\n")
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")

    said = frazil(env, "validate", f"{tmp_path}")

    assert said.returncode == 2
    assert "[FZ918] kind of source 'tiny' of frazil-tiny 1.0 cannot be loaded: ModuleNotFoundError" in said.stderr


def test_two_kinds_cannot_have_one_name() -> None:
    with pytest.raises(KindError, match="'dms'"):
        add_source(DmsFiles, lambda _: None)  # type: ignore[arg-type, return-value]
