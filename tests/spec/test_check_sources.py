"""The rules of spec/check for sources: messages and places."""

from __future__ import annotations

from typing import Any

import pytest
from tests.spec.declared import CSV, HEADERLESS, ID, PARQUET, TS, found, pipeline, table


@pytest.mark.parametrize("columns", [None, [ID, TS, "*"], [{"name": "id", "expr": "a"}, {**TS, "expr": "b"}]])
def test_headerless_files_need_names_for_their_fields(columns: list[Any] | None) -> None:
    text = found(pipeline(table(source=HEADERLESS, columns=columns, sequence_by=[])))

    assert "has CSV files without a header, and nothing names their fields" in text


def test_headerless_files_are_named_by_fields_or_columns() -> None:
    source = {**HEADERLESS, "fields": ["id", "ts", "name"]}

    assert found(pipeline(table(source=source, columns=None, sequence_by=[]))) == ""
    assert found(pipeline(table(source=HEADERLESS))) == ""


def test_fields_have_no_use_where_files_name_them() -> None:
    assert "the header names the fields" in found(pipeline(table(source={**CSV, "fields": ["id"]})))
    assert "Parquet files name their fields" in found(pipeline(table(source={**PARQUET, "fields": ["id"]})))
    assert "header in the source of table 'hosts' is for CSV" in found(
        pipeline(table(source={**PARQUET, "header": True}))
    )


def test_transaction_files_are_headerless_csv_whatever_the_format() -> None:
    parquet = {**PARQUET, "cdc_path": "cdc", "cdc_table": "public.hosts"}

    assert found(pipeline(table(source=parquet))) == ""
    assert found(pipeline(table(source={**parquet, "fields": ["id", "ts", "name"]}))) == ""
    assert "nothing names their fields" in found(pipeline(table(source=parquet, columns=None)))


def test_cdc_table_is_a_schema_and_a_table_in_cdc_path() -> None:
    assert "applies only with cdc_path" in found(pipeline(table(source={**CSV, "cdc_table": "public.hosts"})))
    assert "is not schema.table" in found(pipeline(table(source={**CSV, "cdc_path": "c", "cdc_table": "hosts"})))


def test_fields_are_named_once_and_without_the_op_column() -> None:
    source = {**HEADERLESS, "fields": ["Op", "id", "ts", "name", "ID"]}

    text = found(pipeline(table(source=source)))

    assert "tables.0.source.fields.0: fields of table 'hosts' lists the op column 'Op'; leave it out" in text
    assert "field 'id' of table 'hosts' is listed twice" in text


def test_declared_columns_that_name_the_fields_leave_the_op_column_out() -> None:
    text = found(pipeline(table(source=HEADERLESS, columns=[{"name": "op"}, ID, TS])))

    assert "tables.0.columns.0.name: column 'op' of table 'hosts' has the name of the op column" in text


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("path", "", "an empty path"),
        ("cdc_path", ["cdc", " "], "an empty cdc_path"),
        ("csv_delimiter", '"', "cannot work; write one ASCII character"),
        ("csv_delimiter", "\n", "neither quote, line end nor NUL"),
        ("csv_delimiter", "§", "cannot work"),
        ("csv_escape", '"', "cannot work"),
        ("csv_escape", ",", "is the delimiter"),
        ("change_seq", "OP", "must name a field other than the op column"),
        ("change_seq", "nam", "did you mean 'name'?"),
        ("before_image_prefix", "", "is empty"),
        ("before_image_prefix", "BI_", "the field 'BI_id' is missing"),
    ],
)
def test_settings_of_a_source_make_sense(setting: str, value: object, message: str) -> None:
    text = found(pipeline(table(source={**HEADERLESS, setting: value})))

    assert f"tables.0.source.{setting}:" in text
    assert message in text


def test_change_sequence_and_before_images_are_fields() -> None:
    fields = ["id", "ts", "name", "seq", "BI_id"]
    source = {**HEADERLESS, "fields": fields, "change_seq": "seq", "before_image_prefix": "BI_"}

    assert found(pipeline(table(source=source))) == ""
