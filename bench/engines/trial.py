"""The story of one lake, and what each engine could do with it."""

from __future__ import annotations

import re
import traceback
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from bench.engines import upkeep
from bench.engines.asking import DuckDB, PyIceberg, Spark, Trino
from bench.engines.kinds import ENGINES, TRIED
from bench.engines.orders import COLUMNS, expected, in_order
from frazil import api
from frazil.errors import FrazilError
from frazil.iceberg.metadata import read_metadata
from frazil.runner.report import RunFailedError
from frazil.serve.tables import tables
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.engines.asking import Engine
    from bench.engines.lakes import Lake

Cell = list[str]
"""``yes``, ``no``, ``not tried`` or ``—`` where an engine has no such thing, and why it is not yes."""
Cells = dict[str, dict[str, Cell]]
"""Engine -> what is tried of it -> outcome."""

_THROUGH_SPARK: Final = ["—", "Frazil writes through Spark; rows that others write are found by `frazil check`"]
_READS_ONLY: Final = ["—", "Frazil opens DuckDB to read only"]
_BY_FILE: Final = [
    "not tried",
    "PyIceberg needs SQLAlchemy for this catalog, which was not installed; it read the metadata file by its address",
]
_VARIES: Final = re.compile(
    r"\w+://[^\s,;'\")]+|file:/[^\s,;'\")]+|/[\w.-]+/[^\s,;'\")]+|\b\w*\d{6,}[\w-]*|\b[0-9A-F]{16,}\b"
)
"""What differs from lake to lake in what engines say: addresses, paths, numbers of snapshots, queries and requests."""


class NotEqualError(Exception):
    """Rows are not those that follow from what arrived, or Frazil did not go on as it should."""


def trial(lake: Lake, say: Callable[[str], object]) -> Cells:
    """Try everything on a new lake.

    Two batches are written; then each engine reads both marts as they are and as they were after the first batch. Then
    each engine that maintains does so, and after each of them a run takes one more batch.
    """
    cells: Cells = {engine: {} for engine in ENGINES}

    def tried(engine: str, what: str, work: Callable[[], object]) -> bool:
        cells[engine][what] = _outcome(work)
        say(f"  {engine} {what}: {' '.join(cells[engine][what])}")
        return cells[engine][what][0] == "yes"

    first: dict[str, int] = {}
    if not tried("spark", "write", lambda: first.update(_written(lake))):
        why = cells["spark"]["write"][1]
        return _unwritten(cells, f"Frazil cannot write this lake: {why}")
    with ExitStack() as held:
        engines, refused = _engines(lake, held)
        for name, engine in engines.items():
            tried(name, "read", partial(_reads, engine, lake.batch))
            tried(name, "time travel", partial(_reads, engine, 1, first))
        cells["pyiceberg"]["write"] = cells["duckdb"]["write"] = cells["trino"]["write"] = _THROUGH_SPARK
        cells["duckdb"]["maintenance"] = _READS_ONLY
        tried("spark", "maintenance", lambda: _goes_on(lake, lambda: upkeep.by_spark(lake)))
        iceberg, trino = engines["pyiceberg"], engines.get("trino")
        if lake.kind.catalog in ("rest", "glue") and isinstance(iceberg, PyIceberg):
            tried("pyiceberg", "maintenance", lambda: _goes_on(lake, lambda: upkeep.by_pyiceberg(iceberg)))
        else:
            cells["pyiceberg"]["maintenance"] = _BY_FILE
        if isinstance(trino, Trino):
            tried("trino", "maintenance", lambda: _goes_on(lake, lambda: upkeep.by_trino(trino)))
        else:
            cells["trino"] |= {what: ["not tried", refused] for what in TRIED if what != "write"}
    return cells


def _engines(lake: Lake, held: ExitStack) -> tuple[Mapping[str, Engine], str]:
    """Return the engines that can be asked, and why Trino is not among them if it is not."""
    engines: dict[str, Engine] = {
        "spark": Spark(lake.folder),
        "pyiceberg": PyIceberg(lake.folder),
        "duckdb": DuckDB(lake.folder),
    }
    try:
        return engines | {"trino": Trino(held.enter_context(api.serve(lake.folder)).port)}, ""
    except FrazilError as error:
        return engines, f"Trino does not start: {_told(error)}"


def _outcome(work: Callable[[], object]) -> Cell:
    try:
        work()
    except Exception as error:  # noqa: BLE001 - every engine has errors of its own, and each is an answer
        traceback.print_exception(error)
        return ["no", _told(error)]
    return ["yes", ""]


def _told(error: BaseException) -> str:
    """Return what an error says in a line, without what differs from lake to lake."""
    if isinstance(error, RunFailedError):
        error = error.errors[0]
    message = getattr(error, "message", None)
    text = message if isinstance(message, str) else f"{error}"
    line = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    said = " ".join(_VARIES.sub("…", line).split()).replace("|", "/")
    return said if isinstance(error, FrazilError | NotEqualError) else f"{type(error).__name__}: {said}"[:240]


def _unwritten(cells: Cells, why: str) -> Cells:
    """Fill the cells of a lake that could not be written."""
    for engine, found in cells.items():
        found |= {what: ["not tried", why] for what in TRIED if what not in found}
        if engine != "spark":
            found["write"] = _THROUGH_SPARK
    cells["duckdb"]["maintenance"] = _READS_ONLY
    return cells


def _written(lake: Lake) -> dict[str, int]:
    """Write two batches, and return the snapshot that each mart had after the first."""
    first = _run(lake)
    _run(lake)
    _proven(lake)
    return {mart: first[f"marts.{mart}"] for mart in COLUMNS}


def _run(lake: Lake) -> dict[str, int]:
    """Take the next batch, and return the snapshots of the tables."""
    lake.deliver()
    pipeline = api.load(lake.folder)
    (table,) = api.run(pipeline, spark=spark_session(pipeline)).tables
    return table.commits


def _proven(lake: Lake) -> None:
    """Let ``frazil check`` prove the lake."""
    failed = [finding for finding in api.check(lake.folder) if finding.ok is False]
    if failed:
        raise NotEqualError(f"frazil check: {failed[0].law} of {failed[0].table}: {failed[0].detail}")


def _snapshots(lake: Lake) -> dict[str, set[int]]:
    """Return the snapshots that each mart has."""
    located = tables(api.load(lake.folder))
    read = {mart: read_metadata(located["marts", mart]) for mart in COLUMNS}
    return {mart: {one["snapshot-id"] for one in found["snapshots"]} for mart, found in read.items()}


def _reads(engine: Engine, batch: int, snapshots: Mapping[str, int] | None = None) -> None:
    """Ask for the rows of both marts, and compare them with those that the oracle has after a batch."""
    for mart in COLUMNS:
        found = in_order(engine.rows(mart, None if snapshots is None else snapshots[mart]))
        wanted = expected(mart, batch)
        if found != wanted:
            more, less = len([*{*found} - {*wanted}]), len([*{*wanted} - {*found}])
            raise NotEqualError(f"rows of {mart} differ: {more} too many, {less} missing")


def _goes_on(lake: Lake, maintain: Callable[[], object]) -> None:
    """Maintain; see that snapshots go and rows stay, that Frazil has nothing to do, and that its next run is exact."""
    before = _snapshots(lake)
    maintain()
    after = _snapshots(lake)
    if kept := [mart for mart in COLUMNS if before[mart] <= after[mart]]:
        raise NotEqualError(f"no snapshot of {kept[0]} has expired")
    _reads(Spark(lake.folder), lake.batch)
    steps = api.plan(lake.folder).steps
    if steps:
        raise NotEqualError(f"a run has {len(steps)} steps to do after maintenance, and nothing arrived")
    _run(lake)
    _proven(lake)
    _reads(Spark(lake.folder), lake.batch)
