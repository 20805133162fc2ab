"""The proofs of marts pass on the oracle's rows, and fail on every damage, by hashes or by values."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.databases import empty_database
from tests.serve.in_memory import MARTS, database, fill, layers, oracle, shown, with_marts

import frazil
from frazil.serve.check.checksum import BUCKETS, bucket_ranges, in_buckets
from frazil.serve.check.finding import Proof
from frazil.serve.check.marts import mart_steps
from frazil.spec import Pipeline
from frazil.testing import as_files, oracle_changes, random_history

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.serve.check.finding import Verdict
    from frazil.serve.layers import Layers
    from frazil.testing import Change

AT_VALUES = "of what differs"


@dataclass
class Marts:
    """Marts in memory, and a way to prove them."""

    proof: Proof
    said: list[str] = field(default_factory=list)

    def execute(self, sql: str, *values: Any) -> None:
        """Do something to the marts."""
        self.proof.connection.execute(sql, [*values])

    def verdict(self, law: str, table: str) -> Verdict:
        """Do one proof."""
        (step,) = [one for one in mart_steps(self.proof) if (one.law, one.table) == (law, table)]
        return step.prove()

    def damaged(self, sql: str, *values: Any, table: str) -> Verdict:
        """Prove a table that holds what it must, when it was damaged; afterwards it is whole again."""
        if not self.proof.kept:  # the temporary tables of all proofs must outlive the rollback
            assert self.verdict("CONVERGE", table)[0]
        self.said.clear()
        self.execute("BEGIN")
        self.execute(sql, *values)
        found = self.verdict("CONVERGE", table)
        self.execute("ROLLBACK")
        return found

    @property
    def compared_values(self) -> bool:
        """Whether hashes were not enough."""
        return any(AT_VALUES in words for words in self.said)


def drawn(seed: int, *, narrow: float = 0.0, size: int = 40) -> list[Change]:
    return oracle_changes(as_files(random_history(seed, size=size, keys=6, ties=0.4), seed, narrow=narrow))


@contextmanager
def made(changes: list[Change], here: Layers, copies: int = 1) -> Iterator[Marts]:
    said: list[str] = []
    with database(changes, copies) as connection:
        for _, layer in here.marts:
            fill(connection, layer.name, changes)
        pipeline = Pipeline(pipeline="p", lake=frazil.Lake(warehouse="lake"), tables=(here.table,))
        proof = Proof(pipeline=pipeline, here=here, connection=connection, progressed=said.append)
        yield Marts(proof, said)


@pytest.mark.parametrize("narrow", [0.0, pytest.param(0.4, marks=pytest.mark.long)])
@pytest.mark.parametrize("change_seq", [None, pytest.param("seq", marks=pytest.mark.long)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.laws) for seed in range(1, 12))])
def test_what_the_oracle_says_is_proven_by_hashes(seed: int, change_seq: str | None, narrow: float) -> None:
    here = layers(partial=narrow > 0, change_seq=change_seq, marts=(*MARTS,))
    with made(drawn(seed, narrow=narrow), here) as marts:
        found = {name: marts.verdict("CONVERGE", name) for name in MARTS}

    assert found == dict.fromkeys(MARTS, (True, "its rows are what batches 1 to 3 fold to"))
    assert not marts.compared_values


@pytest.mark.parametrize("rows", [0, 2_000_000, 33_333_333])
def test_each_key_is_in_one_part(rows: int) -> None:
    with empty_database() as connection:
        connection.execute(f"CREATE TABLE keys AS SELECT range AS key FROM range({3 * BUCKETS})")
        for part in bucket_ranges(rows):
            found = connection.execute(f"DELETE FROM keys WHERE {in_buckets('key', part)} RETURNING key").fetchall()

            assert sorted({key % BUCKETS for (key,) in found}) == [*part]
            assert len(found) == 3 * len(part)
        assert connection.execute("SELECT count(*) FROM keys").fetchone() == (0,)


def altered(value: Any) -> Any:
    """Give another value of the type of one."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return f"{value}x"
        case _:
            return value + timedelta(microseconds=1)


@pytest.mark.long
@pytest.mark.parametrize("narrow", [0.0, pytest.param(0.4, marks=pytest.mark.laws)])
def test_any_changed_value_is_found_with_its_key(narrow: float) -> None:
    changes = drawn(5, narrow=narrow)
    with made(changes, layers(partial=narrow > 0, marts=(*MARTS,))) as marts:
        for name in MARTS:
            row = next(row for row in oracle(name, changes) if row["note"] is not None)
            place = f"_cdc_position = '{row['_cdc_position']}' AND _cdc_row = {row['_cdc_row']} AND id = {row['id']}"
            # What a mart has in common with the first one is compared as there.
            own = [one for one in shown(name) if name == "hard" or one not in {*shown("hard")} - {"name", "note"}]
            for column in (column for column in own if row[column] is not None):
                update = f"UPDATE {name} SET {column} = ? WHERE {place}"
                found = marts.damaged(update, altered(row[column]), table=name)

                odd = row["id"] + (column == "id")
                missing, extra = f"1 row is missing: {row['id']}", f"1 row should not be there: {odd}"
                assert found == (False, f"{missing} · {extra}"), (name, column)
                assert marts.compared_values


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("DELETE FROM {} WHERE id = 1", "missing: 1"),
        ("INSERT INTO {} SELECT * FROM {} WHERE id = 1", "should not be there: 1"),
        ("INSERT INTO {} SELECT * REPLACE (77 AS id) FROM {} WHERE id = 1 LIMIT 1", "1 row should not be there: 77"),
        ("UPDATE {} SET id = CASE id WHEN 1 THEN 2 ELSE 1 END WHERE id IN (1, 2)", "missing: 1; 2"),
        ("DELETE FROM {}", "missing: 1; 2; 3"),
    ],
)
def test_lost_doubled_foreign_and_swapped_rows_are_found(damage: str, says: str) -> None:
    with made(drawn(5), layers(partial=False, marts=(*MARTS,))) as marts:
        for name in MARTS:
            ok, detail = marts.damaged(damage.replace("{}", name), table=name)

            assert ok is False, name
            assert says in detail, name


def test_equal_values_with_other_hashes_are_no_difference() -> None:
    with made(drawn(2), layers(partial=False, marts=("hard",))) as marts:
        marts.execute("ALTER TABLE hard ALTER qty TYPE DOUBLE")
        ok, _ = marts.verdict("CONVERGE", "hard")

    assert ok
    assert marts.compared_values


@pytest.mark.parametrize("damage", ["", "UPDATE hard SET name = name || 'x' WHERE id = 1"])
def test_tables_of_other_types_are_compared_by_values_alone(damage: str) -> None:
    here = layers(partial=False, marts=("hard",))
    mart = here.marts[0][1]
    wider = replace(mart, snapshot=replace(mart.snapshot, columns={**mart.snapshot.columns, "id": "long"}))
    with made(drawn(5), with_marts(here, wider)) as marts:
        marts.execute("ALTER TABLE hard ALTER id TYPE BIGINT")
        marts.execute(damage)
        ok, _ = marts.verdict("CONVERGE", "hard")

    assert ok is not bool(damage)


def test_keys_that_only_the_content_hash_orders_are_left_out_and_told() -> None:
    one, other = (
        oracle_changes({"1.csv": [{"op": "I", "id": "9", "ts": "2026-01-01", "name": text}]}) for text in "ab"
    )
    note = "; 1 key is left out: only the content hash orders their changes"
    with made(drawn(4) + one + other, layers(partial=True, marts=(*MARTS,))) as marts:
        for name in MARTS:
            marts.said.clear()
            marts.execute(f"DELETE FROM {name} WHERE id = 9")
            tied = marts.verdict("CONVERGE", name)
            by_hashes = not marts.compared_values
            marts.execute(f"DELETE FROM {name} WHERE id = 1")
            damaged = marts.verdict("CONVERGE", name)

            assert tied == (True, f"its rows are what batches 1 to 3 fold to{note}"), name
            assert by_hashes, name
            assert damaged[0] is False, name
            assert damaged[1].endswith(note), name


def test_a_change_that_is_there_twice_counts_once() -> None:
    with made(drawn(3), layers(partial=False, marts=("hard", "close")), copies=2) as marts:
        assert marts.verdict("CONVERGE", "hard")[0]
        assert marts.verdict("CONVERGE", "close")[0]


def test_marts_at_different_batches_are_each_folded_to_their_own() -> None:
    changes = drawn(6)
    here = layers(partial=False, marts=("hard", "close"))
    behind = here.marts[0][1]
    behind = replace(behind, snapshot=replace(behind.snapshot, bookmark={**behind.snapshot.bookmark, "batch": 1}))
    with made(changes, with_marts(here, behind)) as marts:
        marts.execute("DELETE FROM hard")
        for row in oracle("hard", [one for number, one in enumerate(changes) if number % 3 == 0]):
            marts.proof.connection.execute("INSERT INTO hard VALUES (?, ?, ?, ?, ?, ?, ?)", [*row.values()])
        verdicts = [marts.verdict(law, table) for law, table in (("CONVERGE", "hard"), ("CONVERGE", "close"))]
        agree = marts.verdict("AGREE", "hard, close")

    assert verdicts == [
        (True, "its rows are what batch 1 folds to"),
        (True, "its rows are what batches 1 to 3 fold to"),
    ]
    assert agree == (None, "they hold batches 1 and 3: frazil run brings them to the same batch")


@pytest.mark.parametrize("other", ["soft", "close", "mark"])
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("", "they show the same living rows at batch 3"),
        ("UPDATE {} SET name = name || 'x' WHERE id = 1", "missing: 1 · "),
        ("DELETE FROM {} WHERE id = 1", "missing: 1"),
    ],
)
def test_marts_agree_on_living_rows_or_say_where_not(other: str, damage: str, says: str) -> None:
    changes = [one for one in drawn(7) if not (one.deleted and one.values["id"] == 1)]
    with made(changes, layers(partial=False, marts=("hard", other))) as marts:
        marts.execute(damage.replace("{}", other))
        ok, detail = marts.verdict("AGREE", f"hard, {other}")

    assert ok is not bool(damage)
    assert says in detail
    assert marts.compared_values is bool(damage)


def test_a_key_with_two_rows_is_found() -> None:
    with made(drawn(1), layers(partial=False, marts=("hard",))) as marts:
        sound = marts.verdict("ORDER", "hard")
        marts.execute("INSERT INTO hard SELECT * REPLACE ('x' AS name) FROM hard WHERE id IN (2, 3)")
        found = marts.verdict("ORDER", "hard")

    assert sound == (True, "each key has one row")
    assert found == (False, "2 keys have more than one row: 2; 3")


@pytest.mark.parametrize("name", ["close", "mark"])
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("", "versions follow one another, one current a key at most"),
        ("UPDATE {} SET valid_to = valid_from WHERE {first}", "1 version ends before it begins: 1, "),
        ("UPDATE {} SET is_current = NOT is_current WHERE {first}", "1 version has the wrong is_current: 1, "),
        (
            "UPDATE {} SET valid_to = valid_to + INTERVAL 1 MICROSECOND WHERE {first}",
            "1 version reaches into the next one of its key: 1, ",
        ),
        ("UPDATE {} SET valid_to = NULL, is_current = true WHERE {first}", "1 version reaches into the next one"),
    ],
)
def test_versions_follow_one_another_or_it_is_said_where_not(name: str, damage: str, says: str) -> None:
    rows: list[dict[str, str | None]] = [
        {"op": "U", "id": f"{key}", "ts": f"2026-01-0{day}", "name": f"{day}"} for key in (1, 2) for day in (1, 2, 3)
    ]
    first = "id = 1 AND valid_from = TIMESTAMPTZ '2026-01-01 00:00:00Z'"
    with made(oracle_changes({"1.csv": rows}), layers(partial=True, marts=(name,))) as marts:
        marts.execute(damage.replace("{}", name).replace("{first}", first))
        ok, detail = marts.verdict("HISTORY", name)

    assert ok is not bool(damage)
    assert says in detail


def test_a_mart_of_another_declaration_or_without_a_batch_is_not_judged() -> None:
    here = layers(partial=False, marts=("hard", "soft"))
    verdicts: dict[str, Any] = {}
    for name, bookmark in (("declared", {"batch": 3, "declared": "x"}), ("empty", {})):
        mart = here.marts[0][1]
        with made(
            drawn(1), with_marts(here, replace(mart, snapshot=replace(mart.snapshot, bookmark=bookmark)))
        ) as marts:
            verdicts[name] = marts.verdict("CONVERGE", "hard")

    assert verdicts == {
        "declared": (None, "its declaration changed: frazil run rebuilds it"),
        "empty": (None, "nothing was applied to it yet"),
    }
