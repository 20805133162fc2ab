"""Locations of declared folders and addresses: resolves references, ``~``, ``file:`` and relative paths."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from frazil.errors import DeclarationError
from frazil.spec.secrets import resolve

if TYPE_CHECKING:
    from frazil.spec.model.pipeline import Pipeline

_WAREHOUSE: Final = "lake.warehouse"
_FILE: Final = re.compile(r"file:(?://(?:localhost)?)?(?=/(?!/))")
_STORE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """An absolute location of files.

    Attributes:
        uri: address with a scheme and without a final slash. Local paths are not percent-encoded: Hadoop reads ``%20``
            literally.
    """

    uri: str

    @property
    def path(self) -> Path | None:
        """Return the local path; None for an object store."""
        return Path(self.uri.removeprefix("file://")) if self.uri.startswith("file://") else None


def expand(text: str, *, setting: str, folder: Path) -> str:
    """Return a declared path or address with references, ``~`` and ``file:`` replaced; a relative path stays one.

    Args:
        text: the value of a setting.
        setting: its name, for errors.
        folder: where relative paths of ``${file:…}`` start.

    Raises:
        DeclarationError: a reference cannot be resolved, the home folder does not exist, or a ``file:`` address is
            not absolute.
    """
    resolved = resolve(text, setting=setting, folder=folder)
    if not resolved.strip():
        raise DeclarationError(f"{setting}: {text!r} is empty", hint="name a folder, such as ./lake")
    if resolved.startswith("file:"):
        if (local := _FILE.match(resolved)) is None:
            raise DeclarationError(
                f"{setting}: {text} is not an absolute address", hint="write file:///folder, or a path without file:"
            )
        return unquote(resolved[local.end() :])
    expanded = os.path.expanduser(resolved)  # noqa: PTH111 - keeps ./ and ..
    if expanded.startswith("~"):
        raise DeclarationError(f"{setting}: {text}: no such home folder", hint=f"a folder of this name is ./{text}")
    return expanded


def locate(text: str, *, setting: str, folder: Path) -> Location:
    """Return the location of a declared folder, file or pattern, without following symbolic links.

    Args:
        text: the value of a setting.
        setting: its name, for errors.
        folder: where relative paths start.

    Raises:
        DeclarationError: as for :func:`expand`.
    """
    expanded = expand(text, setting=setting, folder=folder)
    if _STORE.match(expanded):
        return Location(uri=expanded.rstrip("/"))
    return Location(uri=f"file://{os.path.abspath(folder / expanded)}")  # noqa: PTH100 - resolve() would follow links


def warehouse(pipeline: Pipeline) -> Location:
    """Return the location of the warehouse; symbolic links of a local warehouse are followed.

    Raises:
        DeclarationError: as for :func:`expand`; or the address lacks ``//`` after its scheme.
    """
    declared = pipeline.lake.warehouse
    found = locate(declared, setting=_WAREHOUSE, folder=pipeline.folder)
    if found.path is None:
        return found
    if _SCHEME.match(expand(declared, setting=_WAREHOUSE, folder=pipeline.folder)):
        raise DeclarationError(f"{_WAREHOUSE}: {declared} is not an address", hint="write // after the colon")
    return Location(uri=f"file://{found.path.resolve()}")


def embedded_catalog(pipeline: Pipeline) -> Path:
    """Return the path of the SQLite file of the embedded catalog; it need not exist.

    Raises:
        DeclarationError: the warehouse is not local, or its path contains ``?``, which ends a JDBC path.
    """
    folder = warehouse(pipeline).path
    if folder is None:
        raise DeclarationError(
            f"{_WAREHOUSE}: the embedded catalog cannot live at {pipeline.lake.warehouse}",
            hint="declare a catalog: jdbc, rest, glue or hive",
        )
    if "?" in f"{folder}":
        raise DeclarationError(f"{_WAREHOUSE}: {folder} has a question mark", hint="choose another folder")
    return folder / "catalog.db"
