"""KEYS and LATE fail only on changes of wrong keys or a wrong order."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.databases import empty_database
from tests.serve.in_memory import layer, layers

import frazil
from frazil.serve.check.changes import change_steps
from frazil.serve.check.finding import Proof
from frazil.spec import Pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.serve.check.finding import Verdict

ONE_BATCH = (True, "1 batch is not mostly late")


def rows(
    keys: int, *, load: bool = False, at: str = "0", qty: str = "1", copies: int = 1, batch: int = 1, folder: str = "a"
) -> str:
    """Write a SELECT of records: ``copies`` of each key k, numbered by n; ``at`` seconds is their time."""
    return (
        f"SELECT k AS id, {at} AS s, 'x' AS name, {qty} AS qty, {int(not load)} || '/' || {batch} AS position, "
        f"{batch} AS batch, '{folder}/{batch}' AS file FROM range({keys}) AS _(k), range({copies}) AS _(n)"
    )


@contextmanager
def silver(*selects: str) -> Iterator[Proof]:
    """Make changes of :func:`rows`, each file taken in its batch."""
    here = replace(layers(partial=False), bronze=layer("bronze", {"_cdc_offset": "bigint"}))
    with empty_database() as connection:
        connection.execute(
            "CREATE TABLE changes AS SELECT id, TIMESTAMPTZ '2026-01-01' + INTERVAL (s) SECOND AS ts, name, qty, "
            "'' AS note, 'upsert' AS _cdc_class, position AS _cdc_position, row_number() OVER () AS _cdc_row, "
            f"batch AS _cdc_batch, file AS _cdc_file FROM ({' UNION ALL '.join(selects)})"
        )
        connection.execute(
            "CREATE TABLE bronze AS SELECT DISTINCT 'file' AS _cdc_kind, _cdc_file, _cdc_batch, 0 AS _cdc_offset, "
            "{'load': starts_with(_cdc_position, '0/')} AS _cdc_ledger FROM changes"
        )
        pipeline = Pipeline(pipeline="p", lake=frazil.Lake(warehouse="lake"), tables=(here.table,))
        yield Proof(pipeline=pipeline, here=here, connection=connection)


def verdict(proof: Proof, law: str) -> Verdict:
    (step,) = [one for one in change_steps(proof) if one.law == law]
    return step.prove()


def test_a_load_with_repeated_keys_fails_and_names_the_differing_columns() -> None:
    with silver(rows(50, load=True, copies=3, qty="n", at="k"), rows(2, batch=2, at="100")) as proof:
        ok, said = verdict(proof, "KEYS")

    assert ok is False
    assert said == (
        "50 of 50 keys of full loads have different records in one load: 0; 1; 10; they differ in qty; "
        "keys: [id, qty] would be unique"
    )


def test_one_key_in_a_thousand_may_have_several_records_and_it_is_said() -> None:
    with silver(rows(1000, load=True), rows(1, load=True, qty="7 + n", copies=2)) as proof:
        ok, said = verdict(proof, "KEYS")
    with silver(rows(999, load=True), rows(1, load=True, qty="7")) as proof:
        too_many = verdict(proof, "KEYS")[0]

    assert (ok, too_many) == (True, False)
    assert said.startswith("1 of 1,000 keys of full loads has different records in one load: 0; they differ in qty")


@pytest.mark.parametrize(
    "selects",
    [
        pytest.param((rows(50, load=True, copies=2),), id="the same record twice"),
        pytest.param((rows(50, load=True), rows(50, load=True, qty="2", batch=2)), id="a second load"),
        pytest.param((rows(50, load=True), rows(50, load=True, qty="2", folder="b")), id="a load of another folder"),
    ],
)
def test_a_key_may_come_again_with_the_same_record_or_in_another_load(selects: tuple[str, ...]) -> None:
    with silver(*selects) as proof:
        assert verdict(proof, "KEYS")[0] is True


def test_changes_may_name_a_key_often() -> None:
    with silver(rows(5, copies=40, at="n")) as proof:
        assert verdict(proof, "KEYS") == (True, "no full load was taken")
        assert verdict(proof, "LATE") == ONE_BATCH


def test_folded_records_of_loads_are_noted() -> None:
    with silver(rows(50, load=True)) as proof:
        proof.connection.execute("INSERT INTO bronze SELECT 'folded', _cdc_file, 1, 20, NULL FROM bronze")
        ok, said = verdict(proof, "KEYS")
        proof.connection.execute("DELETE FROM changes")
        none_left = verdict(proof, "KEYS")

    folded = "20 records of full loads are folded into the baseline, and not checked"
    assert (ok, said) == (True, f"each of 50 keys of full loads has one record; {folded}")
    assert none_left == (None, folded)


def test_a_batch_that_is_mostly_older_than_its_keys_is_wrong() -> None:
    old = rows(200, at="CASE WHEN k < 101 THEN -1 ELSE 9 END", batch=2)
    with silver(rows(200, load=True), old, rows(50, at="-5", batch=3)) as proof:
        ok, said = verdict(proof, "LATE")

    assert ok is False
    assert said == (
        "batch 2: 101 of 200 changes are older than what their key had, such as 0; look at frazil key; "
        "if they are really old, set max_late_fraction: 1"
    )


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(rows(200, at="CASE WHEN k < 100 THEN -1 ELSE 9 END", batch=2), id="half of it"),
        pytest.param(rows(300, at="-(k < 100)::INT", batch=2), id="new keys"),
        pytest.param(rows(2, at="CASE WHEN n < 3 THEN -1 ELSE n END", copies=100, batch=2), id="a few old changes"),
        pytest.param(rows(99, at="-1", batch=2), id="a small batch"),
    ],
)
def test_a_batch_may_bring_some_old_changes(batch: str) -> None:
    with silver(rows(200, load=True), batch) as proof:
        assert verdict(proof, "LATE")[0] is True


def test_a_change_that_was_replayed_is_old_on_purpose() -> None:
    with silver(rows(200, at="5"), rows(200, at="-1", batch=2)) as proof:
        proof.connection.execute("UPDATE bronze SET _cdc_batch = 1")

        assert verdict(proof, "LATE")[0] is True
