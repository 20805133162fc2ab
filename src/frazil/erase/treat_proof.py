"""Prove that nothing is left of values that were replaced: in rows, bounds, old snapshots and files of no snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from frazil.erase.proof import files_below, other_versions, unknown_files
from frazil.spec.contract import final_names
from frazil.spec.pii import DROP, HMAC, MASK, MASKED
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.erase.job import EraseJob
    from frazil.spec.tables import LakeTable

_SHAPES: Final = {DROP: "(?!)", MASK: f"\\Q{MASKED}\\E", HMAC: "[0-9a-f]{64}"}
_BOUNDS: Final = {DROP: "(?!)", MASK: f"\\Q{MASKED}\\E", HMAC: "[0-9a-g]{1,64}"}
"""What values look like that were replaced, and the least and greatest of a file, which may be cut off."""


def left_values(job: EraseJob, ways: Mapping[str, str]) -> tuple[int, int, tuple[tuple[str, int], ...]]:
    """Look for values that are not replaced, and for what may hold them.

    Args:
        job: gives the tables.
        ways: fields of the source that are treated, and how.

    Returns:
        Rows and files that were looked through, and (place, how often) of what was found.

    Cost: one scan of the treated columns of bronze, silver and marts.
    """
    rows = files = 0
    found: list[tuple[str, int]] = []
    for made in job.tables:
        rows += int(job.spark.table(quote(*made.path)).count())
        there = files_below(job, made)
        files += len(there or ())
        found += [*other_versions(job, made), *_values(job, made, ways)]
        if there is not None:
            found.append(unknown_files(job, made, there))
    return rows, files, tuple((place, count) for place, count in found if count)


def _values(job: EraseJob, made: LakeTable, ways: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Count values of treated columns that do not look like it, in rows and among the bounds that manifests note."""
    if made.role in ("gold", "quarantine"):
        return
    finals = final_names(job.context.table)
    by_name = {name if made.role == "bronze" else finals.get(name.lower(), name): way for name, way in ways.items()}
    table = job.spark.table(quote(*made.path))
    entries = job.spark.table(f"{quote(*made.path)}.entries")
    there = {name.lower(): name for name in table.columns}
    for name, way in by_name.items():
        column = there.get(name.lower())
        if column is None:
            continue
        values = table.where(F.col(quote(column)).isNotNull() & ~F.col(quote(column)).rlike(f"^{_SHAPES[way]}$"))
        yield f"{made.full_name} {column}", values.count()
        ends = ", ".join(f"readable_metrics.{quote(column)}.{end}_bound" for end in ("lower", "upper"))
        bounds = entries.select(F.explode(F.expr(f"array({ends})")).alias("end")).where(F.col("end").isNotNull())
        yield f"{made.full_name} bounds of {column}", bounds.where(~F.col("end").rlike(f"^{_BOUNDS[way]}$")).count()
