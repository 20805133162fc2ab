"""The declaration that is guessed from files: what it says, and the rules that it proposes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sources.discovered import FIRST, LOAD, SECOND, declared, only, types, write

from frazil.sources.dms.declaration import NothingFoundError, dms_declaration
from frazil.sources.dms.discover import MixedTablesError, discover, proposed_rules
from frazil.sources.dms.layout import list_files
from frazil.spec.load.parse import parse_declaration
from frazil.storage.base import MissingFolderError
from frazil.testing.generate import generate
from frazil.testing.sample_files import SampleFiles


def test_columns_that_are_unique_together_are_the_keys(tmp_path: Path) -> None:
    lines = [f"{order},{line},{region},5" for order in (1, 2) for line in (1, 2) for region in "ab"]
    write(tmp_path / "lines", {LOAD: "\n".join(["order_id,line,region,n", *lines, lines[0]])})
    write(tmp_path / "pairs", {LOAD: "order_id,line,n\n1,1,5\n1,2,5\n2,1,5"})

    lines_table, pairs = discover(f"{tmp_path}")

    assert (lines_table.keys, lines_table.keys_seen) == (("order_id", "line", "region"), True)
    assert pairs.keys == ("order_id", "line")
    assert "keys: [order_id, line]  # guessed: unique together and never NULL in 3 rows" in dms_declaration(
        "shop", tmp_path, [pairs]
    )


def test_a_key_that_was_not_seen_to_be_unique_says_so(tmp_path: Path) -> None:
    write(tmp_path / "lines", {LOAD: "order_id,line,n\n1,1,5\n1,1,6\n2,1,5"})
    (tmp_path / "lines" / LOAD).write_text("order_id,line,n\n1,1,5.5\n1,1,6.5\n2,1,5.5\n")

    tables = discover(f"{tmp_path}")

    assert not tables[0].keys_seen
    assert "a guess by name only" in tables[0].doubts[0]
    assert "keys: [order_id]  # GUESSED BY ITS NAME" in dms_declaration("shop", tmp_path, tables)


def test_names_that_are_taken_still_give_a_right_declaration(tmp_path: Path) -> None:
    header = "id,_file,valid_from,updated_at,a b,null"
    write(tmp_path / "hosts", {LOAD: f"{header}\n1,f,v,2024-01-01 00:00:00,x,y"})

    tables = discover(f"{tmp_path}")
    text = dms_declaration("my shop: 1", tmp_path, tables)

    assert [column.name for column in tables[0].columns][1] == "source_file"
    assert "no history: it would add a column valid_from of its own" in text
    assert parse_declaration(text).tables[0].columns == tables[0].columns


@pytest.mark.parametrize(
    ("changes", "unproven"),
    [
        ("D,1,2024-01-02 10:00:00", None),
        ("D,1,2024-01-01 10:00:00", "still"),
        ("D,1,NULL", "still"),
        ("D,1,2024-01-02 10:00:00\nD,2,NULL", "still"),
        ("U,1,2024-01-02 10:00:00\nD,1,2024-01-02 10:00:00", "still"),
        ("U,1,2024-01-02 10:00:00", "unseen"),
        ("D,9,2024-01-02 10:00:00", "unseen"),
        ("U,1,2024-01-03 10:00:00\nD,1,2024-01-02 10:00:00", "unseen"),
    ],
)
def test_no_order_is_proposed_that_no_delete_shows(tmp_path: Path, changes: str, unproven: str | None) -> None:
    """SEQUENCE-OF-DELETES: what an unseen row had before its delete is unknown, so the delete shows nothing."""
    load = "id,updated_at\n1,2024-01-01 10:00:00\n2,2024-01-01 11:00:00"
    write(tmp_path / "hosts", {LOAD: load, FIRST: f"op,id,updated_at\n{changes}"})

    table = only(tmp_path)

    assert table.unproven == unproven
    assert (table.sequence_by, table.effective_at) == (((), "updated_at") if unproven else (("updated_at",), None))
    text = dms_declaration("shop", tmp_path, [table])
    assert ("# no sequence_by: some deletes do not move updated_at" in text) == (unproven == "still")
    assert ("Write sequence_by: [updated_at] only if deletes move it too" in text) == (unproven == "unseen")
    assert "kind: history" in text


def test_a_delete_shows_nothing_if_an_update_before_it_may_have_been_left_out(tmp_path: Path) -> None:
    """Only the first, a middle and the last of many change files are looked at."""
    load = {LOAD: "id,updated_at\n1,2024-01-01 10:00:00"}
    update = "op,id,updated_at\nU,1,2024-01-02 10:00:00"
    delete = "op,id,updated_at\nD,1,2024-01-02 10:00:00"
    other = "op,id,updated_at\nU,7,2024-01-02 10:00:0"
    names = [f"2024020{day}-101500123.csv" for day in range(1, 6)]
    files = {name: f"{other}{number}" for number, name in enumerate(names)}

    write(tmp_path / "hosts", {**load, **files, names[1]: update, names[2]: delete})
    assert (only(tmp_path).sequence_by, only(tmp_path).unproven) == ((), "unseen")

    moved = delete.replace("01-02", "01-03")
    write(tmp_path / "hosts", {names[1]: f"{other}8", names[2]: f"{update}\n{moved.splitlines()[1]}"})
    assert only(tmp_path).sequence_by == ("updated_at",)


def test_a_delete_in_a_file_behind_one_that_is_read_in_part_shows_nothing(tmp_path: Path) -> None:
    first = "\n".join(["op,id,updated_at", "U,1,2024-01-01 10:00:00", *["U,7,2024-01-01 11:00:00"] * 40_000])
    write(tmp_path / "hosts", {FIRST: first, SECOND: "op,id,updated_at\nD,1,2024-01-02 10:00:00"})

    assert (only(tmp_path).sequence_by, only(tmp_path).unproven) == ((), "unseen")


def test_a_time_that_some_upserts_lack_is_not_proposed(tmp_path: Path) -> None:
    """NOTHING-LOST: as an order it would send them to quarantine, as an event time it would begin no version."""
    deleted = "D,1,2024-01-02 10:00:00,2024-01-02 10:00:00"
    load = "id,modified,updated_at\n1,2024-01-01 10:00:00,2024-01-01 10:00:00"
    write(tmp_path / "hosts", {LOAD: f"{load}\n2,2024-01-01 10:00:00,", FIRST: f"op,id,modified,updated_at\n{deleted}"})
    write(tmp_path / "guests", {LOAD: "id\n1", FIRST: "op,id,updated_at\nI,2,2024-01-01 10:00:00"})

    guests, hosts = discover(f"{tmp_path}")

    assert (guests.sequence_by, guests.effective_at) == ((), None)
    assert hosts.sequence_by == ("modified",)
    assert "nothing looks like a time of change" in dms_declaration("shop", tmp_path, [guests])


def test_files_of_two_tables_in_one_folder_are_separated(tmp_path: Path) -> None:
    write(tmp_path, {LOAD: "id,name,email\n1,a,b", FIRST: "op,order_id,amount,status\nI,1,2,new"})

    with pytest.raises(MixedTablesError, match="some have id, name, email, others op, order_id, amount, status"):
        discover(f"{tmp_path}")


def test_the_declaration_says_what_was_guessed_and_from_how_much(tmp_path: Path) -> None:
    write(tmp_path / "landing/hosts", {LOAD: "id,updated_at\n1,2024-01-01 10:00:00", FIRST: "op,id,updated_at"})

    text = dms_declaration("shop", tmp_path, discover(f"{tmp_path}/landing"))

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
    effective_at: updated_at  # guessed: the time of a change, by its name
    # no sequence_by: files and records order the changes. Write sequence_by: [updated_at] only if deletes move it too
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

    text = dms_declaration("shop", tmp_path / project, discover(f"{tmp_path}/a"))

    assert parse_declaration(text).tables[0].source.path == (path,)
    assert list_files(parse_declaration(text).tables[0].source, tmp_path / project).files


def test_a_landing_folder_far_away_is_named_in_full(tmp_path: Path) -> None:
    write(tmp_path / "hosts", {LOAD: "id\n1"})

    text = dms_declaration("shop", Path("/elsewhere"), discover(f"{tmp_path}"))

    assert parse_declaration(text).tables[0].source.path == ((tmp_path / "hosts").as_posix(),)


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

    tables = discover(f"{tmp_path}")

    assert tables[0].keys == ("id",)
    assert types(tables[0])["updated_at"] == "string"
    assert "{name: updated_at, type: string}  # timestamp in 7" in dms_declaration("shop", tmp_path, tables)


def test_nothing_found_names_what_files_are_called(tmp_path: Path) -> None:
    with pytest.raises(NothingFoundError) as caught:
        dms_declaration("shop", tmp_path, discover(f"{tmp_path}"))

    assert "LOAD00000001.csv" in (caught.value.hint or "")
    with pytest.raises(MissingFolderError):
        discover(f"{tmp_path}/missing")


def test_rules_that_all_records_keep_are_proposed_and_only_warn(tmp_path: Path) -> None:
    """A delete need not carry values; what is seen once may be anything, and a bound other than zero is a guess."""
    odd = ("new", "in-work", "yes")
    quoted = odd
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
    text = dms_declaration("shop", tmp_path, [table])
    assert "# the rules that warn are proposed: all of 62 records looked at keep them" in text
    [parsed] = declared(tmp_path, [table]).tables
    assert parsed.columns == table.columns


def test_free_text_proposes_no_accepted_values() -> None:
    for text in ("call before 9am", 'it\'s, "so"', "line1\nline2"):
        found = proposed_rules("string", ["new", text] * 30, is_key=False)
        assert "accepted_values" not in found
    assert "accepted_values" not in proposed_rules("string", ["Ann", "Bob"] * 30, is_key=False, name="name")


def test_few_records_propose_nothing() -> None:
    assert proposed_rules("string", ["new", "paid"] * 20, is_key=False) == {}
    assert proposed_rules("string", ["new"] * 60, is_key=False) == {"nullable": False, "on_violation": "warn"}
    assert proposed_rules("string", [f"{n // 2}" for n in range(60)] + [None], is_key=False) == {}
    assert proposed_rules("double", ["1", "NaN"] * 30 + [None], is_key=False) == {}
    assert proposed_rules("int", ["0"] * 60 + [None], is_key=False) == {}
