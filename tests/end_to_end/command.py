"""The command line as users have it, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def frazil(folder: Path, *words: str, java: bool = True, code: int = 0) -> str:
    """Run the command and return what it prints; without Java it fails where it starts one."""
    no_java = {} if java else {"FRAZIL_JAVA_HOME": "/nowhere", "JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
    command = [sys.executable, "-m", "frazil", *words]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **no_java}, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stdout + done.stderr
