"""The bronze table's schema is the same for Arrow and for Spark."""

from __future__ import annotations

from frazil.bronze.read import spark_ddl
from frazil.bronze.record import BRONZE_COLUMNS
from frazil.formats.records import safe_name


def test_the_bronze_schema_has_the_fields_before_frazils_own_columns() -> None:
    text = spark_ddl(["op", "a`b"])

    assert text.startswith("`op` string, `a``b` string, `_cdc_kind` string, `_cdc_file` string, `_cdc_row` bigint")
    assert text.count("`_cdc_") == len(BRONZE_COLUMNS)


def test_a_field_name_that_cannot_be_a_column_is_changed_by_rule() -> None:
    names = ["id", "_file", "_POS", "_cdc_row", "a\tb", " x ", ""]

    assert [safe_name(name) for name in names] == [
        "id",
        "source_file",
        "source_POS",
        "source_cdc_row",
        "a_b",
        "x",
        "unnamed",
    ]
    assert safe_name("A", frozenset({"a", "a__2"})) == "A__3"
