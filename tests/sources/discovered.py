"""Folders as DMS writes them, drawn in tests, and what is discovered of them."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from frazil.sources.dms.declaration import dms_declaration
from frazil.sources.dms.discover import Discovered, discover
from frazil.spec.load.parse import parse_declaration

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.spec import Pipeline

LOAD, FIRST, SECOND = "LOAD00000001.csv", "20240131-101500123.csv", "20240201-101500123.csv"


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files; lines are trimmed, as drawings are indented."""
    for name, drawing in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{line.strip()}\n" for line in drawing.strip().splitlines())
        file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())


def only(folder: Path) -> Discovered:
    """Discover the one table there is, and prove that its declaration is right."""
    [table] = discover(f"{folder}")
    declared(folder, [table])
    return table


def declared(folder: Path, tables: list[Discovered]) -> Pipeline:
    return parse_declaration(dms_declaration("shop", folder, tables))


def types(table: Discovered) -> dict[str, str]:
    return {column.name: column.type for column in table.columns}
