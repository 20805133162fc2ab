"""What rules say of tables, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.cli.grid import grid
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.serve.check.rules import RuleTest


def show_rules(results: Sequence[RuleTest]) -> None:
    """Print a line for each rule."""
    if results:
        grid(
            None,
            ("table", "rule", "column", "rows", "broken", "on violation", "detail"),
            [
                (
                    *(one.table, one.rule, one.column or "", f"{one.rows:,}"),
                    *("?" if one.broken is None else f"{one.broken:,}", one.on_violation, one.detail),
                )
                for one in results
            ],
            right=("rows", "broken"),
        )


def summary(results: Sequence[RuleTest]) -> str:
    """Say in one line how many rules hold."""
    if not results:
        return "no table has rules and rows"
    kept = sum(one.broken == 0 for one in results)
    parts = [f"{counted(kept, 'rule is', 'rules are')} kept"]
    broken, warned = (sum(one.ok is ok and bool(one.broken) for one in results) for ok in (False, None))
    untold = sum(one.broken is None for one in results)
    parts += [f"{broken:,} broken"] if broken else []
    parts += [f"{warned:,} broken that only {'warns' if warned == 1 else 'warn'}"] if warned else []
    parts += [f"{untold:,} cannot be told"] if untold else []
    return ", ".join(parts)
