"""Fixtures that several tests of sources ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def here(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Path:
    """A folder to declare in; ``TEST_DB`` is an empty database."""
    del spark  # only there so that Java runs
    monkeypatch.setenv("TEST_DB", database)
    return tmp_path
