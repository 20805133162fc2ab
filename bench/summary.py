"""Raw rows in, what people want to know out: medians, ratios of pairs, and the bars."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from bench.turns import QUIET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Row = dict[str, Any]

CASE: Final = ("rows", "changes", "keys", "late", "columns", "tables")

Case = tuple[Any, ...]
"""Values of :data:`CASE`, in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one contender did in one case; numbers are medians over all turns.

    Attributes:
        contender: its name; a part that was measured by itself is written ``name · part``.
        right: whether the table was correct at the end; None without a table to check.
        wall_s, cpu_s: of one batch, or of the load.
        tasks_s, compile_s: CPU seconds in Spark's tasks and in Java's compilers, if measured separately.
        jobs: Spark jobs of one batch; None without Spark.
        written_bytes, replaced_bytes: of one batch.
        peak_bytes: highest memory in any turn.
        read_wall_s, read_cpu_s: of reading the whole table afterwards.
        noisy: whether others took more than a tenth of the machine in half of the turns or more.
        error: why there are no numbers.
    """

    contender: str
    right: bool | None
    wall_s: float | None = None
    cpu_s: float | None = None
    tasks_s: float | None = None
    compile_s: float | None = None
    jobs: float | None = None
    written_bytes: float | None = None
    replaced_bytes: float | None = None
    peak_bytes: float | None = None
    read_wall_s: float | None = None
    read_cpu_s: float | None = None
    noisy: bool = False
    error: str | None = None


def cases(rows: Iterable[Row]) -> list[Case]:
    """List the cases that rows are about, largest tables and batches last."""
    return sorted({case_of(row) for row in rows}, key=str_key)


def str_key(case: Case) -> tuple[Any, ...]:
    """Order cases by their numbers, then by their words."""
    rows, changes, keys, late, columns, tables = case
    return tables, columns, late, keys != "mixed", keys, rows, changes


def case_of(row: Row) -> Case:
    """Name the case that a row is about."""
    return tuple(row[name] for name in CASE)


def standings(rows: Sequence[Row], case: Case, phase: str = "apply") -> list[Standing]:
    """Return the results of all contenders in a case, correct tables first, then by CPU."""
    mine = [row for row in rows if case_of(row) == case]
    names = dict.fromkeys(name_of(row) for row in mine if row["phase"] in {phase, "failed"})
    every = [_standing(name, [row for row in mine if name_of(row) == name], mine, phase) for name in names]
    return sorted(every, key=lambda one: (one.error is not None, one.right is False, one.cpu_s or 0.0))


def name_of(row: Row) -> str:
    """Name a row's contender, and its part."""
    return f"{row['contender']} · {row['part']}" if "part" in row else str(row["contender"])


def middle(rows: Iterable[Row], field: str) -> float | None:
    """Median of a field over the rows that have it."""
    numbers = [row[field] for row in rows if row.get(field) is not None]
    return median(numbers) if numbers else None


def times_less(
    rows: Sequence[Row], case: Case, ours: str, theirs: str, *, field: str = "cpu_s", phase: str = "apply"
) -> float | None:
    """How many times less we take than they do: the median over rounds of the ratio of that round's medians.

    Returns:
        None where one of them was not measured, or did not end with the right table.
    """
    ratios = []
    mine = [row for row in rows if case_of(row) == case and row["phase"] == phase]
    if any(row["right"] is False for row in mine if name_of(row) in {ours, theirs}):
        return None
    for number in sorted({row["round"] for row in mine}):
        a, b = (
            middle((row for row in mine if row["round"] == number and name_of(row) == name), field)
            for name in (ours, theirs)
        )
        if a and b is not None:
            ratios.append(b / a)
    return median(ratios) if ratios else None


def is_noisy(rows: Iterable[Row]) -> bool:
    """Whether others took more than a tenth of the machine while half of the rows, or more, were measured."""
    shares = [row["other_share"] for row in rows if "other_share" in row]
    return bool(shares) and median(shares) > QUIET


def _standing(name: str, rows: Sequence[Row], everybody: Sequence[Row], phase: str) -> Standing:
    errors = [row["error"] for row in rows if "error" in row]
    if errors:
        return Standing(contender=name, right=False, error=errors[0])
    clock = [row for row in rows if row["phase"] == phase]
    reads = [row for row in everybody if row["phase"] == "read" and name_of(row) == name]
    number: Callable[[str], float | None] = lambda field: middle(clock, field)  # noqa: E731 - one line, used eight times
    return Standing(
        contender=name,
        right=clock[0]["right"],
        wall_s=number("wall_s"),
        cpu_s=number("cpu_s"),
        tasks_s=number("tasks_s"),
        compile_s=number("compile_s"),
        jobs=number("jobs"),
        written_bytes=number("written_bytes"),
        replaced_bytes=number("replaced_bytes"),
        peak_bytes=max((row.get("peak_bytes") or 0 for row in clock), default=0) or None,
        read_wall_s=middle(reads, "wall_s"),
        read_cpu_s=middle(reads, "cpu_s"),
        noisy=is_noisy(clock),
    )
