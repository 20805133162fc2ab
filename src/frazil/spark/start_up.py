"""Make Java start faster: an archive of Spark's classes, made once for an installation.

The first session of a (Java, Spark, jars) triple records the classes it loaded when it ends; later sessions
map that file instead of reading and verifying thousands of classes. Java checks the archive against itself
and the jars each time and goes on without it when they differ: a wrong one costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyspark

from frazil.host.machine import kept_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.spark.java import JavaHome

_CLAIM_SECONDS: Final = 3600
_KEEP_SECONDS: Final = 30 * 86400


def start_up_options(java: JavaHome, jars: Sequence[Path], unfinished: list[Path]) -> list[str]:
    """Choose the Java options that use the archive, or that make it when there is none yet.

    One that Java is about to make is added to ``unfinished``: it is to be removed if Java is killed. No options when
    ``$FRAZIL_START_UP_ARCHIVE`` is ``off``, or while another session is making it.

    Making it slows that one session by about a quarter and leaves a file of 190 MB, written after the process
    that started the session has ended.
    """
    if os.environ.get("FRAZIL_START_UP_ARCHIVE") == "off":
        return []
    parts = (java.home.resolve(), java.version, Path(pyspark.__file__), pyspark.__version__, *jars)
    name = hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]
    folder = kept_folder("start-up")
    archive = folder / f"{name}.jsa"
    silent = ["-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr"]
    base = _base(java, folder / f"{name}.base.jsa")
    if archive.is_file():
        return [f"-XX:SharedArchiveFile={os.pathsep.join(map(str, [*base, archive]))}", *silent]
    if _claimed(folder, name):
        return []
    claim = folder / f"{name}.jsa.part.{os.getpid()}"
    claim.touch()
    unfinished.append(claim)
    return [*(f"-XX:SharedArchiveFile={path}" for path in base), f"-XX:ArchiveClassesAtExit={claim}", *silent]


def _base(java: JavaHome, path: Path) -> list[Path]:
    """Return the archive of Java's own classes to build on; empty where Java brings one and finds it itself.

    Trimmed runtimes bring none: it is made here (13 MB, half a second). Should that fail, Java goes without.
    """
    if (java.home / "lib" / "server" / "classes.jsa").is_file():
        return []
    if not path.is_file():
        fresh = path.with_name(f"{path.name}.part.{os.getpid()}")
        dump = [
            f"{java.home / 'bin' / 'java'}",
            "-Xshare:dump",
            f"-XX:SharedArchiveFile={fresh}",
            "-Xlog:disable",
        ]
        if subprocess.run(dump, capture_output=True, check=False).returncode == 0:
            fresh.replace(path)
    return [path]


def _claimed(folder: Path, name: str) -> bool:
    """Whether a session is making the archive. Sweeps away what killed ones and old installations left."""
    now, claimed = time.time(), False
    for path in folder.glob("*.jsa*"):
        try:
            age_seconds = now - path.stat().st_mtime
        except FileNotFoundError:  # another session has ended, or swept it away
            continue
        if age_seconds > (_CLAIM_SECONDS if ".part." in path.name else _KEEP_SECONDS):
            path.unlink(missing_ok=True)
        elif path.name.startswith(f"{name}.jsa.part."):
            claimed = True
    return claimed
