"""Whole dumps: differences between dumps become changes, for any order of arrival."""

from __future__ import annotations

import json
import os
import re
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.sources.capture import TooManyDeletesError
from frazil.sources.kinds import source_of
from frazil.sources.new_files import NameOrderError
from frazil.sources.snapshot.capture import BadKeyError, SnapshotCapture
from frazil.sources.snapshot.source import Dump, DumpGoneError, UnreadableDumpError
from frazil.sources.snapshot.taken import DumpChangedError
from frazil.spark.session import spark_session
from frazil.spec.load.parse import parse_declaration
from frazil.storage.base import MissingFolderError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline

Rows = dict[int, dict[str, Any]]

SETTINGS = "settle_seconds: 0, max_delete_fraction: 1"


def declared(folder: Path, settings: str = SETTINGS) -> Pipeline:
    (folder / "dumps").mkdir(exist_ok=True)
    return parse_declaration(f"""
pipeline: dumps
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {{kind: snapshot, path: ./dumps, {settings}}}
    keys: [id]
    columns: [{{name: id, type: int}}, {{name: name}}, {{name: qty, type: int}}]
    marts: [{{kind: current}}, {{kind: history}}]
""").at(folder)


def land(folder: Path, settings: str = SETTINGS) -> int:
    pipeline = declared(folder, settings)
    return SnapshotCapture(pipeline.tables[0]).land(folder, lambda _: None).files


def drawn(seed: int, count: int) -> dict[str, Rows]:
    """Draw the states of a table, day by day."""
    chance = Random(seed)
    rows: Rows = {}
    states = {}
    for day in range(1, count + 1):
        has_qty = chance.random() < 0.8
        for _ in range(chance.randint(0, 6)):
            key = chance.randint(1, 8)
            if key in rows and chance.random() < 0.4:
                del rows[key]
            else:
                rows[key] = {
                    "id": key,
                    "name": chance.choice(["a", "b", None, "", 'q"uote']),
                    "qty": chance.choice([0, 1, 2, None]),
                }
        states[f"2026-01-{day:02}"] = {
            key: dict(row) if has_qty else {name: row[name] for name in ("id", "name")} for key, row in rows.items()
        }
    return states


def write(folder: Path, name: str, rows: Rows, chance: Random) -> None:
    """Write a dump in any of the forms that dumps have."""
    lines = [dict(row) for row in rows.values()]
    chance.shuffle(lines)
    has_qty = all("qty" in line for line in lines)
    match chance.randrange(3) if lines and has_qty else 0:
        case 0:
            schema = pa.schema([("id", pa.int32()), ("name", pa.string()), *([("qty", pa.int64())] if has_qty else [])])
            pq.write_table(pa.Table.from_pylist(lines, schema), folder / "dumps" / f"{name}.parquet")
        case 1:
            text = "".join(f"{json.dumps(line)}\n" for line in lines)
            (folder / "dumps" / f"{name}.jsonl").write_text(text, encoding="utf-8")
        case _:
            (folder / "dumps" / name).mkdir()
            half = len(lines) // 2
            for part, some in enumerate((lines[:half], lines[half:])):
                text = "".join(f"{json.dumps(line)}\n" for line in some)
                (folder / "dumps" / name / f"part-{part}.jsonl").write_text(text, encoding="utf-8")


def replayed(folder: Path, upto: str) -> list[str]:
    """Replay the landed differences of all dumps up to one, in the order of their positions."""
    rows: dict[str, tuple[str, ...]] = {}
    for file in sorted(
        (folder / "landing" / "snapshot" / "things").glob("*.parquet"), key=lambda file: file.name.partition(" ")[0]
    ):
        if file.name[: len(upto)] <= upto:
            for row in pq.read_table(file).to_pylist():
                if row["__op"] == "d":
                    rows.pop(row["id"], None)
                else:
                    kept = rows.get(row["id"], (None, None, None))[2]
                    rows[row["id"]] = (row["id"], row["name"], row.get("qty", kept))
    return sorted(map(repr, rows.values()))


def shown(rows: Rows) -> list[str]:
    return sorted(repr((str(row["id"]), row["name"], text(row["qty"]))) for row in rows.values())


def text(value: int | None) -> str | None:
    return None if value is None else f"{value}"


def kept_values(states: Mapping[str, Rows]) -> dict[str, Rows]:
    """Return the rows that the lake has after each dump: a column that a dump lacks keeps its values."""
    found, before = {}, Rows()
    for name, rows in states.items():
        before = {key: {"qty": before.get(key, {}).get("qty"), **row} for key, row in rows.items()}
        found[name] = before
    return found


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.laws) for seed in range(2, 60))])
def test_differences_lead_to_every_dump_in_any_order_of_arrival(seed: int, tmp_path: Path) -> None:
    states, chance = drawn(seed, 5), Random(seed)
    declared(tmp_path)

    for name in chance.sample([*states], len(states)):
        write(tmp_path, name, states[name], chance)
        if chance.random() < 0.7:
            land(tmp_path)
    land(tmp_path)

    for name, rows in kept_values(states).items():
        assert replayed(tmp_path, name) == shown(rows)
    assert land(tmp_path) == 0


def dump(folder: Path, name: str, ids: Sequence[int], extra: Mapping[str, Any] | None = None) -> Path:
    (folder / "dumps").mkdir(exist_ok=True)
    file = folder / "dumps" / f"{name}.jsonl"
    file.write_text("".join(f"{json.dumps({'id': key, 'qty': 1, **(extra or {})})}\n" for key in ids), encoding="utf-8")
    return file


def test_a_dump_that_lacks_too_many_rows_is_refused_until_it_is_allowed(tmp_path: Path) -> None:
    dump(tmp_path, "1", range(100))
    land(tmp_path, "settle_seconds: 0")
    dump(tmp_path, "2", range(79))

    with pytest.raises(TooManyDeletesError, match="lacks 21 of 100 rows") as refused:
        land(tmp_path, "settle_seconds: 0")

    assert refused.value.exit_code == 5
    assert land(tmp_path, "settle_seconds: 0, max_delete_fraction: 0.21") == 1


def test_a_dump_that_is_removed_before_its_comparison_is_an_error(tmp_path: Path) -> None:
    dump(tmp_path, "1", [1])
    second = dump(tmp_path, "2", [1, 2])
    land(tmp_path)
    second.unlink()
    dump(tmp_path, "3", [1])

    with pytest.raises(DumpGoneError, match=r"dump 2\.jsonl was taken and is gone") as refused:
        land(tmp_path)

    assert refused.value.exit_code == 8


def test_old_dumps_may_go_once_the_next_was_taken(tmp_path: Path) -> None:
    first = dump(tmp_path, "1", [1])
    dump(tmp_path, "2", [1, 2])
    land(tmp_path)
    first.unlink()
    dump(tmp_path, "3", [2])

    assert land(tmp_path) == 1


@pytest.mark.parametrize("what", ["a part that comes late", "a correction", "a file that is touched"])
def test_a_dump_that_changes_after_it_was_taken_is_refused(what: str, tmp_path: Path) -> None:
    """NOTHING-LOST: the next dump was compared with rows that the lake never had."""
    declared(tmp_path)
    place = tmp_path / "dumps" / "2026-01-01"
    place.mkdir()
    (place / "0.jsonl").write_text('{"id": 1, "qty": 1}\n')
    land(tmp_path)

    match what:
        case "a part that comes late":
            (place / "1.jsonl").write_text('{"id": 2, "qty": 1}\n')
        case "a correction":
            (place / "0.jsonl").write_text('{"id": 1, "qty": 2}\n')
        case _:
            os.utime(place / "0.jsonl", (1, 1))
            assert land(tmp_path) == 0
            return

    dump(tmp_path, "2026-01-02", [1, 2])
    with pytest.raises(DumpChangedError, match="2026-01-01 has other files or other content") as refused:
        land(tmp_path)
    assert refused.value.exit_code == 8


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2026-01-31", "2026-01-31-v2"),
        ("2026-01-31", "2026-01-31 (1)"),
        ("things_full_2026-01-31", "things_2026-02-01"),
        ("things_31-01-2026", "things_01-02-2026"),
        ("31012026", "01022026"),
        ("31-Jan-2026", "01-Feb-2026"),
    ],
)
def test_dumps_whose_names_are_in_another_order_than_their_times_are_refused(
    first: str, second: str, tmp_path: Path
) -> None:
    """ORDER: the newer dump counted as a late one, and changed nothing."""
    dump(tmp_path, first, [1])
    land(tmp_path)
    dump(tmp_path, second, [1, 2])

    with pytest.raises(NameOrderError) as refused:
        land(tmp_path)
    assert "with the year first" in f"{refused.value.hint}"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("2026-01-31", "2026-01-31_v2"),
        ("2026-01-31", "2026-01-31T0500"),
        ("shop-12345678-2026-01-31", "shop-12345678-2026-02-01"),
        ("1", "2"),
    ],
)
def test_dumps_whose_names_are_in_the_order_of_their_times_are_taken(first: str, second: str, tmp_path: Path) -> None:
    dump(tmp_path, first, [1])
    dump(tmp_path, second, [1, 2])

    assert land(tmp_path) == 2
    assert Dump(first, (), 0).taken_at == ("2026-01-31 00:00:00" if "2026" in first else None)


def test_a_column_that_returns_as_null_is_null(tmp_path: Path) -> None:
    """MISSING-IS-NOT-NULL: the row kept the value from before the column was gone."""
    declared(tmp_path)
    for day, lines in enumerate(("id,qty\n1,5\n", "id\n1\n", "id,qty\n1,\n"), 1):
        (tmp_path / "dumps" / f"2026-01-0{day}.csv").write_text(lines)
    land(tmp_path)

    [file] = (tmp_path / "landing").rglob("2026-01-03.csv after *.parquet")
    assert [(row["__op"], row["qty"]) for row in pq.read_table(file).to_pylist()] == [("u", None)]


def test_a_field_that_no_json_record_has_is_null(tmp_path: Path) -> None:
    """Many tools leave out fields that are NULL: the row kept its value if no other row had one."""
    dump(tmp_path, "2026-01-01", [1], {"name": "a"})
    dump(tmp_path, "2026-01-02", [1])
    dump(tmp_path, "2026-01-03", [1])
    land(tmp_path)

    files = sorted((tmp_path / "landing").rglob("*.parquet"))
    assert [[(row["__op"], row["name"]) for row in pq.read_table(file).to_pylist()] for file in files[1:2]] == [
        [("u", None)]
    ]
    assert pq.read_metadata(files[2]).num_rows == 0


def test_a_dump_with_an_unreadable_record_is_refused(tmp_path: Path) -> None:
    file = dump(tmp_path, "1", [1])
    with file.open("a") as end:
        end.write("{\n")

    with pytest.raises(UnreadableDumpError, match=r"dumps/1.jsonl: record 2"):
        land(tmp_path)


@pytest.mark.parametrize(("ids", "extra"), [([1, 1], {}), ([1], {"id": None})], ids=["twice", "NULL"])
def test_a_dump_with_repeated_keys_is_refused(ids: list[int], extra: dict[str, Any], tmp_path: Path) -> None:
    dump(tmp_path, "1", ids, extra)

    with pytest.raises(BadKeyError, match="with id = "):
        land(tmp_path)


def landed_of(folder: Path, kind: str, *dumps: Sequence[str]) -> list[tuple[str, str]]:
    """Land dumps of keys of a type; return (op, key) of the newest differences."""
    pipeline = declared(folder)
    columns = (frazil.Column(name="id", type=kind), frazil.Column(name="name"))
    table = pipeline.tables[0].model_copy(update={"columns": columns})
    for number, texts in enumerate(dumps, 1):
        (folder / "dumps" / f"{number}.csv").write_text("\n".join(("id,name", *texts, "")))
        SnapshotCapture(table).land(folder, lambda _: None)
    [file] = (folder / "landing").rglob(f"{len(dumps)}.csv after *.parquet")
    return [(row["__op"], row["id"]) for row in pq.read_table(file).to_pylist()]


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("int", "1", "01"),
        ("bigint", "7", " +7 "),
        ("decimal(10,2)", "1.5", "1.500"),
        ("decimal(10,0)", "1", "1.0"),
        ("date", "2024-01-31", "2024-01-31 00:00:00"),
        ("timestamp", "2024-01-31 01:00:00", "2024-01-31T02:00:00.000 +01:00"),
        ("timestamp_ntz", "2024-01-31 01:00:00", "2024-01-31T01:00:00.000"),
        ("boolean", "t", "TRUE"),
        ("binary", "\\x0a", "0A"),
    ],
)
def test_two_texts_of_one_key_are_one_row(kind: str, before: str, after: str, tmp_path: Path) -> None:
    """CONVERGE: the key had a delete of its old text behind an insert of its new one, and its row was gone."""
    assert landed_of(tmp_path, kind, [f"{before},a"], [f"{after},b"]) == [("u", after)]


def test_two_texts_of_one_key_in_one_dump_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadKeyError, match=r"has 2 rows with id = '1\.50?'"):
        landed_of(tmp_path, "decimal(10,2)", ["1.5,a", "1.50,b"])


def test_texts_of_a_string_key_are_rows_of_their_own(tmp_path: Path) -> None:
    assert landed_of(tmp_path, "string", ["1,a"], ["1.0,a"]) == [("d", "1"), ("i", "1.0")]


def landed_by_expr(folder: Path, expr: str, *dumps: Sequence[str]) -> list[tuple[str, str]]:
    """Land dumps of a key with an expression; return (op, key) of the newest differences."""
    table = declared(folder).tables[0].model_copy(update={"columns": (frazil.Column(name="id", expr=expr),)})
    for number, texts in enumerate(dumps, 1):
        (folder / "dumps" / f"{number}.csv").write_text("\n".join(("id,name", *texts, "")))
        SnapshotCapture(table).land(folder, lambda _: None)
    [file] = (folder / "landing").rglob(f"{len(dumps)}.csv after *.parquet")
    return [(row["__op"], row["id"]) for row in pq.read_table(file).to_pylist()]


def test_two_rows_of_one_key_by_its_expression_are_refused(tmp_path: Path) -> None:
    """IDENTITY: when one of them was gone, the other went with it."""
    with pytest.raises(BadKeyError, match="has 2 rows with id = "):
        landed_by_expr(tmp_path, "lower(rtrim(id))", ["AB ,a", "ab,b"])


@pytest.mark.parametrize(
    ("expr", "before", "after", "expected"),
    [
        ("lower(rtrim(id))", "AB ", "ab", [("u", "ab")]),
        ("UPPER( `ID` )", "ab", "aB", [("u", "aB")]),
        ("lower(id)", "É", "é", [("d", "É"), ("i", "é")]),
        ("substr(id, 1, 2)", "ab1", "ab2", [("d", "ab1"), ("i", "ab2")]),
    ],
)
def test_a_key_with_an_expression_is_compared_by_its_value(
    expr: str, before: str, after: str, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    """HISTORY: a row whose key is written in another way had a delete, and a version that ended."""
    assert landed_by_expr(tmp_path, expr, [f"{before},a"], [f"{after},b"]) == expected


@pytest.mark.parametrize(("kind", "text"), [("int", "1.0"), ("decimal(10,2)", "1.505"), ("date", "01/31/2024")])
def test_a_key_that_is_no_value_of_its_type_is_refused(kind: str, text: str, tmp_path: Path) -> None:
    """NOTHING-LOST: its row would go to quarantine, and the one that it was would be deleted."""
    with pytest.raises(BadKeyError, match=f"which is not exactly {re.escape(kind)}") as refused:
        landed_of(tmp_path, kind, [f"{text},a"])

    assert "give the column id a type" in f"{refused.value.hint}"


def test_a_dump_that_is_still_being_written_waits(tmp_path: Path) -> None:
    file = dump(tmp_path, "1", [1])
    source = source_of(declared(tmp_path, "settle_seconds: 60").tables[0])
    assert land(tmp_path, "settle_seconds: 60") == 0
    [waiting] = source.list(tmp_path).refused

    os.utime(file, (1, 1))

    assert waiting[1] == "younger than settle_seconds (60), so it may still be written"
    assert land(tmp_path, "settle_seconds: 60") == 1
    assert source.list(tmp_path).refused == ()


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    capture = SnapshotCapture(declared(tmp_path).tables[0])
    (tmp_path / "dumps").rmdir()

    with pytest.raises(MissingFolderError, match="no such folder"):
        capture.land(tmp_path, lambda _: None)


@pytest.mark.spark
@pytest.mark.long
def test_marts_follow_the_dumps(spark: SparkSession, tmp_path: Path) -> None:
    del spark  # only there so that Java runs
    pipeline = declared(tmp_path)
    states = drawn(7, 5)
    order = ["2026-01-01", "2026-01-04", "2026-01-02", "2026-01-05", "2026-01-03"]

    for name in order:
        write(tmp_path, name, states[name], Random(1))
        frazil.run(pipeline, spark=spark_session(pipeline))

    have = query(pipeline, "SELECT id, name, qty FROM marts.things").rows
    expected = kept_values(states)
    assert sorted(repr((str(one), name, text(qty))) for one, name, qty in have) == shown(expected["2026-01-05"])
    for day, rows in expected.items():
        at = f"TIMESTAMPTZ '{day} 00:00:00Z'"
        then = query(
            pipeline,
            f"SELECT id, name, qty FROM marts.things_history WHERE valid_from <= {at} "
            f"AND (valid_to > {at} OR valid_to IS NULL)",
        ).rows
        assert sorted(repr((str(one), name, text(qty))) for one, name, qty in then) == shown(rows), day
    assert [finding for finding in check(pipeline) if finding.ok is False] == []
