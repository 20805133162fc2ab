"""Mark all marts and aggregates at one point, by an Iceberg tag of one name on each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from frazil.catalog.lock import TURN_SECONDS, waiting_lock
from frazil.catalog.trouble import translated
from frazil.errors import DeclarationError
from frazil.failpoints import failpoint
from frazil.iceberg.snapshot import RUN_BRANCH
from frazil.lake.refs import create_tag, drop_tag, tag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")

Path = tuple[str, ...]


class CutNameError(DeclarationError):
    """A cut cannot have this name."""

    code = "FZ185"


class CutExistsError(DeclarationError):
    """There is another cut of this name."""

    code = "FZ186"


def verify_cut_name(name: str) -> None:
    """Refuse a name that a point in time, a branch or a table's engine could be confused by.

    Raises:
        CutNameError: it is not a letter with letters, digits, ``_``, ``.`` and ``-``; or it is taken by Frazil.
    """
    if not _NAME.fullmatch(name) or name == "main" or name.startswith(RUN_BRANCH):
        raise CutNameError(
            f"'{name}' cannot be the name of a cut",
            hint="a name begins with a letter, and has letters, digits, '_', '.' and '-': month-end-2026-01",
        )


def cut(
    pipeline: Pipeline,
    spark: SparkSession,
    name: str,
    heads: Callable[[], Mapping[Path, int]],
    *,
    wait_seconds: float = TURN_SECONDS,
) -> None:
    """Tag tables at their newest snapshots while nothing runs.

    A cut that was killed is ended by the same call, as long as no table has moved since.

    Args:
        pipeline: the declaration.
        spark: a session with its lake.
        name: of the cut.
        heads: returns the tables and their newest snapshots, or refuses; called when the pipeline is held.
        wait_seconds: how long to wait for a run to end.

    Raises:
        CutNameError: it cannot be called so.
        CutExistsError: tables have a tag of this name that is of another snapshot.
        BusyError: a run holds the pipeline for longer than that.
    """
    verify_cut_name(name)
    with waiting_lock(pipeline, wait_seconds), translated(pipeline):
        wanted = heads()
        tagged = {path: tag(spark, path, name) for path in wanted}
        other = [path for path, had in tagged.items() if had not in (None, wanted[path])]
        if other:
            raise CutExistsError(
                f"there is a cut '{name}' already, and {'.'.join(other[0][1:])} has changed since",
                hint=f"choose another name; or remove it first: frazil cut --drop {name}",
            )
        for path, snapshot in wanted.items():
            if tagged[path] is None:
                create_tag(spark, path, name, snapshot)
                failpoint("cut.after_tag")


def drop_cut(pipeline: Pipeline, spark: SparkSession, name: str, tables: Iterable[Path]) -> None:
    """Remove the tag of a cut from tables; their snapshots can expire then.

    Raises:
        BusyError: a run holds the pipeline, for a minute.
    """
    with waiting_lock(pipeline), translated(pipeline):
        for path in tables:
            drop_tag(spark, path, name)
