"""Upkeep lists the files of a table with what knows its storage."""

from __future__ import annotations

import pytest

from frazil.lake.orphans import has_own_listing


@pytest.mark.parametrize(
    ("address", "is_by_prefix"),
    [
        ("file:/data/lake/marts/t", False),
        ("file:///data/lake/marts/t", False),
        ("/data/lake/marts/t", False),
        ("hdfs://cluster/lake/marts/t", False),
        ("s3://bucket/lake/marts/t", True),
        ("s3a://bucket/lake/marts/t", True),
        ("gs://bucket/lake/marts/t", True),
        ("abfss://box@store/lake/marts/t", True),
    ],
)
def test_an_object_store_is_listed_by_iceberg_itself(address: str, *, is_by_prefix: bool) -> None:
    assert has_own_listing(address) == is_by_prefix
