"""What all tests share: one Spark session, over a lake of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frazil.lake.session import spark_session
from frazil.spec import DmsFiles, Lake, Pipeline, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a JVM: all that asks for the session, so that ``-m "not spark"`` starts none."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests, small and quick to start; tests part by namespace."""
    table = Table(name="none", source=DmsFiles(path=("none",)), keys=("id",))
    pipeline = Pipeline(pipeline="tests", lake=Lake(warehouse="lake"), tables=(table,))
    session = spark_session(pipeline.at(tmp_path_factory.mktemp("tests")), memory="1g", short=True)
    yield session
    session.stop()
