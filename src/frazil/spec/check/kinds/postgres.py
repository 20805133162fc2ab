"""The rules over a table of PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.spec.load.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.model.pipeline import Table


def postgres_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Find what is wrong with the source of one table, whose kind is ``postgres``; ``at`` is the path of the source."""
    source, whose = table.source, f"the source of table '{table.name}'"
    if not all(part.strip() for part in source.schema_and_name):
        yield Problem((*at, "table"), f"{whose} names no table", "write public.orders or the like")
    if any(sign in source.landing for sign in "*?["):
        yield Problem((*at, "landing"), f"landing of {whose} is a pattern", "name one folder")
