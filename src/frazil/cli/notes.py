"""Notes on sources and aggregates, and failures, of a plan or a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.cli.console import err, out
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from frazil.errors import Failure

_SHOWN = 5


def show_notes(
    passed: Mapping[str, Sequence[tuple[str, str]]], warnings: Mapping[str, Sequence[str]], left: Mapping[str, str]
) -> None:
    """Print notes, table by table, then the aggregates.

    Args:
        passed: table -> (path, reason) of files that do not belong to its source.
        warnings: table -> sentences.
        left: aggregate with its namespace -> why it is not refreshed.
    """
    for table in dict.fromkeys((*passed, *warnings)):
        said = [passed_over(passed[table])] if passed.get(table) else []
        for text in (*said, *warnings.get(table, ())):
            out.print(f"{table}: {text}", style="yellow", markup=False)
    for name, reason in left.items():
        out.print(f"{name}: left as it is, because {reason}", style="yellow", markup=False)


def show_failures(failures: Iterable[Failure]) -> None:
    """Print every error of a run or a plan, with its code and its hint."""
    for failure in failures:
        err.print(f"{failure.name}: [{failure.code}] {failure.message}", style="red", markup=False)
        if failure.hint:
            err.print(f"  hint: {failure.hint}", markup=False)


def passed_over(passed: Sequence[tuple[str, str]]) -> str:
    """Return the files in a source's folder that do not belong to it, as text."""
    shown = "; ".join(f"{path} ({why})" for path, why in passed[:_SHOWN])
    more = f"; and {len(passed) - _SHOWN:,} more" if len(passed) > _SHOWN else ""
    return f"{counted(len(passed), 'file')} passed over: {shown}{more}"
