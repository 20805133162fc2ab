"""The ways in which a batch is applied, one by one and by lot."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from frazil.plan.policy import DEFAULT_POLICY, MartStats, Policy, Reader, Strategy, choose_strategy
from frazil.runner.steps import marts

if TYPE_CHECKING:
    from random import Random

STRATEGIES: tuple[Strategy, ...] = ("row_delta", "delete_append", "overwrite", "recompute")
"""The strategies for marts that have rows."""
SOME_STRATEGIES: Final = (
    "row_delta",
    pytest.param("delete_append", marks=pytest.mark.laws),
    pytest.param("overwrite", marks=pytest.mark.laws),
    pytest.param("recompute", marks=pytest.mark.laws),
)
"""All strategies; the conformance suite of the backends has each of them every time."""
READERS: dict[Strategy, Reader] = {
    "row_delta": "driver",
    "delete_append": "stream",
    "overwrite": "executors",
    "recompute": "stream",
}
"""Reader of the files for each strategy, so that every reader is tested with one."""

_SMALL_BYTES: Final[dict[Strategy, int]] = {"row_delta": 2_000, "recompute": 3_400}
"""Sizes below which files are merged. In these worlds files of places have some 1,200 bytes, and those of rows 2,300
and more: with row deltas the driver merges places of files that stay, and where it recomputes also some of rows."""


def go_by(strategy: Strategy) -> Policy:
    """Return a policy that applies every batch with one strategy and compacts often, however small the tables are.

    With some the driver merges files, and leaves larger ones with what is deleted in them, as it does in large tables;
    with the others Spark alone does.
    """
    return Policy(
        strategy=strategy,
        reader=READERS[strategy],
        plain=strategy != "delete_append",
        plain_bytes=0 if strategy == "recompute" else DEFAULT_POLICY.plain_bytes,
        merge_every=1,
        merge_bytes=0,
        driver_scan_bytes=DEFAULT_POLICY.driver_scan_bytes if strategy in _SMALL_BYTES else 0,
        compact_every=3,
        compact_partition_files=2,
        small_file_share=1.0,
        open_cost_bytes=_SMALL_BYTES.get(strategy, DEFAULT_POLICY.open_cost_bytes),
        touched_share=9.0,
    )


def go_by_lot(lot: Random, patch: pytest.MonkeyPatch, *, share: float = 1.0) -> None:
    """Draw a strategy for each mart of each batch, or of a share of them; the others have the usual one."""

    def choose(changes: int | None, size_bytes: int, mart: MartStats, policy: Policy) -> Strategy:
        is_usual = changes is None or (share < 1 and lot.random() >= share)
        drawn = policy if is_usual else replace(policy, strategy=lot.choice(STRATEGIES))
        return choose_strategy(changes, size_bytes, mart, drawn)

    patch.setattr(marts, "choose_strategy", choose)
