"""The rule over folders: a lake may not stand where its own files would be taken for a source's."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final

from frazil.spec.problem import Problem
from frazil.spec.secrets import is_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.pipeline import Pipeline

_ANY_DEPTH: Final = "**"
_STORE: Final = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+://")


def path_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Find sources whose folder, searched recursively, holds the warehouse: the lake would feed on its own files."""
    warehouse = _parts(pipeline.lake.warehouse, pipeline.folder)
    if warehouse is None:
        return
    for index, table in enumerate(pipeline.tables):
        for setting, paths in table.source.locations.items():
            for number, path in enumerate(paths):
                parts = _parts(path, pipeline.folder)
                if parts is not None and _meets(parts, warehouse):
                    yield Problem(
                        ("tables", index, "source", setting, number),
                        f"the warehouse {pipeline.lake.warehouse} lies below {setting} '{path}' of the source of table "
                        f"'{table.name}': its files would be taken for the source's",
                        "give the lake a folder beside the landing folder",
                    )


def _parts(text: str, folder: Path) -> tuple[str, ...] | None:
    """Parts of an absolute address; None where a reference stands in it."""
    if is_reference(text) or "${" in text:
        return None
    if _STORE.match(text):
        scheme, _, rest = text.partition("://")
        return ("s3" if scheme in {"s3a", "s3n"} else scheme, *filter(None, rest.split("/")))
    local = Path(re.sub(r"^file:(//[^/]*(?=/))?", "", text)).expanduser()
    magic = re.search(r"[*?\[]", f"{local}")
    return (folder / local).parts if magic else (folder / local).resolve().parts


def _meets(pattern: tuple[str, ...], warehouse: tuple[str, ...]) -> bool:
    """Whether a pattern names a folder above the warehouse, itself, or one of its inside."""
    for wanted, part in zip_longest(pattern, warehouse):
        if wanted is None or part is None or wanted == _ANY_DEPTH:
            # A folder of the warehouse may be a landing folder, if no pattern is needed to say which.
            return wanted is None or wanted == _ANY_DEPTH or any(set(text) & set("*?[") for text in pattern)
        if not fnmatchcase(part, wanted):
            return False
    return True
