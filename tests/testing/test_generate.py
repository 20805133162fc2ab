"""Generated change files keep their promises."""

from __future__ import annotations

import csv
import io
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from frazil.errors import DeclarationError
from frazil.spec import Pipeline
from frazil.testing import generate as module
from frazil.testing.generate import COLUMNS, generate, sample_declaration
from frazil.testing.sample_files import SampleFiles

if TYPE_CHECKING:
    from pathlib import Path

SIZE: dict[str, Any] = {"rows": 5000, "batches": 3, "changes": 4000, "seed": 1}


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8"), newline=""), strict=True))


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    one, two, other = (
        generate(tmp_path / name, SampleFiles(**{**SIZE, "seed": seed}, late=0.1, nasty=True))
        for name, seed in (("one", 1), ("two", 1), ("other", 2))
    )

    files = [[path.read_bytes() for path in (*made.load, *made.batches)] for made in (one, two, other)]
    assert files[0] == files[1]
    assert all(mine != theirs for mine, theirs in zip(files[0], files[2], strict=True))


def test_load_files_hold_every_id_once_in_order(tmp_path: Path) -> None:
    made = generate(tmp_path, SampleFiles(**SIZE, parts=3))

    records = [record for path in made.load for record in read(path)]

    assert [path.name for path in made.load] == [f"LOAD0000000{number}.csv" for number in (1, 2, 3)]
    assert [int(record["id"]) for record in records] == list(range(1, 5001))
    assert tuple(records[0]) == ("op", *COLUMNS)
    assert {record["op"] for record in records} == {"I"}
    assert 0.65 < sum(record["note"] == "NULL" for record in records) / 5000 < 0.75
    assert any(", " in record["product_name"] and '"' in record["product_name"] for record in records)


def test_change_files_hold_the_promised_shares(tmp_path: Path) -> None:
    made = generate(tmp_path, SampleFiles(**SIZE, late=0.1, duplicates=0.05))

    for path in made.batches:
        records = read(path)
        ops = Counter(record["op"] for record in records)
        fresh = {tuple(record.values()): record for record in records}
        times = [record["updated_at"] for record in fresh.values()]
        begin = min(time for time in times if time[:10] == "2026-01-01" and time[11:13] >= f"{hour_of(path) - 1:02d}")
        assert len(records) == 4000
        assert 0.67 < ops["U"] / 4000 < 0.73
        assert 0.17 < ops["I"] / 4000 < 0.23
        assert 0.08 < ops["D"] / 4000 < 0.12
        assert len(records) - len(fresh) == 200
        assert 0.08 < sum(time < begin for time in times) / len(times) < 0.12


def hour_of(path: Path) -> int:
    return int(path.name[9:11])


def test_without_late_ones_times_rise_but_for_a_few_ties_of_one_key(tmp_path: Path) -> None:
    made = generate(tmp_path, SampleFiles(**SIZE, duplicates=0.0))

    records = [record for path in made.batches for record in read(path)]
    pairs = list(pairwise(records))
    ties = [(one, two) for one, two in pairs if one["updated_at"] == two["updated_at"]]

    assert [path.name for path in made.batches] == sorted(path.name for path in made.batches)
    assert all(one["updated_at"] <= two["updated_at"] for one, two in pairs)
    assert 10 < len(ties) < 120
    assert all(one["id"] == two["id"] for one, two in ties)


def test_inserts_bring_new_ids_and_the_rest_known_ones(tmp_path: Path) -> None:
    made = generate(tmp_path, SampleFiles(**SIZE, duplicates=0.0))

    newest = 5000
    for record in (record for path in made.batches for record in read(path)):
        if record["op"] == "I":
            newest += 1
            assert int(record["id"]) == newest
        assert 1 <= int(record["id"]) <= newest


@pytest.mark.parametrize(
    ("keys", "low", "high"),
    [("uniform", 0.0, 0.15), ("hot", 0.0, 0.15), ("recent", 0.9, 1.0), ("mixed", 0.5, 0.8)],
)
def test_keys_are_drawn_as_asked(tmp_path: Path, keys: Any, low: float, high: float) -> None:
    made = generate(tmp_path, SampleFiles(rows=100_000, batches=1, changes=5000, seed=1, keys=keys))

    ids = [int(record["id"]) for record in read(made.batches[0]) if record["op"] != "I"]

    assert low <= sum(identity > 95_000 for identity in ids) / len(ids) <= high
    assert (len(set(ids)) < 110) == (keys == "hot")


def test_chunks_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_ROWS", 700)

    made = generate(tmp_path, SampleFiles(**SIZE, duplicates=0.0))

    times = [record["updated_at"] for path in made.batches for record in read(path)]
    assert times == sorted(times)
    assert [int(record["id"]) for record in read(made.load[0])] == list(range(1, 5001))


def test_nasty_files_hold_as_many_bad_records_as_they_say(tmp_path: Path) -> None:
    plain, nasty = (generate(tmp_path / str(flag), SampleFiles(**SIZE, nasty=flag)) for flag in (False, True))

    content = b"".join(path.read_bytes() for path in nasty.batches)
    records = list(csv.reader(io.StringIO(content.decode("utf-8", "replace"), newline=""), strict=True))

    assert plain.bad == 0
    assert nasty.bad == 33
    assert len(records) == 3 * (1 + 4000) + nasty.bad
    assert content.count(b",now\n") == content.count(b"caf\xe9") == content.count(b"\nX,") == 3
    assert b"two\r\nends" in content
    assert b',"NULL",' in content


@pytest.mark.parametrize("sizes", [{"rows": 1, "parts": 3}, {"batches": 0}, {"changes": 0}, {"changes": 1}])
def test_small_sizes_are_sizes_too(tmp_path: Path, sizes: dict[str, int]) -> None:
    asked = {"parts": 1, **SIZE, **sizes}

    made = generate(tmp_path, SampleFiles(**asked))

    assert sum(len(read(path)) for path in made.load) == asked["rows"]
    assert [len(read(path)) for path in made.batches] == [asked["changes"]] * asked["batches"]


@pytest.mark.parametrize("wrong", [{"rows": 0}, {"changes": -1}, {"late": 1.5}, {"duplicates": -0.1}])
def test_sizes_that_make_no_sense_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError):
        generate(tmp_path, SampleFiles(**{**SIZE, **wrong}))


def test_the_declaration_fits_the_files() -> None:
    pipeline = Pipeline.model_validate(yaml.safe_load(sample_declaration("landing/orders")))

    (orders,) = pipeline.tables
    assert {column.name: column.type for column in orders.columns or ()} == COLUMNS
    assert orders.source.path == ("landing/orders",)
    assert [orders.mart_name(mart) for mart in orders.marts] == ["orders", "orders_history"]
