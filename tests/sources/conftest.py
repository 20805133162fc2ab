"""Fixtures that several tests of sources ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def here(tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> Path:
    """A folder to declare in; ``TEST_DB`` is an empty database."""
    del spark  # only there so that Java runs
    monkeypatch.setenv("TEST_DB", database)
    return tmp_path


@pytest.fixture(params=["newest_database", pytest.param("database", marks=pytest.mark.laws)])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Address of an empty database, which is ``TEST_DB`` too."""
    address = str(request.getfixturevalue(request.param))
    monkeypatch.setenv("TEST_DB", address)
    return address


@pytest.fixture
def session(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A session on it, where each statement is a transaction."""
    with psycopg.connect(url, autocommit=True) as opened:
        yield opened
