# ruff: noqa: E501 - a message stands on one line, as it is printed

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from frazil.errors import DeclarationError, DeclarationProblems
from frazil.spec import Column, Current, DmsFiles, History, Lake, Pipeline, Table
from frazil.spec.load.parse import load, parse_declaration

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*/*.yml"))

RIGHT = """\
# yaml-language-server: $schema=./frazil.schema.json
# $schema: ./frazil.schema.json
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: hosts
    source: {kind: dms, path: ./landing/hosts, header: true}
    keys: [id]
    sequence_by: [ts]
    columns:
      - {name: id, type: integer, nullable: false}
      - {name: ts, type: timestamp}
      - "*"
    marts:
      - {kind: current, deletes: hard}
      - {kind: history}
"""

WRONG = """\
pipeline: shop
lake:
  warehouse: ./lake
  catalog: {type: jdbc, uri: "jdbc:postgresql://db/lake", password: hunter2}
tables:
  - name: hosts
    source: {kind: dms, path: ./landing/hosts, header: perhaps}
    keys: [id]
  - name: listings
    source: {kind: dms, path: ./landing/listings, formt: csv, header: true}
    keys: [listing_id]
    sequnce_by: [updated]
    columns:
      - {name: id, type: integr, nullable: false}
      - {name: updated_at, type: timestamp}
    marts:
      - {kind: current, deletes: sotf}
      - {kind: history, partition_by: [dya(updated_at)]}
    keys: [id]
gold:
  - {name: listing_count, sql: "select count(*) as n from {{ listngs }}"}
upkeep: {retain_last: 0}
"""


ALL_OF_WRONG = """\
frazil.yml:4:69: 'password' is a secret in plain text; write ${env:PASSWORD} or ${file:path}
frazil.yml:7:56: 'header' of the source of table 'hosts' must be true or false
frazil.yml:10:51: unknown setting 'formt' of the source of table 'listings'; did you mean 'format'?
frazil.yml:11:12: keys of table 'listings' names 'listing_id', which is not one of its columns; known are id, updated_at
frazil.yml:12:5: unknown setting 'sequnce_by' of table 'listings'; did you mean 'sequence_by'?
frazil.yml:12:18: sequence_by of table 'listings' names 'updated', which is not one of its columns; did you mean 'updated_at'?
frazil.yml:14:26: unknown type 'integr' of column 'id' of table 'listings'; did you mean 'integer'?
frazil.yml:17:34: deletes of the current mart of table 'listings' is 'sotf'; did you mean 'soft'?
frazil.yml:18:40: unknown partition transform 'dya(updated_at)' in the history mart of table 'listings'; did you mean 'day'?
frazil.yml:19:5: setting 'keys' is written twice, first in line 11
frazil.yml:21:32: sql of gold 'listing_count' reads 'listngs', which is not a mart or an aggregate; did you mean 'listings'?
frazil.yml:22:23: 'retain_last' of the upkeep is 0; it must be 1 or more
"""


def told(text: str) -> list[str]:
    """Show the problems of a text."""
    with pytest.raises(DeclarationProblems) as caught:
        parse_declaration(text)
    return list(caught.value.problems)


def change(before: str, after: str) -> str:
    """Write a right declaration with one thing changed."""
    assert before in RIGHT
    return RIGHT.replace(before, after)


def test_yaml_and_python_declare_the_same() -> None:
    hosts = Table(
        name="hosts",
        source=DmsFiles(path=("./landing/hosts",), header=True),
        keys=("id",),
        sequence_by=("ts",),
        columns=(
            Column(name="id", type="int", nullable=False),
            Column(name="ts", type="timestamp"),
            Column(name="*"),
        ),
        marts=(Current(), History()),
    )

    assert parse_declaration(RIGHT).model_dump() == (
        Pipeline(pipeline="shop", lake=Lake(warehouse="./lake"), tables=(hosts,)).model_dump()
    )


def test_all_mistakes_are_reported_at_once_with_their_places() -> None:
    assert told(WRONG) == ALL_OF_WRONG.splitlines()


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("sequence_by", "order", "9:5: unknown setting 'order' of table 'hosts'; known are name, source, keys,"),
        ("sequence_by: [ts]", "on_new_column: evolve", "9:5: unknown setting 'on_new_column' of table 'hosts'; it is a setting of 'evolution'"),
        ("sequence_by: [ts]", "max_bad_rows: 1\n    op: Op", "10:5: unknown setting 'op' of table 'hosts'; it is a setting of 'source'"),
        ("deletes: hard", "delets: soft", "15:25: unknown setting 'delets' of the current mart of table 'hosts'"),
        ("kind: history", "kind: histroy", "16:16: kind of mart 2 of table 'hosts' is 'histroy'; did you mean 'history'?"),
        ("kind: history", "deletes: close", "16:9: mart 2 of table 'hosts' does not say its kind; it must be"),
        ("kind: history", "kind: 7", "16:16: kind of mart 2 of table 'hosts' is '7'; it must be current or history"),
        ("    keys: [id]\n", "", "6:5: table 'hosts' has no 'keys'"),
        ("    keys: [id]\n", "    keys: []\n", "8:11: 'keys' of table 'hosts' is empty; it needs at least one entry"),
        ("keys: [id]", "keys: id", "8:11: 'keys' of table 'hosts' must be a list; write [id]"),
        ("keys: [id]", "keys: [7]", "8:12: entry 1 of 'keys' of table 'hosts' must be text; put it in quotes: \"7\""),
        ("keys: [id]", "keys:", "8:10: 'keys' of table 'hosts' is empty"),
        ("  - name: hosts\n    source", "  - source", "6:5: table 1 has no 'name'"),
        ("name: id,", "nam: id,", "11:10: unknown setting 'nam' of column 1 of table 'hosts'; did you mean 'name'?"),
        ("name: id,", "", "11:9: column 1 of table 'hosts' has no 'name'"),
        ("name: hosts", "name: 7", "6:11: 'name' of table 1 must be text; put it in quotes: \"7\""),
        ("nullable: false", "nullable: never", "11:45: 'nullable' of column 'id' of table 'hosts' must be true or"),
        ("{warehouse: ./lake}", "./lake", "4:7: 'lake' of the pipeline must be a group of settings"),
        ("./lake}", "./lake, catalog: {uri: x}}", "4:36: the lake's catalog does not say its type; it must be embedded"),
        ("./lake}", "./lake, catalog: {type: jdbc}}", "4:36: the lake's catalog has no 'uri'"),
        ("./lake}", "./lake, catalog: {type: rest, url: x}}", "unknown setting 'url' of the lake's catalog; did you mean 'uri'?"),
        ("./lake}", "./lake, namespaces: {bronz: x}}", "4:40: unknown setting 'bronz' of the lake's namespaces"),
        ("header: true", 'header: true, csv_delimiter: "||"', "'csv_delimiter' of the source of table 'hosts' is longer than 1 character"),
        ("    sequence_by: [ts]", "    max_bad_fraction: 5\n    sequence_by: [ts]", "9:23: 'max_bad_fraction' of table 'hosts' is 5; it must be 1.0 or less"),
        ("    sequence_by: [ts]", "    max_bad_rows: few\n    sequence_by: [ts]", "9:19: 'max_bad_rows' of table 'hosts' must be a whole number"),
        ("{kind: dms, ", "{", "does not say its kind; it must be dms or audit_log or debezium or postgres or"),
        ("pipeline: shop", "pipeline: shop\nupkep: {}", "4:1: unknown setting 'upkep' of the pipeline; did you mean 'upkeep'?"),
        ("pipeline: shop", "pipeline: shop\nupkeep: {delete_ratio: 0}", "4:24: 'delete_ratio' of the upkeep is 0; it must be more than 0"),
        ("pipeline: shop", "pipeline: shop\ngold: [{name: a}]", "4:8: gold 'a' has no 'sql'"),
        ("pipeline: shop", "pipeline: shop\ngold: [x]", "4:8: entry 1 of 'gold' of the pipeline must be a group of settings"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_in_plain_english(before: str, after: str, problem: str) -> None:
    [line] = told(change(before, after))

    assert problem in line


def test_a_mistake_in_one_table_does_not_hide_those_of_others() -> None:
    second = "  - {name: guests, source: {kind: dms, path: g}, keys: [id], columns: [{name: id, type: it}]}\n"

    lines = told(change("header: true", "header: 7") + second)

    assert [line.partition(": ")[2] for line in lines] == [
        "'header' of the source of table 'hosts' must be true or false",
        "unknown type 'it' of column 'id' of table 'guests'; did you mean 'int'?",
    ]


def test_a_mistaken_table_still_gives_its_marts_to_gold() -> None:
    gold = "gold: [{name: n, sql: 'select * from {{ hosts }}'}, {name: m, sql: 'select 1; select 2'}]\n"

    lines = told(change("header: true", "header: 7") + gold)

    assert len(lines) == 2
    assert "must be one statement" in lines[1]


def test_a_password_does_not_come_back_in_a_message() -> None:
    catalog = '{type: jdbc, uri: "jdbc:x://h/d", password: 4711}'

    [line] = told(change("./lake}", f"./lake, catalog: {catalog}}}"))

    assert line.endswith("'password' of the lake's catalog must be text")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "frazil.yml:1:1: the declaration is empty"),
        ("# only a comment\n", "frazil.yml:1:1: the declaration is empty"),
        ("- a\n", "frazil.yml:1:1: the declaration must be settings (name: value)"),
        ("a: [1\nb: 2\n", "frazil.yml:2:2: not YAML"),
        ("pipeline: !x y\n", "frazil.yml:1:11: YAML tags such as !x are not allowed"),
    ],
)
def test_what_is_no_declaration_at_all_says_so(text: str, problem: str) -> None:
    [line] = told(text)

    assert line.startswith(problem)


def test_references_are_kept_as_text() -> None:
    catalog = '{type: jdbc, uri: "jdbc:x://h/d", password: "${env:P}"}'

    pipeline = parse_declaration(change("./lake}", f"./lake, catalog: {catalog}}}"))

    assert pipeline.lake.catalog.model_dump()["password"] == "${env:P}"  # noqa: S105 - a reference


def test_relative_paths_start_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "frazil.yml").write_text(RIGHT, encoding="utf-8-sig")

    assert load(tmp_path).folder == tmp_path.resolve()
    assert load(str(tmp_path / "frazil.yml")) == load(tmp_path)


def test_problems_of_a_file_carry_its_path(tmp_path: Path) -> None:
    (tmp_path / "frazil.yml").write_text("a: 1\n")

    with pytest.raises(DeclarationProblems) as caught:
        load(tmp_path)

    assert caught.value.problems[0].startswith(f"{tmp_path / 'frazil.yml'}:1:1: ")


def test_a_missing_file_names_the_command_that_writes_one(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError) as caught:
        load(tmp_path)

    assert "no declaration at" in caught.value.message
    assert "frazil init" in (caught.value.hint or "")


def test_a_binary_file_is_an_error_of_the_declaration(tmp_path: Path) -> None:
    (tmp_path / "frazil.yml").write_bytes(b"\xff\xfe\x00")

    with pytest.raises(DeclarationError, match="cannot read"):
        load(tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.parent.name)
def test_the_examples_are_right(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, place in (("LAKE", "s3://lake"), ("LANDING", "s3://landing"), ("CATALOG", "jdbc:postgresql://db/c")):
        monkeypatch.setenv(name, place)

    assert load(example).tables


@pytest.mark.process
def test_a_declaration_without_sql_is_read_without_spark_and_sqlglot(tmp_path: Path) -> None:
    (tmp_path / "frazil.yml").write_text(RIGHT)
    code = "import sys; from frazil.spec.load.parse import load; load(sys.argv[1]); print(*sys.modules)"

    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)

    assert {"pyspark", "sqlglot", "pyarrow", "pandas"}.isdisjoint(run.stdout.split())
