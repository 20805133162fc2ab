"""DMS files: listing, order, and the files that a run takes."""

from __future__ import annotations

import gzip
import pickle
from dataclasses import replace
from datetime import UTC, datetime
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from tests.sources.dms_files import SOURCE, T0, batch_of, ledger_of, names, put, take, take_all, what

from frazil.bronze.read import ChangedWhileReadError, duplicate, records
from frazil.sources.dms.layout import list_files
from frazil.sources.dms.source import DmsSource
from frazil.sources.ledger import Ledger
from frazil.sources.new_files import FileChangedError, NameOrderError, misordered
from frazil.spec import DmsFiles, Table

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.sources.base import NewFile


def test_full_load_comes_first_then_names_count_and_folders_and_times_do_not(tmp_path: Path) -> None:
    put(
        tmp_path,
        {"31012024/20240131-000000000.csv": b"", "LOAD0000000A.csv": b"", "LOAD00000009.csv": b""},
        at=T0 + 9,
    )
    put(
        tmp_path,
        {"01022024/20240201-000000000.csv.gz": b"", "p1/SEGMENT1_LOAD00000001.csv": b"", "load1.csv": b""},
    )
    put(tmp_path, {"LOADING.csv": b"", "a/20240131-000000000.csv": b"", "other-name.CSV": b""}, at=T0 - 9)

    listing = list_files(SOURCE, tmp_path)

    assert [(file.load, file.path) for file in listing.files] == [
        (True, "in/LOAD00000009.csv"),
        (True, "in/LOAD0000000A.csv"),
        (True, "in/p1/SEGMENT1_LOAD00000001.csv"),
        (True, "in/load1.csv"),
        (False, "in/31012024/20240131-000000000.csv"),
        (False, "in/a/20240131-000000000.csv"),
        (False, "in/01022024/20240201-000000000.csv.gz"),
        (False, "in/LOADING.csv"),
        (False, "in/other-name.CSV"),
    ]
    assert listing.files[4].position == "1/20240131-000000000.csv/in/31012024"
    assert pickle.loads(pickle.dumps(listing)) == listing  # noqa: S301 - our own


def test_files_of_cdc_path_are_transaction_files_even_below_path(tmp_path: Path) -> None:
    put(
        tmp_path,
        {"LOAD00000001.parquet": b"", "cdc/CDC_TXN-20201117153046033.csv": b"", "cdc/LOAD1.csv": b""},
    )

    listing = list_files(DmsFiles(path=("in",), format="parquet", cdc_path=("in/cdc",)), tmp_path)

    assert [(file.name, bool(file.variant), file.load) for file in listing.files] == [
        ("LOAD00000001.parquet", False, True),
        ("CDC_TXN-20201117153046033.csv", True, False),
        ("LOAD1.csv", True, False),
    ]


def test_a_second_run_takes_only_what_is_new(tmp_path: Path) -> None:
    put(tmp_path, {"LOAD00000001.csv": b"id\n1\n"})
    first = take_all(tmp_path)
    put(tmp_path, {"20240102-000000000.csv": b"op,id\nI,2\n"})
    second = take_all(tmp_path, *first.files)
    third = take_all(tmp_path, *first.files, *second.files)

    assert [names(run.files) for run in (first, second, third)] == [
        ["LOAD00000001.csv"],
        ["20240102-000000000.csv"],
        [],
    ]


def test_a_late_file_with_an_old_name_is_taken(tmp_path: Path) -> None:
    put(tmp_path, {"20240102-000000000.csv": b"op,id\nI,2\n"})
    first = take_all(tmp_path)
    put(tmp_path, {"20240101-000000000.csv": b"op,id\nI,1\n"}, at=T0 - 1000)

    assert names(take_all(tmp_path, *first.files).files) == ["20240101-000000000.csv"]


def test_a_file_that_is_removed_after_a_run_is_not_an_error(tmp_path: Path) -> None:
    put(tmp_path, {"a.csv": b"op,id\nI,2\n", "b.csv": b"op,id\nI,3\n"})
    first = take_all(tmp_path)
    (tmp_path / "in" / "a.csv").unlink()

    assert what(take_all(tmp_path, *first.files)) == ((), (), ())


def test_content_that_was_taken_before_is_a_duplicate_under_any_name(tmp_path: Path) -> None:
    put(tmp_path, {"b.csv": b"op,id\nI,2\n"})
    first = take_all(tmp_path)
    put(tmp_path, {"a.csv": b"op,id\nI,2\n", "z.csv": b"op,id\nI,9\n", "c/z.csv": b"op,id\nI,9\n"})

    second = take_all(tmp_path, *first.files)

    assert names(second.files) == ["z.csv"]
    assert [(file.path, file.same_as) for file in second.duplicates] == [
        ("in/a.csv", "in/b.csv"),
        ("in/c/z.csv", "in/z.csv"),
    ]
    assert what(take_all(tmp_path, *first.files, *second.files, *second.duplicates)) == ((), (), ())


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_same_bytes_at_two_times_of_dms_are_two_files_in_whatever_order_they_come(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    """NOTHING-LOST: of a row that came back and was deleted again two deletes look the same."""
    came = ["20240101-000000000.csv", "20240103-000000000.csv", "copies/20240101-000000000.csv", "renamed.csv"]
    known: list[NewFile] = []
    taken: list[NewFile] = []
    for number in order:
        put(tmp_path, {came[number]: b"op,id\nD,1\n"})
        found = take_all(tmp_path, *known)
        taken += found.files
        known += (*found.files, *found.duplicates)

    assert len(taken) == 2
    assert len(known) == 4


def test_a_duplicate_makes_one_ledger_row_and_no_records(tmp_path: Path) -> None:
    put(tmp_path, {"a.csv": b"op,id\nI,2\n", "b.csv": b"op,id\nI,2\n"})
    run = take_all(tmp_path)
    table = Table(name="hosts", source=SOURCE, keys=("id",))
    batch = batch_of(table, *run.files)

    [row] = duplicate(run.duplicates[0], batch).to_pylist()

    assert (row["_cdc_kind"], row["_cdc_file"], row["_cdc_row"]) == ("file", "in/b.csv", None)
    ledger = row["_cdc_ledger"]
    assert (ledger["rows"], ledger["headers"], ledger["same_as"]) == (0, 0, "in/a.csv")
    assert ledger["columns"] == [{"name": "op", "type": "string"}, {"name": "id", "type": "string"}]


def test_a_known_file_with_other_content_is_an_error_with_both_hashes(tmp_path: Path) -> None:
    put(tmp_path, {"a.csv": b"op,id\nI,2\n"})
    first = take_all(tmp_path)
    put(tmp_path, {"a.csv": b"op,id\nI,3\n"}, at=T0 + 1)

    with pytest.raises(FileChangedError) as caught:
        take_all(tmp_path, *first.files)
    assert caught.value.exit_code == 8
    assert f"in/a.csv: content changed after it was taken (sha256 {first.files[0].sha256[:12]} then" in str(
        caught.value
    )
    assert "hint" in str(caught.value)


def test_a_repeated_full_load_causes_a_warning(tmp_path: Path) -> None:
    put(tmp_path, {"LOAD00000001.csv": b"id\n1\n", "20260101-000000000.csv": b"op,id\nI,2\n"})
    first = take_all(tmp_path)
    ledger = replace(ledger_of(*first.files), places={file.path: file.position for file in first.files})
    assert first.loads_again == ()
    again = {
        "again/LOAD00000001.csv": b"id\n3\n",
        "again/LOAD00000002.csv": b"id\n4\n",
        "b/20260101-000000000.csv": b"op,id\n",
    }
    put(tmp_path, again)

    assert take(list_files(SOURCE, tmp_path), ledger).loads_again == ("in/again/LOAD00000001.csv",)

    put(tmp_path, {"LOAD00000001.csv": b"id\n5\n"}, at=T0 + 1)
    with pytest.raises(FileChangedError) as caught:
        take(list_files(SOURCE, tmp_path), ledger)
    assert "deliver the new records under a new name" not in f"{caught.value}"
    assert "a repeated full load whose earlier change files were removed" in f"{caught.value}"


@pytest.mark.parametrize(("days", "copied", "notes"), [(0, False, 0), (3, False, 1), (3, True, 0)])
def test_a_full_load_that_is_newer_than_changes_beside_it_causes_a_note(
    days: int, notes: int, tmp_path: Path, *, copied: bool
) -> None:
    named = datetime(2026, 1, 2, tzinfo=UTC).timestamp()
    put(tmp_path, {"20260102-000000000.csv": b"op,id\nU,1\n"}, at=named + 86_400 * 100 * copied)
    put(tmp_path, {"LOAD00000001.csv": b"id\n1\n"}, at=named + 86_400 * (days + 100 * copied))

    found = DmsSource(Table(name="hosts", source=SOURCE, keys=("id",))).find_new(tmp_path, Ledger())

    assert len(found.notes) == notes
    assert all("LOAD00000001.csv is a full load, and its file is newer than in/2026" in note for note in found.notes)


def test_a_known_file_that_was_only_touched_is_fine(tmp_path: Path) -> None:
    put(tmp_path, {"a.csv": b"op,id\nI,2\n"})
    first = take_all(tmp_path)
    put(tmp_path, {"a.csv": b"op,id\nI,2\n"}, at=T0 + 1)

    ledger = ledger_of(*first.files)
    second = take(list_files(SOURCE, tmp_path), ledger)

    assert what(second) == ((), (), ())
    assert ledger.files["in/a.csv"].modified_ns == (T0 + 1) * 10**9


@pytest.mark.parametrize(
    ("name", "content", "reason", "broken"),
    [
        ("a.csv", b"op,id\nI,2", "no line end at its end", None),
        ("a.csv", b"", "no line end at its end", None),
        ("a.csv.gz", gzip.compress(b"op,id\nI,2", mtime=0), "no line end at its end", None),
        (
            "a.csv.gz",
            gzip.compress(b"op,id\nI,2\n", mtime=0)[:-3],
            "the gzip breaks off",
            "unreadable: Compressed file ended",
        ),
        (
            "a.parquet",
            b"PAR1 and then nothing",
            "no sound Parquet footer",
            "unreadable: Parquet magic bytes not",
        ),
    ],
)
def test_a_file_that_breaks_off_waits_until_it_has_settled(
    tmp_path: Path, name: str, content: bytes, reason: str, broken: str | None
) -> None:
    put(tmp_path, {name: content})
    source = SOURCE.model_copy(update={"format": "parquet" if "parquet" in name else "csv"})

    young, settled = (take_all(tmp_path, now=T0 + age, source=source) for age in (59, 61))

    assert what(young) == ((), (), ((f"in/{name}", reason),))
    [file] = settled.files
    assert bool(file.broken) == bool(broken)
    assert (file.broken or "").startswith(broken or "")


def test_a_file_that_cannot_be_opened_waits(tmp_path: Path) -> None:
    put(tmp_path, {"a.csv": b"op,id\nI,2\n", "b.csv": b"op,id\nI,3\n"})
    listing = list_files(SOURCE, tmp_path)
    (tmp_path / "in" / "a.csv").unlink()

    run = take(listing, Ledger())

    assert (names(run.files), run.deferred) == (
        ["b.csv"],
        (("in/a.csv", "cannot be read: No such file or directory"),),
    )


def test_a_file_that_grew_since_it_was_listed_waits(tmp_path: Path) -> None:
    put(tmp_path, {"a.csv": b"op,id\nI,2\n"})
    listing = list_files(SOURCE, tmp_path)
    put(tmp_path, {"a.csv": b"op,id\nI,2\nI,3\n"})

    assert what(take(listing, Ledger())) == ((), (), (("in/a.csv", "changes while it is read"),))


@pytest.mark.parametrize("change", ["grow", "remove"])
def test_a_file_that_changes_after_it_was_taken_stops_the_reading(tmp_path: Path, change: str) -> None:
    put(tmp_path, {"a.csv": b"op,id\nI,2\n"})
    [file] = take_all(tmp_path).files
    table = Table(name="hosts", source=SOURCE, keys=("id",))
    batch = batch_of(table, file)
    reading = records(file, batch)
    next(reading)
    if change == "grow":
        put(tmp_path, {"a.csv": b"op,id\nI,2\nI,3\n"})
    else:
        (tmp_path / "in" / "a.csv").unlink()

    with pytest.raises(ChangedWhileReadError, match=r"in/a\.csv"):
        list(reading)


def test_a_file_that_breaks_without_a_sign_stops_the_reading(tmp_path: Path) -> None:
    put(tmp_path, {"a.csv.gz": gzip.compress(b"op,id\nI,2\n", mtime=0)})
    [file] = take_all(tmp_path).files
    batch = batch_of(Table(name="hosts", source=SOURCE, keys=("id",)), file)
    put(tmp_path, {"a.csv.gz": b"x" * file.size_bytes})

    with pytest.raises(ChangedWhileReadError, match="became unreadable"):
        list(records(file, batch))


def test_names_whose_numbers_order_files_otherwise_are_refused(tmp_path: Path) -> None:
    put(tmp_path, {"changes_9.csv": b"op,id\nI,1\n"})
    source = DmsSource(Table(name="hosts", source=SOURCE, keys=("id",)))
    first = source.find_new(tmp_path, Ledger())
    ledger = replace(ledger_of(*first.files), places={file.path: file.position for file in first.files})
    put(tmp_path, {"changes_10.csv": b"op,id\nD,1\n"})

    with pytest.raises(NameOrderError, match=r"changes_10\.csv comes before changes_9\.csv"):
        source.find_new(tmp_path, ledger)

    timed = DmsSource(Table(name="hosts", source=SOURCE, keys=("id",), sequence_by=("at",)))
    assert names(timed.find_new(tmp_path, ledger).files) == ["changes_10.csv"]


@pytest.mark.parametrize(
    "names",
    [
        ("20240101-000000000.csv", "20240103-000000000.csv"),
        ("orders_09", "orders_10"),
        ("part-3f9.csv", "part-3f10.csv"),
        ("a9", "b10"),
        ("2024-01-09T10", "2024-01-10T9"),
        ("orders_9", "orders_9"),
    ],
)
def test_other_names_are_in_order(names: tuple[str, str]) -> None:
    assert misordered(names) is None


@pytest.mark.parametrize(
    "names", [("9.csv", "10.csv"), ("page9", "page10"), ("2024-1-9", "2024-1-10"), ("v1.9", "v1.10")]
)
def test_such_names_are_not(names: tuple[str, str]) -> None:
    assert misordered(names) == (names[1], names[0])
