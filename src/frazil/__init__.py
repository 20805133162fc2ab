"""Frazil turns database changes into exact Apache Iceberg tables.

The rooms, in the order of the data; each imports only what stands before it::

    errors, spec, steps   what can go wrong, what a user declares, what can happen
    bronze                records as they came, and the ledger of files
    silver                typed changes, quarantine
    marts                 current tables and history
    gold                  aggregates
    plan                  declaration and state in, steps out
    sources, lake         the two edges: files; session, catalog, commits
    engine                does the steps, once, in order
    serve, interop        looks at the lake without a JVM; other tools
    cli                   the command

Importing this module starts nothing and does not import Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.errors import FrazilError
from frazil.spec import Column, Current, DmsFiles, Gold, History, Lake, Pipeline, Table, Upkeep

if TYPE_CHECKING:
    from collections.abc import Callable

    from frazil.engine.run import run
    from frazil.spec.parse import load

__version__ = "0.1.0"

__all__ = [
    "Column",
    "Current",
    "DmsFiles",
    "FrazilError",
    "Gold",
    "History",
    "Lake",
    "Pipeline",
    "Table",
    "Upkeep",
    "load",
    "run",
]


def __getattr__(name: str) -> Callable[..., object]:
    # Spark takes half a second to import; a command that only validates must not wait for it.
    if name == "run":
        from frazil.engine.run import run  # noqa: PLC0415

        return run
    if name == "load":
        from frazil.spec.parse import load  # noqa: PLC0415

        return load
    raise AttributeError(f"module 'frazil' has no attribute {name!r}")
