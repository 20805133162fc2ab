"""How to read, apply and compact: the thresholds of a run's decisions, and the strategy that applies a batch to a mart.

=============  ===================================================================================================
load           write all rows of an empty mart
recompute      overwrite the table with rows computed from all changes
row_delta      fold the batch on the driver; commit new rows and the positions of replaced ones, without a Spark write
delete_append  delete the replaced rows by key, append the new ones
overwrite      overwrite the table with its remaining rows and the new rows
=============  ===================================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Strategy: TypeAlias = Literal["load", "recompute", "overwrite", "delete_append", "row_delta"]
"""How a batch is applied to a mart: see :mod:`frazil.plan.policy`."""

Reader: TypeAlias = Literal["driver", "stream", "executors"]
"""Reader of a batch's files: the driver, which keeps the records for later steps; the driver, which streams them to
bronze; or Spark's executors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """All thresholds of a run. Users get the defaults; tests set others.

    Attributes:
        driver_bytes: maximum size of a batch that the driver reads into memory and keeps until the marts have it;
            larger batches are streamed.
        plain: Arrow makes the changes that it can prove to be plain, Spark makes the others. False: Spark makes all.
        plain_bytes: maximum memory for plain changes of a larger batch between the two passes over it; further ones are
            typed twice.
        reader: the reader of every batch; None chooses by size.
        task_bytes: approximate bytes of files for one task or thread.
        task_files: maximum number of files for one task or thread.
        file_bytes: memory of the rows in one data file that is written without Spark; the file is about six times
            smaller.
        tables_at_once: number of source tables in progress at the same time.
        short_run_bytes: maximum input of a run that ends before Java's optimizing compiler pays.
        small_run_bytes: maximum size of a batch that is planned once, in few tasks, and applied to all marts of a table
            at once: adapting a plan costs more than it gains.
        overwrite_share: share of a mart's rows above which overwriting the mart costs less than finding and deleting
            the replaced rows by Spark.
        dead_share: a batch above ``overwrite_share`` is still a row delta, if possible, up to this share of dead rows
            in the mart; every reader reads dead rows.
        dead_rows: number of dead rows that any mart may have, as their cost for readers is negligible.
        broadcast_changes: maximum number of changes to compare with a mart; for a larger fold, Spark sorts bronze to
            remove the folded records.
        row_delta_bytes: maximum memory of a batch and its replaced rows on the driver.
        driver_scan_bytes: maximum size of a mart in which the driver finds the rows of a row delta and checks the rules
            of whole marts; Spark does so in larger ones. The same limit holds for silver's deletes, by which a change
            may be late.
        driver_scan_files: maximum number of files for such a scan, which reads the manifest entry of each file.
        unpacked_factor: approximate ratio of the size of rows in memory and in files.
        strategy: the strategy of every batch of a mart with rows, ``delete_append`` if it allows no row deltas; None
            chooses by size.
        single_task_changes: maximum number of changes to fold in one task, without a shuffle.
        single_task_files: maximum number of silver's files for reading deletes in one task: about half of the files are
            deletes, and Iceberg itself assigns so many small files to one task.
        order_column_rows: maximum rows of a current table for reading the first order column together with the
            positions. In larger tables a second scan of the rows not older than the batch reads few files and costs
            less.
        merge_every: number of batches after which the driver merges a mart's small files.
        merge_bytes: maximum size of a file with many deleted rows that the driver also rewrites.
        compact_every: number of batches after which a run checks whether Spark should compact files that the driver
            cannot. Files that cannot be compacted further, such as one file in each of many partitions, are not tried
            again with every batch.
        compact_files: number of data files, or of delete files, from which a mart is compacted.
        compact_partition_files: minimum number of files in a partition to rewrite it.
        small_file_share: a file below this share of ``target_file_mb``, and of its table, is small.
        manifests: number of manifests from which upkeep merges them, if half as many can hold the entries.
        manifest_bytes: size of a full manifest, as in Iceberg.
        touched_groups: maximum number of groups that a batch may touch in an incremental aggregate, as their names pass
            through the driver; above it, the aggregate is computed whole.
        touched_share: maximum share of groups that a batch may touch in an incremental aggregate.
        open_cost_bytes: cost of opening a file, as bytes read in the same time; Iceberg plans scans with the same
            number.
    """

    driver_bytes: int = 8_000_000
    plain: bool = True
    plain_bytes: int = 256 * 1024 * 1024
    reader: Reader | None = None
    task_bytes: int = 64_000_000
    task_files: int = 256
    file_bytes: int = 128 * 1024 * 1024
    tables_at_once: int = 2
    short_run_bytes: int = 16_000_000
    small_run_bytes: int = 64_000_000
    overwrite_share: float = 0.1
    dead_share: float = 0.5
    dead_rows: int = 10_000
    broadcast_changes: int = 2_000_000
    row_delta_bytes: int = 64_000_000
    driver_scan_bytes: int = 1_000_000_000
    driver_scan_files: int = 1_000
    unpacked_factor: int = 4
    strategy: Strategy | None = None
    single_task_changes: int = 500_000
    single_task_files: int = 64
    order_column_rows: int = 10_000_000
    merge_every: int = 4
    merge_bytes: int = 32 * 1024 * 1024
    compact_every: int = 12
    compact_files: int = 8
    compact_partition_files: int = 5
    small_file_share: float = 1 / 4
    manifests: int = 16
    manifest_bytes: int = 8 * 1024 * 1024
    touched_groups: int = 100_000
    touched_share: float = 1 / 2
    open_cost_bytes: int = 4 * 1024 * 1024


DEFAULT_POLICY: Final = Policy()


@dataclass(frozen=True, slots=True, kw_only=True)
class MartStats:
    """Size and format of a mart's table.

    Attributes:
        rows: rows in its data files.
        dead: approximate number of deleted ones among them.
        size_bytes: bytes of its data files.
        is_new: the table has no snapshot yet.
        takes_row_deltas: the format allows row deltas.
    """

    rows: int
    size_bytes: int
    dead: int = 0
    is_new: bool = False
    takes_row_deltas: bool = False


def choose_strategy(
    changes: int | None, changes_bytes: int, mart: MartStats, policy: Policy = DEFAULT_POLICY
) -> Strategy:
    """Return the strategy for a batch.

    Args:
        changes: changes of the batch; None if the mart is computed from all changes of its table.
        changes_bytes: memory of the changes.
        mart: the mart's table.
        policy: thresholds.
    """
    if mart.is_new:
        return "load"
    if changes is None:
        return "recompute"
    if policy.strategy is not None:
        return "delete_append" if policy.strategy == "row_delta" and not mart.takes_row_deltas else policy.strategy
    if changes > policy.broadcast_changes:
        return "recompute"
    # Each key may need one row of the mart, for values that the batch does not have.
    held_bytes = changes_bytes + changes * policy.unpacked_factor * mart.size_bytes // max(mart.rows, 1)
    is_small = mart.takes_row_deltas and held_bytes <= policy.row_delta_bytes
    by_spark = spark_strategy(changes, mart.rows, policy)
    # A row delta costs as much as the batch, but leaves dead rows; with many of them overwriting pays.
    leaves_many = by_spark == "overwrite" and mart.dead + changes > _dead_rows(mart.rows, policy)
    return "row_delta" if is_small and not leaves_many else by_spark


def spark_strategy(changes: int, rows: int, policy: Policy = DEFAULT_POLICY) -> Strategy:
    """Return Spark's strategy for a batch: ``overwrite`` if it is large, else ``delete_append``.

    Args:
        changes: changes of the batch.
        rows: rows of the mart.
        policy: thresholds.
    """
    if policy.strategy is None and changes > policy.overwrite_share * rows:
        return "overwrite"
    return "delete_append"


def overwrite_from(rows: int) -> int:
    """Return the maximum number of changes that never overwrites a mart of ``rows`` rows."""
    return min(_dead_rows(rows, DEFAULT_POLICY), DEFAULT_POLICY.broadcast_changes)


def _dead_rows(rows: int, policy: Policy) -> int:
    """Return the maximum number of dead rows of a mart."""
    return max(policy.dead_rows, int(policy.dead_share * rows))
