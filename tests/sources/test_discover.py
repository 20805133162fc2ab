"""What is discovered of folders as DMS writes them: tables, their fields, types and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.sources.discovered import FIRST, LOAD, SECOND, declared, only, types, write

from frazil.sources.dms.declaration import dms_declaration
from frazil.sources.dms.discover import discover

if TYPE_CHECKING:
    from pathlib import Path


def test_files_with_a_header_are_read_by_their_names(tmp_path: Path) -> None:
    write(
        tmp_path / "shop/public/hosts",
        {
            LOAD: """
                id,name,updated_at
                1,Ann,2024-01-01 10:00:00
                2,Bob,2024-01-02 10:00:00.5
                """,
            FIRST: """
                Op,id,name,updated_at
                U,1,Anna,2024-01-31 10:00:00
                D,2,Bob,2024-01-31 10:00:01
                """,
        },
    )

    table = only(tmp_path)

    assert (table.name, table.path, table.header, table.op) == (
        "hosts",
        f"{tmp_path}/shop/public/hosts",
        True,
        "Op",
    )
    assert types(table) == {"id": "int", "name": "string", "updated_at": "timestamp"}
    assert (table.keys, table.keys_seen, table.sequence_by) == (("id",), True, ("updated_at",))
    assert (table.load_files, table.change_files, table.records, table.rows) == (1, 1, 4, 2)


def test_a_decimal_of_whole_numbers_is_a_key(tmp_path: Path) -> None:
    """IDENTITY: an Oracle NUMBER has a scale in a full load, and none in changes; names are unique by chance."""
    load = "op,ID,NAME\n" + "".join(f"I,{number}.0000000000,n{number}\n" for number in range(9))
    write(tmp_path / "hosts", {LOAD: load, FIRST: "op,ID,NAME\nU,1,m1\nU,2,m2"})

    table = only(tmp_path)

    assert (table.keys, table.keys_seen, types(table)["ID"]) == (("ID",), True, "decimal(18,10)")


def test_of_a_time_that_dms_may_have_added_the_declaration_says_what_it_costs(tmp_path: Path) -> None:
    """Changes during a full load have earlier times than the rows of the load."""
    load = "dms_timestamp,id,name\n2024-01-01 10:00:05,1,Ann\n2024-01-01 10:00:06,2,Bob"
    changes = "Op,dms_timestamp,id,name\nU,2024-01-01 10:00:03,1,Anna\nD,2024-01-01 10:00:07,2,Bob"
    write(tmp_path / "hosts", {LOAD: load, FIRST: changes})
    table = only(tmp_path)

    assert (table.sequence_by, table.stamp, table.effective_at) == ((), None, "dms_timestamp")
    text = dms_declaration("shop", tmp_path, [table])
    assert "effective_at: dms_timestamp" in text
    assert "# no sequence_by: the full load has later times" in text
    assert "kind: history" in text

    (tmp_path / "hosts" / FIRST).write_text(changes.replace("10:00:03", "10:00:08"))
    table = only(tmp_path)
    assert (table.sequence_by, table.stamp, table.unproven) == (("dms_timestamp",), "dms_timestamp", None)
    assert "changes made during a full load lose to it" in table.doubts[0]
    assert "then write effective_at for sequence_by" in dms_declaration("shop", tmp_path, [table])


def test_files_without_a_header_number_their_columns(tmp_path: Path) -> None:
    write(tmp_path / "hosts", {LOAD: "1,Ann\n2,Bob", FIRST: "U,1,Anna\nD,2,NULL"})

    table = only(tmp_path)

    assert (table.header, table.op, table.include_op_for_full_load) == (False, "op", False)
    assert types(table) == {"c1": "int", "c2": "string"}
    assert table.keys == ("c1",)
    assert table.sequence_by == ()


def test_load_files_may_have_the_op_column_too(tmp_path: Path) -> None:
    write(tmp_path / "hosts", {LOAD: "I,1,Ann\nI,2,Bob", FIRST: "U,1,Anna"})

    table = only(tmp_path)

    assert table.include_op_for_full_load
    assert types(table) == {"c1": "int", "c2": "string"}


def test_a_letter_i_in_a_load_file_of_other_width_is_data(tmp_path: Path) -> None:
    write(tmp_path / "grades", {LOAD: "I,1\nI,2", FIRST: "U,I,1"})

    table = only(tmp_path)

    assert not table.include_op_for_full_load
    assert types(table) == {"c1": "string", "c2": "int"}


def test_columns_added_later_are_last(tmp_path: Path) -> None:
    write(tmp_path / "hosts", {FIRST: "op,id\nI,1", SECOND: "op,id,city\nI,2,Rome"})

    assert types(only(tmp_path)) == {"id": "int", "city": "string"}


@pytest.mark.parametrize("dates", ["2024/01/31", "20240131", "2024-01", "31012024", "2024/01/31/13"])
def test_folders_of_dates_belong_to_their_table(tmp_path: Path, dates: str) -> None:
    write(tmp_path, {f"public/hosts/{dates}/{FIRST}": "op,id\nI,1"})

    assert only(tmp_path).path == f"{tmp_path}/public/hosts"


def test_folders_of_a_parallel_load_belong_to_their_table(tmp_path: Path) -> None:
    write(tmp_path, {f"hosts/{FIRST}": "op,id\nI,3", f"hosts/p1/{LOAD}": "id\n1", f"hosts/p2/{LOAD}": "id\n2"})

    table = only(tmp_path)

    assert (table.path, table.load_files) == (f"{tmp_path}/hosts", 2)


def test_a_landing_folder_may_be_the_folder_of_one_table(tmp_path: Path) -> None:
    write(tmp_path / "Hosts", {LOAD: "id\n1", f"2024/01/31/{FIRST}": "op,id\nI,2"})

    table = only(tmp_path / "Hosts")

    assert (table.name, table.load_files, table.change_files) == ("hosts", 1, 1)


def test_tables_of_one_name_get_the_name_of_their_schema(tmp_path: Path) -> None:
    write(tmp_path, {f"{place}/{LOAD}": "1,a" for place in ("s/hosts", "t/Hosts", "t/hosts_history", "u/a-b")})

    tables = discover(f"{tmp_path}")

    assert [table.name for table in tables] == ["hosts", "t_hosts", "t_hosts_history_2", "a_b"]
    assert len(declared(tmp_path, tables).tables) == len(tables)


def test_zipped_files_quotes_and_other_delimiters_are_read(tmp_path: Path) -> None:
    write(tmp_path / "hosts", {f"{LOAD}.gz": 'id;note\n1;"a ""b""; c"\n2;NULL', FIRST: 'op;id;note\nU;1;"x"'})

    table = only(tmp_path)

    assert table.delimiter == ";"
    assert table.records == 3
    assert types(table) == {"id": "int", "note": "string"}


def test_quoted_text_is_not_null(tmp_path: Path) -> None:
    write(tmp_path / "hosts", {LOAD: 'id,a,b\n1,5,5\n2,,""', FIRST: "op,id,a,b\nD,1,NULL,5"})

    assert types(only(tmp_path)) == {"id": "int", "a": "int", "b": "string"}


def test_parquet_files_know_their_types(tmp_path: Path) -> None:
    folder = tmp_path / "hosts"
    folder.mkdir()
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "last_update": pa.array([1, 2], pa.timestamp("us"))})
    later = rows.set_column(1, "last_update", pa.array([3, 4], pa.timestamp("us")))
    pq.write_table(rows, folder / "LOAD00000001.parquet")
    pq.write_table(later.add_column(0, "Op", pa.array(["U", "D"])), folder / "20240131-101500123.parquet")

    table = only(tmp_path)

    assert (table.format, table.op, table.keys, table.sequence_by) == (
        "parquet",
        "Op",
        ("id",),
        ("last_update",),
    )
    assert types(table) == {"id": "bigint", "last_update": "timestamp"}


def test_a_key_is_unique_among_rows_and_likely_by_name(tmp_path: Path) -> None:
    header = "code,host_id,guest"
    write(tmp_path / "hosts", {LOAD: f"{header}\na,1,x\nb,2,x", FIRST: f"op,{header}\nU,a,1,y\nU,a,1,z"})

    table = only(tmp_path)

    assert (table.keys, table.keys_seen) == (("host_id",), True)


def test_without_a_full_load_the_inserts_are_the_rows(tmp_path: Path) -> None:
    write(tmp_path / "hosts", {FIRST: "op,id,n\nI,1,a\nU,1,b\nI,2,a"})

    table = only(tmp_path)

    assert (table.keys, table.keys_seen, table.rows) == (("id",), True, 2)


def test_a_file_delivered_twice_does_not_hide_the_key(tmp_path: Path) -> None:
    write(tmp_path / "hosts", {LOAD: "id,n\n1,a\n2,b", "LOAD00000002.csv": "id,n\n1,a\n2,b"})

    assert only(tmp_path).keys_seen


def test_the_change_sequence_orders_and_is_not_a_column(tmp_path: Path) -> None:
    write(tmp_path / "hosts", {FIRST: "op,id,AR_H_CHANGE_SEQ\nI,1,20240131101500120000000000000000001"})

    table = only(tmp_path)

    assert table.change_seq == "AR_H_CHANGE_SEQ"
    assert types(table) == {"id": "int"}


def test_unreadable_files_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, {"a/notes.csv": "1,2", "b/x.txt": "1", f".c/{LOAD}": "1,2"})
    for name, content in {LOAD: b"", f"{LOAD}.gz": b"\x1f\x8bno", "LOAD00000002.parquet": b"PAR1"}.items():
        (tmp_path / "d").mkdir(exist_ok=True)
        (tmp_path / "d" / name).write_bytes(content)

    assert discover(f"{tmp_path}") == []


def test_text_that_is_not_utf8_is_still_a_table(tmp_path: Path) -> None:
    (tmp_path / "hosts").mkdir()
    (tmp_path / "hosts" / LOAD).write_bytes(b"1,caf\xe9\n2,b\n")

    assert types(only(tmp_path)) == {"c1": "int", "c2": "string"}


def test_a_sample_that_cuts_a_record_off_leaves_it_out(tmp_path: Path) -> None:
    rows = "\n".join(f'{number},"{"x" * 900}\n{number}"' for number in range(2000))
    (tmp_path / "hosts").mkdir()
    (tmp_path / "hosts" / LOAD).write_text(rows)

    table = only(tmp_path)

    assert types(table) == {"c1": "int", "c2": "string"}
    assert 1000 < table.records < 1200
