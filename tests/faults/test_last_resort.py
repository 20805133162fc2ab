"""An unexpected error is one line, and its stack is kept; a closed pipe is not an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import frazil

FRAZIL = Path(sys.executable).with_name("frazil")
BROKEN = """
import frazil.spec.load.parse
def load(path):
    raise ZeroDivisionError("nobody thought\\nof this")
frazil.spec.load.parse.load = load
from frazil.cli import main
main()
"""


@pytest.mark.process
@pytest.mark.parametrize("verbose", [False, True])
def test_an_unknown_error_is_one_line_and_a_log(tmp_path: Path, *, verbose: bool) -> None:
    arguments = ["validate", "-v"] if verbose else ["validate"]

    done = subprocess.run(
        [sys.executable, "-c", BROKEN, *arguments],
        env={**os.environ, "FRAZIL_CACHE": f"{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )

    [log] = (tmp_path / "logs").glob("bug-*.log")
    line, hint, *more = done.stderr.splitlines()
    assert done.returncode == 1
    assert line == "[FZ000] a bug in Frazil: ZeroDivisionError: nobody thought"
    assert f"{log}" in hint
    assert bool(more) == verbose
    kept = log.read_text()
    assert "Traceback" in kept
    assert f"frazil {frazil.__version__}" in kept


@pytest.mark.process
def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    reading = subprocess.Popen(
        [FRAZIL, "init", tmp_path / "files", "--rows", "10"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert reading.stdout
    reading.stdout.close()

    _, said = reading.communicate(timeout=300)

    assert said == b""
    assert reading.returncode == 141
