"""CONVERGE over declarations: whatever is declared otherwise from one run to the next."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.properties.walks import Walk

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def walk(seeds: range, steps: int, folder: Path, patch: pytest.MonkeyPatch) -> tuple[list[str], Counter[str]]:
    """Take some walks; give all differences, and how often which refusal was met."""
    found: list[str] = []
    refused: Counter[str] = Counter()
    for seed in seeds:
        taken = Walk(folder / f"{seed}", seed)
        for differences in taken.steps(steps, patch):
            found += differences
        refused.update(taken.refusals)
    return found, refused


def test_a_changed_declaration_gives_the_lake_that_a_fresh_one_is_or_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs

    found, refused = walk(range(1), 3, tmp_path, monkeypatch)

    assert found == []
    assert refused.keys() <= {"FZ502", "FZ504", "FZ505", "FZ100"}


@pytest.mark.laws
@pytest.mark.parametrize("first", range(1000, 1300, 20))
def test_three_hundred_walks_over_declarations_converge(
    first: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark

    found, refused = walk(range(first, first + 20), 5, tmp_path, monkeypatch)

    assert found == []
    assert refused
