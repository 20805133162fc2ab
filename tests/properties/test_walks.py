"""CONVERGE over declarations: whatever is declared otherwise from one run to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.properties.walks import Walks

from frazil.runner import sessions

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.long
def test_a_changed_declaration_gives_the_lake_that_a_fresh_one_is_or_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    walks = Walks(tmp_path, range(1), 3, monkeypatch)

    walks.take()

    assert walks.found == []


@pytest.mark.laws
@pytest.mark.parametrize("first", range(1000, 1300, 15))
def test_three_hundred_walks_over_declarations_converge(
    first: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark
    # Few rows and many declarations: to compile code for each of them costs more than it gains.
    for name, value in {"wholeStage": "false", "factoryMode": "NO_CODEGEN"}.items():
        monkeypatch.setitem(sessions.SETTINGS, f"spark.sql.codegen.{name}", value)
    walks = Walks(tmp_path, range(first, first + 15), 5, monkeypatch)

    walks.take()

    assert walks.found == []
    assert {"FZ502", "FZ504"} & {*walks.refused}
