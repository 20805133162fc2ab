"""Landing files of PostgreSQL lose the records of erased keys; the places, and all other records, stay."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.bronze.read import Batch, records
from frazil.sources.capture import EmptiesRecords
from frazil.sources.kinds import source_of
from frazil.sources.ledger import KnownFile, Ledger
from frazil.sources.new_files import FileChangedError
from frazil.sources.postgres.landed.files import schema_of
from frazil.sources.postgres.reload import known_and_gone
from frazil.spec import Postgres, Table

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.sources.base import NewFile

TABLE = Table(name="people", source=Postgres(url="postgresql://x", table="people", landing="landing"), keys=("email",))
COLUMNS = ("email", "city")
ROWS: list[tuple[str, str | None, str, str]] = [
    ("r", None, "ann@example.org", "Oslo"),
    ("r", None, "bob@example.org", "Rome"),
    ("u", "bob@example.org", "bo@example.org", "Rome"),
    ("r", None, "cyd@example.org", "Bergen"),
]
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PLACES = [f"0000000000000001-{row:010}" for row in range(4)]


def land(folder: Path, name: str = "load-0000000000000001/000001.parquet") -> Path:
    schema = schema_of(COLUMNS, [(25, -1), (25, -1)], [0], start="1")
    values: dict[str, list[Any]] = {
        "__op": [op for op, *_ in ROWS],
        "__position": PLACES,
        "__committed_at": ["2026-01-01 00:00:00"] * 4,
        "__xid": ["7"] * 4,
        "__unchanged": [None, '["city"]', None, None],
        "__old_email": [old for _, old, *_ in ROWS],
        "email": [email for *_, email, _ in ROWS],
        "city": [city for *_, city in ROWS],
    }
    path = folder / "landing" / "public.people" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(values, schema=schema), path)
    return path


def listed(folder: Path, ledger: Ledger | None = None) -> tuple[NewFile, ...]:
    return source_of(TABLE).find_new(folder, ledger or Ledger()).files


def known(file: NewFile) -> Ledger:
    one = KnownFile(size_bytes=file.size_bytes, modified_ns=file.modified_ns, sha256=file.sha256)
    return Ledger(files={file.path: one})


def read(folder: Path) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    source = source_of(TABLE)
    [file] = listed(folder)
    batch = Batch(source=source, columns=source.columns([file], ()), number=1, arrived_at=NOW)
    rows = [row for some in records(file, batch) for row in some.to_pylist()]
    good = [(row["_cdc_row"], row["email"], row["city"]) for row in rows if row["email"]]
    [line] = [row["_cdc_ledger"] for row in rows if row["_cdc_ledger"]]
    return good, line


@pytest.mark.parametrize("name", ["load-0000000000000001/000001.parquet", "00-01-000001.parquet"])
def test_the_others_are_read_as_before_at_their_rows(tmp_path: Path, name: str) -> None:
    path, source = land(tmp_path, name), source_of(TABLE)
    before, _ = read(tmp_path)
    [file] = listed(tmp_path)
    typed = source.named_fields(file)
    assert isinstance(source, EmptiesRecords)
    assert not source.is_emptied(path, [2, 3])

    source.empty(path, [2, 3], file.sha256)

    after, line = read(tmp_path)
    assert after == [before[0], before[3]]
    assert [row for row, *_ in after] == [1, 4]
    assert (line["rows"], line["bad"], line["foreign"], source.recount(f"{path}")) == (2, 0, 2, 4)
    assert source.named_fields(listed(tmp_path)[0]) == typed
    assert source.is_emptied(path, [2, 3])
    assert not source.is_emptied(path, [1, 2])
    kept = pq.read_table(path).to_pylist()
    assert [row["__op"] for row in kept] == ["r", "erased", "erased", "r"]
    assert {value for row in kept[1:3] for value in row.values()} == {"erased", None, *PLACES[1:3]}
    assert not any(word in path.read_bytes() for word in (b"bob@", b"bo@", b"Rome"))
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert [one.name for one in (tmp_path / "landing").iterdir()] == ["public.people"]


def test_a_file_is_known_before_the_ledger_has_its_new_hash_and_any_other_change_is_seen(tmp_path: Path) -> None:
    path, source = land(tmp_path), source_of(TABLE)
    assert isinstance(source, EmptiesRecords)
    [file] = listed(tmp_path)
    ledger = known(file)

    source.empty(path, [2], file.sha256)
    assert listed(tmp_path, ledger) == ()
    # Killed once more before the ledger knew.
    source.empty(path, [3], file.sha256)
    assert listed(tmp_path, ledger) == ()
    [now] = listed(tmp_path)
    assert listed(tmp_path, known(now)) == ()

    land(tmp_path)
    with pytest.raises(FileChangedError):
        listed(tmp_path, known(now))
    path.write_bytes(b"no Parquet")
    with pytest.raises(FileChangedError):
        listed(tmp_path, known(now))


def test_a_read_again_still_knows_all_other_keys(tmp_path: Path) -> None:
    path, source = land(tmp_path), source_of(TABLE)
    assert isinstance(source, EmptiesRecords)
    folder, nothing = tmp_path / "landing" / "public.people", tmp_path / "nothing"
    assert known_and_gone(folder, nothing, ["email"]) == (3, 3)

    source.empty(path, [2, 3], "")

    assert known_and_gone(folder, nothing, ["email"]) == (2, 2)
