"""The rules of spec/check for tables and marts: messages, places, and declarations that pass."""

from __future__ import annotations

import pytest
from tests.spec.declared import CURRENT, DAY, HEADERLESS, HISTORY, ID, NAME, PARQUET, SOFT, TS, found, pipeline, table

from frazil.bronze.record import PREFIX
from frazil.errors import DeclarationProblems
from frazil.spec import contract
from frazil.spec.check.check import check_declaration, problems


def test_a_right_pipeline_has_no_problems() -> None:
    everything = pipeline(
        table(marts=[CURRENT, {**SOFT, "name": "hosts_all", "live_view": "hosts_live"}, HISTORY]),
        table(name="guests", source=HEADERLESS),
        table(name="trips", source=PARQUET, columns=None),
        table(name="stays", columns=[ID, TS, "*"]),
        gold=[{"name": "host_count", "sql": "select count(*) as n from {{ hosts }}"}],
    )

    check_declaration(everything)

    assert problems(everything) == []


def test_check_raises_all_problems_together() -> None:
    with pytest.raises(DeclarationProblems) as caught:
        check_declaration(pipeline(table(name="Hosts", keys=["idd"])))

    assert caught.value.problems == (
        "name 'Hosts' is not 1 to 128 of a-z, 0-9 and _; 'hosts' would do",
        "keys of table 'Hosts' names 'idd', which is not one of its columns; did you mean 'id'?",
    )


def test_the_reserved_names_are_those_of_bronze() -> None:
    assert contract.OWN_PREFIX == PREFIX


# Names


@pytest.mark.parametrize("name", ["Hosts", "ho-sts", "", "a" * 129, "../x", "höst"])
def test_a_table_name_is_lower_case_letters_digits_and_underscores(name: str) -> None:
    assert "is not 1 to 128 of a-z, 0-9 and _" in found(pipeline(table(name=name)))


def test_names_of_marts_views_gold_and_namespaces_follow_the_same_rule() -> None:
    text = found(
        pipeline(
            table(marts=[{**SOFT, "name": "A", "live_view": "B-"}]),
            lake={"warehouse": "lake", "namespaces": {"bronze": "Raw"}},
            gold=[{"name": "C", "sql": "select 1 as one"}],
        )
    )

    assert "tables.0.marts.0.name: name 'A'" in text
    assert "tables.0.marts.0.live_view: name 'B-'" in text
    assert "gold.0.name: name 'C'" in text
    assert "lake.namespaces.bronze: name 'Raw'" in text


def test_two_tables_cannot_have_one_name() -> None:
    assert found(pipeline(table(), table())).splitlines() == [
        "tables.1.name: two tables are named 'hosts'; give one of them a name of its own"
    ]


def test_two_current_marts_need_names_of_their_own() -> None:
    text = found(pipeline(table(marts=[CURRENT, SOFT])))

    assert text == (
        "tables.0.marts.1: the current mart of table 'hosts' makes 'marts.hosts', and so does "
        "the current mart of table 'hosts'; give one of them a name of its own"
    )


def test_a_name_that_frazil_makes_counts_as_taken() -> None:
    text = found(pipeline(table(marts=[HISTORY]), table(name="hosts_history")))

    assert "table 'hosts_history' makes 'marts.hosts_history', and so does the history mart" in text


def test_layers_in_one_namespace_must_not_meet() -> None:
    one = dict.fromkeys(("bronze", "silver", "marts", "gold"), "all")

    text = found(pipeline(lake={"warehouse": "lake", "namespaces": one}))

    assert "makes 'all.hosts', and so does table 'hosts'" in text


def test_gold_cannot_have_the_name_of_a_mart() -> None:
    text = found(pipeline(gold=[{"name": "hosts", "sql": "select 1 as one"}]))

    assert "gold.0.name: gold 'hosts' has the name of the current mart of table 'hosts'" in text


# Columns


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("_cdc_file", "kept for bookkeeping; a source field of this name is called 'source_cdc_file'"),
        ("_File", "Iceberg keeps for itself; a source field of this name is called 'source_File'"),
        ("  ", "empty, not printable"),
        ("a\nb", "empty, not printable"),
        ("x" * 256, "longer than 255"),
    ],
)
def test_some_column_names_are_reserved(name: str, message: str) -> None:
    text = found(pipeline(table(columns=[ID, TS, {"name": name}])))

    assert "tables.0.columns.2.name:" in text
    assert message in text


@pytest.mark.parametrize(
    ("mart", "name"),
    [(SOFT, "is_deleted"), (SOFT, "Deleted_At"), (HISTORY, "valid_from"), (HISTORY, "is_current")],
)
def test_a_column_cannot_have_the_name_of_one_that_the_mart_adds(mart: dict[str, str], name: str) -> None:
    columns = [ID, TS, {"name": name}]

    assert f"column '{name}' has the name of a column that" in found(pipeline(table(columns=columns, marts=[mart])))
    assert found(pipeline(table(columns=columns, marts=[CURRENT]))) == ""


def test_upper_and_lower_case_are_one_column_name() -> None:
    text = found(pipeline(table(columns=[ID, TS, NAME, {"name": "NAME"}])))

    assert "tables.0.columns.3: column 'name' of table 'hosts' is declared 2 times" in text


def test_an_unknown_type_names_the_nearest() -> None:
    text = found(pipeline(table(columns=[{"name": "id", "type": "integr"}, TS])))

    assert text.startswith("tables.0.columns.0.type: unknown type 'integr' of column 'id' of table 'hosts'")
    assert text.endswith("did you mean 'integer'?")


def test_the_rest_of_the_columns_comes_last() -> None:
    assert "tables.0.columns.1: '*' must be the last" in found(pipeline(table(columns=[ID, "*", TS])))
    assert "cannot have a type or an expr" in found(pipeline(table(columns=[ID, TS, {"name": "*", "type": "int"}])))


def test_an_expr_must_be_one_expression() -> None:
    text = found(pipeline(table(columns=[ID, TS, {"name": "city", "expr": "split(a, ','"}])))

    assert "tables.0.columns.2.expr: expr of column 'city' of table 'hosts': not SQL" in text


def test_a_column_without_expr_is_a_field_of_headerless_files() -> None:
    source = {**HEADERLESS, "fields": ["id", "ts", "nmae"]}

    text = found(pipeline(table(source=source)))

    assert text == (
        "tables.0.columns.2.name: column 'name' of table 'hosts' is not one of the fields of its files; "
        "did you mean 'nmae'?"
    )


def test_an_expr_reads_fields_of_headerless_files() -> None:
    source = {**HEADERLESS, "fields": ["id", "ts", "location"]}
    columns = [ID, TS, {"name": "city", "expr": "split(locaton, ',')[0]"}]

    assert "reads 'locaton', which is not a field; did you mean 'location'?" in found(
        pipeline(table(source=source, columns=columns))
    )


# Keys and order


@pytest.mark.parametrize("setting", ["keys", "sequence_by"])
def test_keys_and_sequence_are_declared_columns(setting: str) -> None:
    text = found(pipeline(table(**{setting: ["namee"]})))

    assert f"tables.0.{setting}.0: {setting} of table 'hosts' names 'namee'" in text
    assert "did you mean 'name'?" in text


def test_an_open_contract_may_have_keys_that_only_the_source_knows() -> None:
    assert found(pipeline(table(keys=["other"], columns=[TS, "*"]))) == ""
    assert found(pipeline(table(keys=["other"], columns=None, source=PARQUET))) == ""


def test_a_key_may_be_made_by_an_expr() -> None:
    columns = [{"name": "id", "type": "string", "expr": "concat(a, '-', b)"}, TS]

    assert found(pipeline(table(columns=columns))) == ""


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_key_is_exact(kind: str) -> None:
    text = found(pipeline(table(columns=[{"name": "id", "type": kind}, TS])))

    assert f"key 'id' of table 'hosts' is a {kind}, which is not exact; declare it as decimal(p,s)" in text


def test_a_name_stands_once_in_keys_and_sequence() -> None:
    text = found(pipeline(table(keys=["id", "id"], sequence_by=["ts", "ts"])))

    assert "keys of table 'hosts' names 'id' twice" in text
    assert "sequence_by of table 'hosts' names 'ts' twice" in text


def test_bookkeeping_columns_order_nothing_by_declaration() -> None:
    text = found(pipeline(table(sequence_by=["ts", "_cdc_position"])))

    assert text.endswith("names '_cdc_position', which is bookkeeping; leave it out: ties always go by position")


def test_a_csv_sequence_without_a_type_shows_the_line_to_write() -> None:
    closed = found(pipeline(table(columns=[ID, {"name": "ts"}])))
    part = found(pipeline(table(columns=[ID, "*"])))
    none = found(pipeline(table(columns=None)))

    message = "'ts' orders table 'hosts' but has no declared type: as text, '10' < '9'"
    assert closed == f"tables.0.columns.1: {message}; write {{name: ts, type: timestamp}}"
    assert part == f"tables.0.sequence_by.0: {message}; add {{name: ts, type: timestamp}} to the columns"
    assert none == f'tables.0.sequence_by.0: {message}; write columns: [{{name: ts, type: timestamp}}, "*"]'


def test_text_may_order_changes_if_it_is_declared_so() -> None:
    assert found(pipeline(table(columns=[ID, {"name": "ts", "type": "string"}]))) == ""


def test_parquet_knows_the_type_of_its_sequence() -> None:
    assert found(pipeline(table(columns=None, source=PARQUET, marts=[HISTORY]))) == ""


# History


def test_history_needs_an_event_time() -> None:
    version = {"name": "version", "type": "bigint"}
    columns = [ID, version, TS, DAY]

    by_number = found(pipeline(table(columns=columns, sequence_by=["version"], marts=[CURRENT, HISTORY])))

    assert by_number.startswith("tables.0.marts.1: the history of table 'hosts' has no event time; put a timestamp")
    for right in ({"sequence_by": ["version", "day"]}, {"sequence_by": ["version"], "effective_at": "ts"}):
        assert found(pipeline(table(**{"columns": columns, "marts": [HISTORY], **right}))) == ""


def test_a_current_mart_needs_no_sequence() -> None:
    assert found(pipeline(table(sequence_by=[]))) == ""


def test_effective_at_is_a_declared_time() -> None:
    assert "names 'tss', which is not one of its columns; did you mean 'ts'?" in found(
        pipeline(table(effective_at="tss"))
    )
    assert "names 'name', which is a string; it must be a timestamp" in found(pipeline(table(effective_at="name")))


def test_tracked_columns_are_declared_and_said_one_way() -> None:
    both = {**HISTORY, "track_history_columns": ["nam"], "track_history_except_columns": ["id"]}

    text = found(pipeline(table(marts=[both])))

    assert "tables.0.marts.0.track_history_columns.0" in text
    assert "did you mean 'name'?" in text
    assert "sets both track_history_columns and track_history_except_columns; keep one of them" in text


# Marts


def test_partitions_are_transforms_of_columns_that_take_them() -> None:
    mart = {
        **HISTORY,
        "partition_by": ["month(tss)", "dya(ts)", "day(name)", "is_deleted", "year(valid_from)"],
    }

    text = found(pipeline(table(marts=[mart])))

    [unknown, misspelt, text_day] = text.splitlines()
    assert unknown.endswith("names 'tss', which is not one of its columns; did you mean 'ts'?")
    assert "partition_by.1: unknown partition transform 'dya(ts)' in the history mart" in misspelt
    assert text_day.endswith("partition 'day(name)' of the history mart of table 'hosts' does not go with a string")


def test_a_table_is_partitioned_once_by_each_thing() -> None:
    """Iceberg refuses the rest, when the table is made."""
    times = {**HISTORY, "partition_by": ["is_current", "month(ts)", "DAYS(ts)", "bucket(4, id)", "id"]}
    names = {**CURRENT, "partition_by": ["bucket(4, id)", "bucket(8, id)", "truncate(4, id)"]}
    columns = [{"name": "id", "type": "int"}, {"name": "ts", "type": "timestamp"}, {"name": "ID_bucket"}]

    [living, days] = found(pipeline(table(marts=[times]))).splitlines()
    [named, again] = found(pipeline(table(columns=columns, marts=[names]))).splitlines()

    assert living.endswith("of table 'hosts' repeats the partition of every history mart; leave it out")
    assert days.endswith("partition 'DAYS(ts)' of the history mart of table 'hosts' repeats 'month(ts)'; leave it out")
    assert again.endswith("'bucket(8, id)' of the current mart of table 'hosts' repeats 'bucket(4, id)'; leave it out")
    assert "'bucket(4, id)' of the current mart of table 'hosts' as a column: id_bucket; give the column" in named


def test_files_are_sorted_by_columns_of_the_mart() -> None:
    assert found(pipeline(table(marts=[{**SOFT, "sort_by": ["is_deleted", "id"]}]))) == ""
    assert "sort_by of the current mart of table 'hosts' names 'iid'" in found(
        pipeline(table(marts=[{**CURRENT, "sort_by": ["iid"]}]))
    )


def test_a_live_view_shows_a_soft_table() -> None:
    text = found(pipeline(table(marts=[{**CURRENT, "live_view": "hosts_live"}])))

    assert text.startswith("tables.0.marts.0.live_view: live_view of the current mart of table 'hosts' has no use")
