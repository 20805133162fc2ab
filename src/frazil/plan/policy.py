"""Thresholds by which a run decides how to read, apply and compact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Strategy: TypeAlias = Literal["load", "recompute", "overwrite", "delete_append", "row_delta"]
"""How a batch is applied to a mart: see :mod:`frazil.plan.apply_strategy`."""

Reader: TypeAlias = Literal["driver", "stream", "executors"]
"""Who reads a batch's files: the driver, which keeps the records for the steps that follow; the driver, which streams
them to bronze; or Spark's executors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """All thresholds of a run. Users get the defaults; tests set others.

    Attributes:
        driver_bytes: files of a batch up to this size are read into the driver's memory and stay there until the marts
            have them; larger batches are streamed.
        plain: what Arrow proves to be plain changes is made by it, and Spark gets what is left; else Spark makes all.
        plain_bytes: memory that plain changes of a larger batch may take between the two passes over it; more of them
            are typed twice.
        reader: the reader of every batch; None chooses by size.
        task_bytes: bytes of files that one task or thread reads, about.
        task_files: most files that it reads.
        file_bytes: memory that the rows of one data file take which is written without Spark; the file itself is some
            six times smaller.
        tables_at_once: source tables that a run works on side by side.
        short_run_bytes: runs that take no more are done before Java's optimising compiler pays.
        small_run_bytes: batches up to this size are planned once and in few tasks, and go into all marts of a table at
            once: adapting a plan costs more than it can gain.
        overwrite_share: from this share of a mart's rows on, overwriting the mart costs less than to let Spark find and
            delete what is replaced.
        dead_share: a batch above that share is a row delta where it can be one and leaves no more than this share of
            the mart's rows dead, which every reader reads.
        dead_rows: so many dead rows are left in any mart: they cost readers nothing to speak of.
        broadcast_changes: batches of more changes are not compared with a mart at all, and where more are folded at
            once, Spark sorts bronze to leave their records out.
        row_delta_bytes: memory that a batch and the rows it replaces may take on the driver.
        driver_scan_bytes: in marts up to this size the driver finds the rows of a row delta and judges the rules of
            whole marts by itself; in larger ones Spark does. So it is with the deletes in silver that may make a change
            late.
        driver_scan_files: files of a table up to which it does: it reads what the manifests say of each.
        unpacked_factor: how many times larger rows are in memory than in their files, about.
        strategy: the strategy of every batch of a mart that has rows, ``delete_append`` where it takes no row deltas;
            None chooses by size.
        single_task_changes: batches of up to this many changes are folded in one task: what one task holds is not
            shuffled.
        single_task_files: silver's files up to which one task reads the deletes among them: about half are deletes, and
            Iceberg gives so many small files to one task by itself.
        order_column_rows: rows of a current table up to which the first order column is read along with the positions.
            In larger tables one more scan, of what is not older than the batch, costs less: it reads few of many files.
        merge_every: batches after which the driver merges a mart's small files.
        merge_bytes: size up to which it also writes a file again that has many deleted rows.
        compact_every: batches after which a run looks whether Spark is to compact files that the driver cannot: what
            cannot be compacted further, such as the one file of each of many partitions, is not tried again with
            every batch.
        compact_files: data files, or files of deletes, from which on a mart is compacted.
        compact_partition_files: files of a partition of which fewer are not rewritten.
        small_file_share: a file is small below this share of ``target_file_mb``, and of its table.
        manifests: manifests of a table from which on upkeep merges them, where half as many would hold them.
        manifest_bytes: size of one that is full, as Iceberg has it.
        touched_groups: an incremental aggregate of which a batch touches more groups is computed whole: their names
            pass through the driver.
        touched_share: so is one of which it touches more than this share.
        open_cost_bytes: bytes that are read in the time it takes to open a file; Iceberg plans scans with the same
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
