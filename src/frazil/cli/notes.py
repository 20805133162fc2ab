"""What is worth knowing of the sources and of the aggregates that are left, before or after a run; and failures."""

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
        passed: table -> (path, reason) of files that are no files of its source.
        warnings: table -> sentences.
        left: aggregate with its namespace -> why it is left as it is.
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
    """Return which files at a source are no files of it."""
    shown = "; ".join(f"{path} ({why})" for path, why in passed[:_SHOWN])
    more = f"; and {len(passed) - _SHOWN:,} more" if len(passed) > _SHOWN else ""
    return f"{counted(len(passed), 'file')} passed over: {shown}{more}"
