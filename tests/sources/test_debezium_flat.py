"""Flat rows of other tools: their words for operations, before images, and marks of deleted rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.sources.test_debezium import records

from frazil.formats.json_lines import NoObjectError
from frazil.sources.base import SourceFile
from frazil.sources.debezium.forms import RecordFormError
from frazil.sources.debezium.source import DebeziumSource
from frazil.sources.debezium.topic import _lines
from frazil.sources.ledger import Ledger
from frazil.sources.new_files import NameOrderError
from frazil.spec import Column, Debezium, Table

if TYPE_CHECKING:
    from pathlib import Path

QLIK, SQL_SERVER, FEED = "header__change_oper", "__$operation", "_change_type"


def read(field: str | None, *rows: dict[str, Any], columns: tuple[Column, ...] | None = None) -> list[Any]:
    mine = records(columns, form="flat", op=field)
    return [mine.fields(json.dumps(row)) for row in rows]


@pytest.mark.parametrize(
    ("field", "before", "after"), [(QLIK, "B", "U"), (SQL_SERVER, 3, 4), (FEED, "update_preimage", "update_postimage")]
)
def test_a_before_image_gives_only_the_old_key(field: str, before: Any, after: Any) -> None:
    """KEY-CHANGE."""
    images = [{field: before, "id": 1, "n": 1}, {field: after, "id": 2, "n": 1}]
    same = [{field: before, "id": 2, "n": 1}, {field: after, "id": 2, "n": 2}]

    found = read(field, *images, *same, {field: after, "id": 3})

    assert [None if row is None else (row["id"], row.get("__before_id")) for row in found] == [
        None,
        ("2", "1"),
        None,
        ("2", None),
        ("3", None),
    ]


def test_an_image_gives_no_key_across_a_record_that_cannot_be_read() -> None:
    """KEY-CHANGE: the record between may be its update."""
    mine = records(form="flat", op=QLIK)
    mine.fields(json.dumps({QLIK: "B", "id": 1}))
    with pytest.raises(NoObjectError):
        mine.fields("{broken")

    found = mine.fields(json.dumps({QLIK: "U", "id": 2}))

    assert found is not None
    assert "__before_id" not in found


def test_the_numbers_of_sql_server_are_read_where_its_field_says_so() -> None:
    said = [row["__op"] for row in read(SQL_SERVER, *({SQL_SERVER: number, "id": 1} for number in (1, 2, 4, 5)))]
    other = [row["__op"] for row in read("code", *({"code": number, "id": 1} for number in (1, 3, "B")))]

    assert said == ["delete", "insert", "update", "upsert"]
    assert other == ["1", "3", "B"]


def test_a_file_that_ends_between_a_before_image_and_its_update_is_refused() -> None:
    """LOUD: the update in the next file would leave the row of the old key."""
    source = DebeziumSource(records(form="flat", op=QLIK).table)
    file = SourceFile(
        path="a.jsonl", uri="a.jsonl", name="a.jsonl", size_bytes=1, modified_ns=0, load=False, position="1/a"
    )
    rows = [json.dumps({QLIK: op, "id": 1}).encode() for op in ("I", "B", "U", "B")]

    assert "id" in dict(source.json_columns(file, rows[:3]))
    with pytest.raises(RecordFormError, match="cut between the image before an update"):
        source.json_columns(file, rows)


def test_a_captured_message_brings_the_before_image_of_the_file_before(tmp_path: Path) -> None:
    class Message:
        def __init__(self, offset: int, value: dict[str, Any]) -> None:
            self._offset, self._value = offset, value

        def __getattr__(self, name: str) -> Any:
            said = {"topic": "t", "partition": 0, "offset": self._offset, "timestamp": (1, 5), "key": None}
            return lambda: (said | {"value": json.dumps(self._value), "headers": None})[name]

    written = tmp_path / f"{7:020}-{7:020}.jsonl"
    first = _lines([Message(7, {QLIK: "B", "id": 1})], tmp_path)
    written.write_text("".join(first))
    mine = records(form="flat", op=QLIK)

    found = [mine.fields(line) for line in _lines([Message(8, {QLIK: "U", "id": 2})], tmp_path)]

    assert [None if row is None else row.get("__before_id") for row in found] == ["1"]


@pytest.mark.parametrize("field", [None, "__op"])
@pytest.mark.parametrize(
    ("mark", "deleted", "alive"),
    [
        ("_fivetran_deleted", True, False),
        ("_hoodie_is_deleted", "true", None),
        ("_ab_cdc_deleted_at", "2026-01-01", None),
        ("_sdc_deleted_at", "2026-01-01", None),
    ],
)
def test_a_mark_of_a_deleted_row_is_a_delete(field: str | None, mark: str, deleted: Any, alive: Any) -> None:
    """NO-RESURRECTION."""
    found = read(field, {"id": 1, mark: deleted, "__op": "u"}, {"id": 1, mark: alive, "__op": "u"})
    column = (Column(name="id"), Column(name="gone", expr=f"{mark} is not null"))
    declared = read(field, {"id": 1, mark: deleted, "__op": "u"}, columns=column)

    assert [row["__op"] for row in found] == ["d", "upsert" if field is None else "u"]
    assert [row["__op"] for row in declared] == ["upsert" if field is None else "u"]


def test_an_image_without_its_key_is_quarantined() -> None:
    """LOUD: a change of a key with an expr could not be seen."""
    with pytest.raises(NoObjectError, match="before_image: id"):
        read(QLIK, {QLIK: "B", "code": 1}, columns=(Column(name="id", expr="upper(code)"),))


def test_rows_of_golden_gate_say_their_table() -> None:
    row = {"table": "S.T", "op_type": "I", "op_ts": "2026-01-01", "pos": "1", "id": 1}
    mine = records(form="flat", op="op_type", table="S.T")

    found = [mine.fields(json.dumps(row | {"table": table})) for table in ("S.T", "S.U")]
    no_trail = read("op_type", row, {"id": 1, "table": "S.U", "op_type": "I"})

    assert [row is None for row in (*found, *no_trail)] == [False, True, False, False]


def test_half_of_an_update_of_snowflake_deletes_no_row() -> None:
    row = {"id": 1, "METADATA$ACTION": "DELETE", "METADATA$ISUPDATE": True}

    with pytest.raises(NoObjectError, match=r"half_of_update.*metadata\$isupdate"):
        read("METADATA$ACTION", row)
    assert read("METADATA$ACTION", row | {"METADATA$ISUPDATE": False})[0]["__op"] == "DELETE"


@pytest.mark.parametrize(
    "row",
    [{"__op": "d"}, {SQL_SERVER: 1}, {SQL_SERVER: 3}, {FEED: "delete"}, {QLIK: "B"}, {"METADATA$ACTION": "DELETE"}],
)
def test_a_delete_is_quarantined_where_the_declaration_reads_no_op(row: dict[str, Any]) -> None:
    """LOUD: op: null takes records for upserts, and this one says what it is."""
    name = next(iter(row))
    columns = (Column(name="id"), Column(name="what", expr=f"`{name}`"))

    with pytest.raises(NoObjectError, match="op_unread"):
        read(None, {"id": 1, **row})

    assert read(None, {"id": 1, **row}, columns=columns)[0]["__op"] == "upsert"
    assert read(None, {"id": 1, name: "c"})[0]["__op"] == "upsert"


def flat(folder: Path, names: dict[str, str], **settings: Any) -> DebeziumSource:
    (folder / "landing").mkdir(exist_ok=True)
    for name, text in names.items():
        (folder / "landing" / name).write_text(text)
    settings = {"form": "flat", "op": None, **settings}
    source = Debezium(path=(f"{folder}/landing",), settle_seconds=0, **settings)
    return DebeziumSource(Table(name="t", source=source, keys=("id",)))


def test_names_that_order_rows_otherwise_than_their_numbers_are_refused(tmp_path: Path) -> None:
    """ORDER: the file orders rows without a place."""
    source = flat(tmp_path, {"a-9.jsonl": '{"id": 1}\n', "a-10.jsonl": '{"id": 1}\n'})
    with pytest.raises(NameOrderError, match=r"a-10\.jsonl comes before a-9\.jsonl"):
        source.find_new(tmp_path, Ledger())

    placed = flat(tmp_path, {f"a-{n}.jsonl": f'{{"id": 1, "__source_ts_ms": {n}}}\n' for n in (9, 10)})
    assert len(placed.find_new(tmp_path, Ledger()).files) == 2


def test_the_same_row_in_a_later_file_is_a_new_change(tmp_path: Path) -> None:
    """ORDER: a state that comes back is no copy of the file that had it first."""
    rows = {"a-1.jsonl": '{"id": 1, "n": 1}\n', "a-2.jsonl": '{"id": 1, "n": 2}\n', "a-3.jsonl": '{"id": 1, "n": 1}\n'}

    found = flat(tmp_path, rows).find_new(tmp_path, Ledger())

    assert [file.name for file in found.files] == [*rows]
    assert found.duplicates == ()


def test_files_of_keys_and_headers_beside_the_records_are_not_read(tmp_path: Path) -> None:
    """NO-RESURRECTION: a key alone must not insert a row."""
    names = ("t+0+1.json", "t+0+1.keys.json", "t+0+1.headers.json.gz", "keys.json")
    source = flat(tmp_path, dict.fromkeys(names, '{"id": 1}\n'))

    listing = source.list(tmp_path)

    assert [file.name for file in listing.files] == ["keys.json", "t+0+1.json"]
    assert [why.partition(",")[0] for _, why in listing.passed] == ["keys or headers"] * 2
