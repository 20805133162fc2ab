"""What is in quarantine, for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.cli.console import out
from frazil.cli.grid import fitted, grid
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from frazil.serve.quarantine import BrokenRule, Quarantine


def show_quarantine(found: Quarantine) -> None:
    """Print the rules that records break, and the records of a table."""
    if not found.rules:
        out.print("nothing is in quarantine", markup=False)
        return
    grid(
        None,
        ("table", "rule", "column", "records", "batches", "for example"),
        [
            (rule.table, rule.rule, rule.column or "", f"{rule.records:,}", _batches(rule), rule.example)
            for rule in found.rules
        ],
        right=["records"],
    )
    if found.records:
        fitted(
            ("file", "row", "batch", "reason", "raw"),
            [(one.file, one.row, one.batch, one.reason, one.raw) for one in found.records],
        )
        of = sum(rule.records for rule in found.rules)
        out.print(f"{len(found.records):,} of {counted(of, 'record')}", style="dim", markup=False)


def _batches(rule: BrokenRule) -> str:
    is_one = rule.first_batch == rule.last_batch
    return f"{rule.first_batch}" if is_one else f"{rule.first_batch} to {rule.last_batch}"
