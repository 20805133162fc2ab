"""The commands that only read: their output and exit codes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import subprocess
import sys
from decimal import Decimal
from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from frazil.cli.main import app
from frazil.serve.query.export import export_csv
from frazil.serve.query.query import query

if TYPE_CHECKING:
    from pathlib import Path

    from tests.serve.conftest import Shop


def frazil(*words: object) -> Result:
    return CliRunner().invoke(app, [f"{word}" for word in words])


@pytest.mark.spark
def test_a_sound_lake_ends_with_0_and_a_count(shop: Shop) -> None:
    result = frazil("check", shop.folder)

    assert result.exit_code == 0
    assert result.stdout.startswith("items: 19 proofs hold\n  ok ")
    way = "frazil check --against DUMP --select items"
    here = way.replace("check", f"check -p {shop.folder}")
    assert f"\n  compared with its files, not with its source: {here}\n" in result.stdout
    assert result.stdout.endswith("\n19 proofs hold\n")
    assert result.stderr == ""
    last = json.loads(frazil("check", shop.folder, "--json").stdout)[-1]
    assert (last["law"], last["table"], last["ok"], last["hint"]) == ("SOURCE", "items", None, way)


@pytest.mark.spark
def test_a_difference_ends_with_9_and_json_stays_one_document(shop: Shop) -> None:
    with shop.damaged("marts.items", "DELETE FROM lake.marts.items WHERE id = 3"):
        shown, values = frazil("check", shop.folder), frazil("check", shop.folder, "--json")

    assert (shown.exit_code, values.exit_code) == (9, 9)
    assert shown.stdout.splitlines()[1].split()[:3] == ["WRONG", "CONVERGE", "marts.items"]
    assert "[FZ800] 4 proofs fail, 15 proofs hold" in shown.stderr
    found = json.loads(values.stdout)
    assert [one["detail"] for one in found if one["ok"] is False and one["law"] == "CONVERGE"] == [
        "1 row is missing: 3"
    ]
    assert values.stderr == ""


@pytest.mark.spark
def test_select_star_hides_bookkeeping_from_people_only(shop: Shop) -> None:
    sql = "select * from items where id = 1"
    shown, whole, values = (frazil("query", sql, shop.folder, *more) for more in ((), ("--all-columns",), ("--json",)))

    assert "_cdc_row" not in shown.stdout
    assert "1 row; 2 columns of bookkeeping hidden, --all-columns shows them" in shown.stdout
    assert "_cdc_row" in whole.stdout
    assert list(json.loads(values.stdout)[0]) == ["id", "ts", "name", "price", "_cdc_position", "_cdc_row"]


@pytest.mark.spark
def test_bookkeeping_alone_is_not_hidden(shop: Shop) -> None:
    result = frazil("query", "from (select _cdc_row from items)", shop.folder)

    assert "_cdc_row" in result.stdout


@pytest.mark.spark
def test_csv_has_exact_values_and_tells_null_from_empty(shop: Shop) -> None:
    sql = (
        "select id, ts, price, null as nothing, '' as empty, 'a \"b\", c' as quoted, ' x' as blank, [1.50] as several, "
        "repeat('z', 100) as long, 1e0 as number, true as yes from items where id = 1"
    )
    result = frazil("query", sql, shop.folder, "--csv")

    assert result.stdout.splitlines() == [
        "id,ts,price,nothing,empty,quoted,blank,several,long,number,yes",
        f'1,2026-01-02T08:00:00.000000Z,1.50,,"","a ""b"", c"," x","[""1.50""]",{"z" * 100},1.0,true',
    ]


@pytest.mark.spark
def test_csv_comes_in_pieces_and_keeps_every_row(shop: Shop) -> None:
    text = io.StringIO()
    export_csv(shop.pipeline, "select i, timestamptz '2026-01-01 00:00:00Z' as at from range(25000) as t(i)", text)

    lines = text.getvalue().splitlines()
    assert lines[:2] == ["i,at", "0,2026-01-01T00:00:00.000000Z"]
    assert (len(lines), lines[-1]) == (25_001, "24999,2026-01-01T00:00:00.000000Z")


@pytest.mark.spark
def test_parquet_has_the_types_and_every_column(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "items.parquet"
    result = frazil("query", "select *, id from items order by id", shop.folder, "--parquet", file)

    table = pq.read_table(file)
    assert result.exit_code == 0
    assert table.column_names == ["id", "ts", "name", "price", "_cdc_position", "_cdc_row", "id_1"]
    assert table["price"].to_pylist() == [Decimal("1.50"), Decimal("3.30"), Decimal("5.00")]
    assert f"{table.schema.field('ts').type}" == "timestamp[us, tz=UTC]"
    assert [path.name for path in tmp_path.iterdir()] == ["items.parquet"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sql", "file", "says"),
    [
        ("select interval 1 day as i", "x.parquet", "Parquet lacks the type"),
        ("select 1 as i", "nowhere/x.parquet", "cannot be written: No such file or directory"),
        ("selct 1", "x.parquet", "not SQL"),
    ],
)
def test_a_file_that_cannot_be_made_leaves_none(shop: Shop, tmp_path: Path, sql: str, file: str, says: str) -> None:
    result = frazil("query", sql, shop.folder, "--parquet", tmp_path / file)

    assert result.exit_code == 2
    assert says in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
@pytest.mark.parametrize("form", [("--json",), ("--csv",), ()])
def test_a_limit_holds_in_every_form(shop: Shop, form: tuple[str, ...]) -> None:
    result = frazil("query", "select id from items order by id", shop.folder, "--limit", 2, *form)

    assert [line for line in ("1", "3", "5") if line in result.stdout.replace("[", "")] == ["1", "3"]


def test_forms_of_an_answer_exclude_one_another() -> None:
    result = frazil("query", "select 1", "--json", "--csv")

    assert result.exit_code == 2
    assert "three forms of one answer" in result.stderr


@pytest.mark.spark
def test_without_sql_and_without_a_terminal_nothing_is_asked(shop: Shop) -> None:
    result = frazil("query", shop.folder)

    assert result.exit_code == 2
    assert "there is no SQL to run" in result.stderr


@pytest.mark.spark
def test_on_a_terminal_statements_are_answered_one_after_another_and_errors_do_not_end_it(shop: Shop) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from frazil.cli import main; main()", "query", f"{shop.folder}"]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        os.close(theirs)
        os.write(ours, b"select count(*) as kinds\nfrom items;\nselect nmae from items;\nselect 40 + 2 as n;\n\\q\n")
        text = process.communicate()[0].decode()
    os.close(ours)

    assert process.returncode == 0
    assert " kinds " in text
    assert "nmae" in text
    assert " 42 " in text


@pytest.mark.spark
def test_on_a_terminal_a_check_shows_what_it_is_at(shop: Shop) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from frazil.cli import main; main()", "check", f"{shop.folder}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # what reading a terminal that was closed raises
            while piece := os.read(ours, 4096):
                shown += piece
        text = process.communicate()[0].decode()
    os.close(ours)

    assert process.returncode == 0
    assert text.endswith("19 proofs hold\n")
    assert b"look for the tables" in shown


@pytest.mark.spark
def test_an_unknown_key_ends_with_2(shop: Shop) -> None:
    shown, values = (
        frazil("key", "items", "77", "-p", shop.folder),
        frazil("key", "items", "77", "-p", shop.folder, "--json"),
    )

    assert (shown.exit_code, values.exit_code) == (2, 2)
    assert shown.stdout == ""
    assert shown.stderr == "items: no record, change or row has id = 77\n"
    assert json.loads(values.stdout)["records"] == []


@pytest.mark.spark
def test_a_key_in_quarantine_alone_is_known(shop: Shop) -> None:
    result = frazil("key", "items", "4", "-p", shop.folder)

    assert result.exit_code == 0
    assert "  no change" in result.stdout


@pytest.mark.spark
def test_the_parts_of_a_key_s_story_are_numbered(shop: Shop) -> None:
    lines = frazil("key", "items", "2", "-p", shop.folder).stdout.splitlines()

    assert [line for line in lines if line[:1].isdigit()] == [
        "1 raw records (bronze)",
        "2 typed changes in order, the last one wins (silver)",
        "3 marts.items",
        "4 marts.items_all",
        "5 marts.items_history",
        "6 marts.items_marked",
    ]


@pytest.mark.spark
def test_a_limit_fetches_no_more(shop: Shop) -> None:
    assert query(shop.pipeline, "select i from range(10) as t(i)", limit=0).rows == []
    assert len(query(shop.pipeline, "describe items", limit=2).rows) == 2


def test_the_shell_can_parse_sql_without_an_extension_to_fetch() -> None:
    with duckdb.connect(config={"autoload_known_extensions": "false"}) as connection:
        assert connection.execute("SELECT json_serialize_sql('select 1')").fetchone()
