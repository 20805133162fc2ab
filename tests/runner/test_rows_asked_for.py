"""Rows that are asked for by a SELECT stay the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.marts.query import query_frames

if TYPE_CHECKING:
    from tests.shop import Shop


def test_rows_are_written_as_they_were_asked_for_when_their_names_are_used_again(shop: Shop) -> None:
    """Spark analyses a write again, while two marts of a session use the same names."""
    spark = shop.session
    spark.sql("CREATE NAMESPACE lake.space")
    three = query_frames("SELECT id FROM frazil_numbers", frazil_numbers=spark.range(3))
    query_frames("SELECT id FROM frazil_numbers", frazil_numbers=spark.range(5))

    three.writeTo("lake.space.numbers").create()

    assert spark.table("lake.space.numbers").count() == 3
