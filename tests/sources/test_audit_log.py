"""How records of an audit log become rows of bronze; no Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from frazil.bronze.read import Batch, records
from frazil.sources.kinds import source_of
from frazil.sources.ledger import Ledger
from frazil.spec import AuditLog, Table

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "audit_event_id,audit_operation,audit_timestamp,tbl_schema,tbl_name,raw_data,was\n"


def line(number: object, op: str, row: str, was: str = "", table: str = "public,orders") -> str:
    def quoted(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if text else ""

    return f"{number},{op},2026-01-01 00:00:00,{table},{quoted(row)},{quoted(was)}\n"


def rows_of(folder: Path, *files: str, keys: tuple[str, ...] = ("id",), **settings: Any) -> list[dict[str, Any]]:
    """Write files, and return what bronze holds of them."""
    for number, text in enumerate(files):
        (folder / f"{number}.csv").write_text(HEAD + text)
    declared = AuditLog(path=(".",), table="public.orders", **settings)
    source = source_of(Table(name="orders", source=declared, keys=keys))
    delta = source.find_new(folder, Ledger())
    assert not delta.deferred
    columns = source.columns(delta.files, ())
    batch = Batch(source=source, columns=columns, number=1, arrived_at=datetime(2026, 1, 1, tzinfo=UTC))
    found = [row for file in delta.files for row in records(file, batch)]
    return [row for row in pa.Table.from_batches(found).to_pylist() if row["_cdc_kind"] in {"record", "bad"}]


def test_the_fields_of_a_row_are_beside_the_fields_of_the_log(tmp_path: Path) -> None:
    [row] = rows_of(
        tmp_path, line(7, "I", '{"id": 9007199254740993, "amount": 10.50, "tags": ["a", 1.0], "note": null}')
    )

    assert row["audit_operation"] == "I"
    assert row["id"] == "9007199254740993"
    assert row["amount"] == "10.50"
    assert row["tags"] == '["a", 1.0]'
    assert row["note"] is None
    assert row["raw_data_problem"] is None
    assert row["_cdc_known"] is None
    assert row["_cdc_position"] == "1/00000000000000000007"


def test_a_field_that_a_row_leaves_out_is_not_carried(tmp_path: Path) -> None:
    text = line(1, "I", '{"id": 1, "note": "x"}') + line(2, "U", '{"id": 1}') + line(3, "U", '{"id": 1, "note": null}')

    first, second, third = rows_of(tmp_path, text)

    assert first["_cdc_known"] is None or "note" in first["_cdc_known"]
    assert "note" not in second["_cdc_known"]
    assert third["_cdc_known"] is None or "note" in third["_cdc_known"]


def test_a_new_field_is_a_column_of_bronze(tmp_path: Path) -> None:
    first, second = rows_of(tmp_path, line(1, "I", '{"id": 1}'), line(2, "I", '{"id": 2, "size": "L"}'))

    assert first["size"] is None
    assert "size" not in first["_cdc_known"]
    assert second["size"] == "L"


def test_numbers_order_records_whatever_their_files_are_called(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, line(100, "U", '{"id": 1}'), line(99, "U", '{"id": 1}'))

    assert rows[0]["_cdc_position"] > rows[1]["_cdc_position"]


def test_a_field_with_a_name_of_the_log_gets_a_prefix(tmp_path: Path) -> None:
    [row] = rows_of(
        tmp_path,
        line(1, "I", '{"id": 1, "TBL_NAME": "a", "row_tbl_name": "b", "was": "c", "ingested_at": "d", "row_x": 1}'),
    )

    assert row["tbl_name"] == "orders"
    assert [row[name] for name in ("row_TBL_NAME", "row_row_tbl_name", "row_was", "row_ingested_at", "row_x")] == [
        "a", "b", "c", "d", "1",
    ]  # fmt: skip


def test_records_of_other_tables_are_counted_and_not_kept(tmp_path: Path) -> None:
    others = [line(2, "I", '{"z": 1}', table="public,items"), line(3, "I", "broken", table="other,orders")]

    rows = rows_of(tmp_path, line(1, "I", '{"id": 1}') + "".join(others))

    assert [row["audit_event_id"] for row in rows] == ["1"]
    assert "z" not in rows[0]


@pytest.mark.parametrize(
    ("number", "row", "why"),
    [
        (1, "", "raw_data is NULL"),
        (1, "[1]", "malformed_json: not an object"),
        (1, '{"id": 1, "ID": 2}', "malformed_json: a field is named twice"),
        ("x1", '{"id": 1}', "no number of a record: x1"),
        ("", '{"id": 1}', "no number of a record: NULL"),
    ],
)
def test_a_record_without_a_row_or_a_number_says_why(tmp_path: Path, number: object, row: str, why: str) -> None:
    [bad, good] = rows_of(tmp_path, line(number, "U", row) + line(2, "I", '{"id": 2}'))

    assert bad["raw_data_problem"] == why
    assert good["raw_data_problem"] is None


@pytest.mark.parametrize(
    ("delete", "truncate"), [("D", "T"), (" d ", "t"), ("DELETE", "TRUNCATE"), ("delete", "truncate")]
)
def test_operations_may_be_words(delete: str, truncate: str, tmp_path: Path) -> None:
    text = line(1, delete, "", was='{"id": 2}') + line(2, truncate, "")

    [gone, empty] = rows_of(tmp_path, text, old_data="was")

    assert (gone["id"], gone["raw_data_problem"], empty["raw_data_problem"]) == ("2", None, None)


def test_old_images_give_the_key_before_a_change(tmp_path: Path) -> None:
    text = (
        line(1, "I", '{"id": 1, "shop": 7}')
        + line(2, "U", '{"id": 2, "shop": 7}', was='{"id": 1}')
        + line(3, "U", '{"id": 2, "shop": 8}', was='{"shop": 7, "id": 2, "note": "x"}')
        + line(4, "D", "", was='{"id": 2, "shop": 8}')
        + line(5, "U", '{"id": 2, "shop": 8}', was="broken")
    )

    rows = rows_of(tmp_path, text, keys=("id", "shop"), old_data="was")

    assert [(row["was_id"], row["was_shop"]) for row in rows[:4]] == [(None, None), ("1", "7"), ("2", "7"), ("2", "8")]
    assert (rows[3]["id"], rows[3]["shop"]) == ("2", "8")
    assert [row["raw_data_problem"] for row in rows[:4]] == [None] * 4
    assert rows[4]["raw_data_problem"].startswith("was, malformed_json: ")


def test_a_file_without_the_columns_of_a_log_is_one_bad_record(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("audit_event_id,audit_operation\n1,I\n")

    [bad] = rows_of(tmp_path)

    assert bad["_cdc_reason"] == "no_audit_log: no column audit_timestamp, tbl_schema, tbl_name, raw_data"
    assert bad["_cdc_raw"] == b"audit_event_id,audit_operation\n1,I\n"
