"""All laws together, over years.

Sources change shape, records come wrong and are corrected, changes are partial, keys change and tables are truncated;
what is declared is another thing from day to day, files come again and runs are killed. Histories keep what was known
before, old changes are folded, tables are cut, rolled back and compacted, and keys are erased.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.properties.story_years import Years

from frazil.runner import sessions

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def without_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows and many declarations: to compile code for each of them costs more than it gains."""
    for name, value in {"wholeStage": "false", "factoryMode": "NO_CODEGEN"}.items():
        monkeypatch.setitem(sessions.SETTINGS, f"spark.sql.codegen.{name}", value)


@pytest.mark.long
def test_stories_end_as_the_oracle_says(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del spark  # only there so that Java runs
    stories = Years(tmp_path, (3,), monkeypatch, steps=1)

    stories.live()

    assert stories.found == []


@pytest.mark.laws
@pytest.mark.parametrize("first", range(2000, 2500, 10))
def test_five_hundred_stories_end_as_the_oracle_says(
    first: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark
    stories = Years(tmp_path, range(first, first + 10), monkeypatch)

    stories.live()

    assert stories.found == []
    assert stories.seen["killed"] + stories.seen["bad"] + stories.seen["corrected"] > 0
