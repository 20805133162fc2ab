"""Folders as DMS writes them, and the declarations guessed from them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.sources.dms.declaration import NothingFoundError, declaration
from frazil.sources.dms.discover import Discovered, discover
from frazil.sources.dms.listing import list_files
from frazil.sources.dms.propose import proposed_rules
from frazil.spec.parse import parse
from frazil.storage.base import MissingFolderError
from frazil.testing.generate import generate
from frazil.testing.sample_files import SampleFiles

if TYPE_CHECKING:
    from frazil.spec import Pipeline

LOAD, FIRST, SECOND = "LOAD00000001.csv", "20240131-101500123.csv", "20240201-101500123.csv"


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files; lines are trimmed, as drawings are indented."""
    for name, drawing in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{line.strip()}\n" for line in drawing.strip().splitlines())
        file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())


def only(folder: Path) -> Discovered:
    """Discover the one table there is, and prove that its declaration is right."""
    [table] = discover(folder)
    declared(folder, [table])
    return table


def declared(folder: Path, tables: list[Discovered]) -> Pipeline:
    return parse(declaration("shop", folder, tables))


def types(table: Discovered) -> dict[str, str]:
    return {column.name: column.type for column in table.columns}


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
                """,
        },
    )

    table = only(tmp_path)

    assert (table.name, table.path, table.header, table.op) == (
        "hosts",
        tmp_path / "shop/public/hosts",
        True,
        "Op",
    )
    assert types(table) == {"id": "int", "name": "string", "updated_at": "timestamp"}
    assert (table.keys, table.keys_seen, table.sequence_by) == (("id",), True, ("updated_at",))
    assert (table.load_files, table.change_files, table.records, table.rows) == (1, 1, 3, 2)


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


def test_columns_added_later_stand_at_the_end(tmp_path: Path) -> None:
    write(tmp_path / "hosts", {FIRST: "op,id\nI,1", SECOND: "op,id,city\nI,2,Rome"})

    assert types(only(tmp_path)) == {"id": "int", "city": "string"}


@pytest.mark.parametrize("dates", ["2024/01/31", "20240131", "2024-01", "31012024", "2024/01/31/13"])
def test_folders_of_dates_belong_to_their_table(tmp_path: Path, dates: str) -> None:
    write(tmp_path, {f"public/hosts/{dates}/{FIRST}": "op,id\nI,1"})

    assert only(tmp_path).path == tmp_path / "public/hosts"


def test_folders_of_a_parallel_load_belong_to_their_table(tmp_path: Path) -> None:
    write(tmp_path, {f"hosts/{FIRST}": "op,id\nI,3", f"hosts/p1/{LOAD}": "id\n1", f"hosts/p2/{LOAD}": "id\n2"})

    table = only(tmp_path)

    assert (table.path.name, table.load_files) == ("hosts", 2)


def test_a_landing_folder_may_be_the_folder_of_one_table(tmp_path: Path) -> None:
    write(tmp_path / "Hosts", {LOAD: "id\n1", f"2024/01/31/{FIRST}": "op,id\nI,2"})

    table = only(tmp_path / "Hosts")

    assert (table.name, table.load_files, table.change_files) == ("hosts", 1, 1)


def test_tables_of_one_name_get_the_name_of_their_schema(tmp_path: Path) -> None:
    write(tmp_path, {f"{place}/{LOAD}": "1,a" for place in ("s/hosts", "t/Hosts", "t/hosts_history", "u/a-b")})

    tables = discover(tmp_path)

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
    pq.write_table(rows, folder / "LOAD00000001.parquet")
    pq.write_table(rows.add_column(0, "Op", pa.array(["U", "D"])), folder / "20240131-101500123.parquet")

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


def test_a_key_that_was_not_seen_to_be_unique_says_so(tmp_path: Path) -> None:
    write(tmp_path / "lines", {LOAD: "order_id,line,n\n1,1,5\n1,2,5\n2,1,5"})

    tables = discover(tmp_path)

    assert not tables[0].keys_seen
    assert "keys: [order_id]  # GUESSED BY ITS NAME" in declaration("shop", tmp_path, tables)


def test_without_a_full_load_the_inserts_are_the_rows(tmp_path: Path) -> None:
    write(tmp_path / "hosts", {FIRST: "op,id,n\nI,1,a\nU,1,b\nI,2,a"})

    table = only(tmp_path)

    assert (table.keys, table.keys_seen, table.rows) == (("id",), True, 2)


def test_a_file_delivered_twice_does_not_hide_the_key(tmp_path: Path) -> None:
    write(tmp_path / "hosts", {LOAD: "id,n\n1,a\n2,b", "LOAD00000002.csv": "id,n\n1,a\n2,b"})

    assert only(tmp_path).keys_seen


def test_the_change_sequence_orders_and_is_no_column(tmp_path: Path) -> None:
    write(tmp_path / "hosts", {FIRST: "op,id,AR_H_CHANGE_SEQ\nI,1,20240131101500120000000000000000001"})

    table = only(tmp_path)

    assert table.change_seq == "AR_H_CHANGE_SEQ"
    assert types(table) == {"id": "int"}


def test_names_that_are_taken_still_give_a_right_declaration(tmp_path: Path) -> None:
    header = "id,_file,valid_from,updated_at,a b,null"
    write(tmp_path / "hosts", {LOAD: f"{header}\n1,f,v,2024-01-01 00:00:00,x,y"})

    tables = discover(tmp_path)
    text = declaration("my shop: 1", tmp_path, tables)

    assert [column.name for column in tables[0].columns][1] == "source_file"
    assert "no history: it would add a column valid_from of its own" in text
    assert parse(text).tables[0].columns == tables[0].columns


def test_the_declaration_says_what_was_guessed_and_from_how_much(tmp_path: Path) -> None:
    write(tmp_path / "landing/hosts", {LOAD: "id,updated_at\n1,2024-01-01 10:00:00", FIRST: "op,id,updated_at"})

    text = declaration("shop", tmp_path, discover(tmp_path / "landing"))

    assert (
        text
        == """\
# Guessed from the files: read what the comments say before the first run.
pipeline: shop
lake: {warehouse: ./lake}
tables:
  # 1 load file, 1 change file; every type fits all of 1 record looked at
  - name: hosts
    source: {kind: dms, path: ./landing/hosts, format: csv, header: true}
    keys: [id]  # guessed: unique and never NULL in 1 row
    sequence_by: [updated_at]  # guessed: a timestamp, by its name or alone
    columns:
      - {name: id, type: int, nullable: false}
      - {name: updated_at, type: timestamp}
    marts:
      - {kind: current, deletes: hard}
      - {kind: history, deletes: close}
"""
    )


@pytest.mark.parametrize(("project", "path"), [(".", "./a/hosts"), ("a/hosts", "."), ("b", "../a/hosts")])
def test_paths_start_from_where_the_declaration_will_stand(tmp_path: Path, project: str, path: str) -> None:
    write(tmp_path / "a/hosts", {LOAD: "id\n1"})

    text = declaration("shop", tmp_path / project, discover(tmp_path / "a"))

    assert parse(text).tables[0].source.path == (path,)
    assert list_files(parse(text).tables[0].source, tmp_path / project).files


def test_a_landing_folder_far_away_is_named_in_full(tmp_path: Path) -> None:
    write(tmp_path / "hosts", {LOAD: "id\n1"})

    text = declaration("shop", Path("/elsewhere"), discover(tmp_path))

    assert parse(text).tables[0].source.path == ((tmp_path / "hosts").as_posix(),)


def test_generated_files_are_guessed_as_they_were_made(tmp_path: Path) -> None:
    generate(tmp_path / "orders", SampleFiles(rows=500, batches=2, changes=100, seed=7))

    table = only(tmp_path)

    assert (table.name, table.header, table.keys, table.sequence_by) == (
        "orders",
        True,
        ("id",),
        ("updated_at",),
    )


def test_a_few_outliers_decide_a_type_and_are_counted(tmp_path: Path) -> None:
    generate(tmp_path / "orders", SampleFiles(rows=500, batches=2, changes=100, seed=7, nasty=True))

    tables = discover(tmp_path)

    assert tables[0].keys == ("id",)
    assert types(tables[0])["updated_at"] == "string"
    assert "{name: updated_at, type: string}  # timestamp in 7" in declaration("shop", tmp_path, tables)


def test_what_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    write(tmp_path, {"a/notes.csv": "1,2", "b/x.txt": "1", f".c/{LOAD}": "1,2"})
    for name, content in {LOAD: b"", f"{LOAD}.gz": b"\x1f\x8bno", "LOAD00000002.parquet": b"PAR1"}.items():
        (tmp_path / "d").mkdir(exist_ok=True)
        (tmp_path / "d" / name).write_bytes(content)

    assert discover(tmp_path) == []


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


def test_nothing_found_names_what_files_are_called(tmp_path: Path) -> None:
    with pytest.raises(NothingFoundError) as caught:
        declaration("shop", tmp_path, discover(tmp_path))

    assert "LOAD00000001.csv" in (caught.value.hint or "")
    with pytest.raises(MissingFolderError):
        discover(tmp_path / "missing")


def test_rules_that_all_records_keep_are_proposed_and_only_warn(tmp_path: Path) -> None:
    """A delete need not carry values; what is seen once may be anything, and a bound other than zero is a guess."""
    odd = ("new", 'it\'s, "so"', "yes")
    quoted = ("new", '"it\'s, ""so"""', "yes")
    written = "\n".join(
        f"I,{n},{quoted[n % 3]},{n % 7},{n - 30},{n},2024-01-{n % 28 + 1:02} 10:00:00" for n in range(60)
    )
    deleted = "D,1,NULL,NULL,NULL,NULL,2024-02-01 10:00:00"
    fields = "op,id,status,quantity,balance,note,updated_at"
    write(tmp_path / "orders", {FIRST: f"{fields}\n{written}\n{deleted}", SECOND: f"{fields}\nU,1,new,1,1,,"})

    table = only(tmp_path)

    rules = {column.name: column for column in table.columns}
    assert rules["id"].on_violation == "quarantine"
    assert (rules["status"].nullable, rules["status"].accepted_values) == (False, tuple(sorted(odd)))
    assert (rules["quantity"].nullable, rules["quantity"].min) == (False, "0")
    assert (rules["balance"].nullable, rules["balance"].min) == (False, None)
    assert (rules["note"].accepted_values, rules["note"].min) == (None, "0")
    assert {rules[name].on_violation for name in ("status", "quantity", "balance", "note")} == {"warn"}
    text = declaration("shop", tmp_path, [table])
    assert "# the rules that warn are proposed: all of 62 records looked at keep them" in text
    [parsed] = declared(tmp_path, [table]).tables
    assert parsed.columns == table.columns


def test_few_records_propose_nothing() -> None:
    assert proposed_rules("string", ["new", "paid"] * 20, is_key=False) == {}
    assert proposed_rules("string", ["new"] * 60, is_key=False) == {"nullable": False, "on_violation": "warn"}
    assert proposed_rules("string", [f"{n // 2}" for n in range(60)] + [None], is_key=False) == {}
    assert proposed_rules("double", ["1", "NaN"] * 30 + [None], is_key=False) == {}
    assert proposed_rules("int", ["0"] * 60 + [None], is_key=False) == {}
