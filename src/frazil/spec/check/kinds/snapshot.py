"""The rules over whole dumps: what their settings mean for one another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.spec.load.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.model.pipeline import Table


def snapshot_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Find what is wrong with the source of a table whose kind is ``snapshot``; ``at`` is the path of the source."""
    source, whose = table.source, f"the source of table '{table.name}'"
    if (source.path is None) == (source.url is None):
        what = "neither path nor url" if source.path is None else "both path and url"
        yield Problem(at, f"{whose} has {what}", "write path for a folder of dumps, or url and table for a database")
    elif source.url is None:
        yield from (
            Problem((*at, setting), f"{setting} of {whose} has no use without url", "leave it out")
            for setting in ("table", "every_minutes")
            if setting in source.model_fields_set
        )
    elif not all(part.strip() for part in source.schema_and_table):
        yield Problem(at, f"{whose} names no table", "write table: public.prices or the like")
    elif "settle_seconds" in source.model_fields_set:
        yield Problem((*at, "settle_seconds"), f"settle_seconds of {whose} has no use with url", "leave it out")
