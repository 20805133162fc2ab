"""Named places where tests can kill a run, to prove ONCE.

``FRAZIL_FAILPOINT=<name>`` kills the process and its JVM at that place, as ``kill -9`` does. ``<name>:raise`` raises
instead, and ``<name>:stop`` stops the process once, until SIGCONT. Without the variable a failpoint does nothing.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

FAILPOINTS: Final = (
    "fold.before_publish",
    "fold.after_silver",
    "fold.before_bronze",
    "fold.after_bronze",
    "bronze.before_write",
    "bronze.before_publish",
    "bronze.after_publish",
    "replay.before_publish",
    "replay.after_publish",
    "quarantine.before_publish",
    "quarantine.after_publish",
    "silver.before_write",
    "silver.before_publish",
    "silver.after_publish",
    "mart.before_write",
    "mart.before_rows",
    "mart.before_publish",
    "mart.after_publish",
    "merge.after_rewrite",
    "gold.before_publish",
    "gold.after_publish",
    "certificate.before_write",
    "certificate.after_write",
    "maintain.after_rewrite",
    "maintain.after_manifests",
    "maintain.after_stamp",
    "maintain.after_expire",
    "cut.after_tag",
    "rollback.before_commit",
    "rollback.after_commit",
    "erase.after_block",
    "erase.after_landed",
    "erase.before_publish",
    "erase.after_bronze",
    "erase.after_silver",
    "erase.after_marts",
    "erase.after_rewrite",
    "erase.after_purge",
    "erase.after_receipt",
    "treat.before_publish",
    "treat.after_bronze",
    "treat.after_marts",
    "treat.after_purge",
    "treat.before_end",
    "capture.after_publication",
    "capture.after_slot",
    "capture.rows_written",
    "capture.rows_shown",
    "capture.range_written",
    "capture.range_named",
    "capture.range_half_shown",
    "capture.range_shown",
    "capture.before_advance",
    "capture.after_advance",
    "capture.reload_slot",
    "capture.reload_written",
    "capture.reload_named",
    "capture.reload_shown",
    "dump.taken",
    "dump.shown",
    "dump.landed",
)


class FailpointReached(Exception):  # noqa: N818 - not an error of the product
    """Raised by a failpoint in ``raise`` mode."""


def failpoint(name: str) -> None:
    """Kill or stop the process here, or raise, if ``FRAZIL_FAILPOINT`` names this place."""
    wanted, _, mode = os.environ.get("FRAZIL_FAILPOINT", "").partition(":")
    if wanted != name:
        return
    if mode == "raise":
        raise FailpointReached(name)
    if mode == "stop":
        del os.environ["FRAZIL_FAILPOINT"]
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    for child in _children(os.getpid()):
        # Workers end by themselves when their JVM is gone, and another mart's thread may be here too.
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _children(parent: int) -> list[int]:
    """Return all descendants of a process, including the JVM and its Python workers."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{parent}/task").iterdir():
            for child in map(int, (task / "children").read_text(encoding="ascii").split()):
                found += [child, *_children(child)]
    return found
