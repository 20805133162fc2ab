"""Before images that are records of their own in files, and the text for values that were not logged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.sources.before_images import BeforeImages, classes_of, said_by, words_of
from frazil.sources.dms.source import DmsSource
from frazil.sources.ledger import Ledger
from frazil.spec import Column, DmsFiles, Table

if TYPE_CHECKING:
    from pathlib import Path

QLIK = "header__change_oper"


def read(
    folder: Path, *, block_bytes: int | None = None, columns: tuple[Column, ...] | None = None, **settings: Any
) -> tuple[list[Any], int, list[Any]]:
    """Return the records of the change files in a folder, how many were left out, and the fields that each carries."""
    source = DmsSource(Table(name="t", source=DmsFiles(path=("landing",), **settings), keys=("id",), columns=columns))
    files = source.find_new(folder, Ledger()).files
    names, foreign = source.columns(files, ()), 0
    rows: list[Any] = []
    known: list[Any] = []
    for file in files:
        opened = source.read(file, names, **({"block_bytes": block_bytes} if block_bytes else {}))
        for parsed in opened.reader:
            some = {name: parsed.fields[name].to_pylist() for name in names if name in parsed.fields}
            rows += [dict(zip(some, values, strict=True)) for values in zip(*some.values(), strict=True)]
            known += [None] * len(parsed.rows) if parsed.known is None else parsed.known.to_pylist()
            foreign += parsed.foreign
    return rows, foreign, known


def write(folder: Path, text: str, name: str = "20260101-000000001.csv") -> None:
    (folder / "landing").mkdir(exist_ok=True)
    (folder / "landing" / name).write_text(text)


CHANGES = "U,1,b\nB,1,b\nU,2,b\nB,2,b\nU,2,c\nD,2,c\n"
KEPT = [("U", "1", None), ("U", "2", "1"), ("U", "2", "2"), ("D", "2", None)]


def told(rows: list[Any]) -> list[Any]:
    return [(row[QLIK], row["id"], row.get("__before_id")) for row in rows]


@pytest.mark.parametrize("form", ["header", "fields", "parquet"])
def test_a_before_image_is_left_out_and_the_update_behind_it_has_its_key(tmp_path: Path, form: str) -> None:
    """KEY-CHANGE."""
    settings: dict[str, Any] = {"header": True}
    if form == "parquet":
        rows = [line.split(",") for line in CHANGES.splitlines()]
        (tmp_path / "landing").mkdir()
        table = pa.table(dict(zip((QLIK, "id", "n"), zip(*rows, strict=True), strict=True)))
        pq.write_table(table, tmp_path / "landing" / "20260101-000000001.parquet")
        settings = {"format": "parquet"}
    elif form == "fields":
        write(tmp_path, CHANGES)
        settings = {"header": False, "fields": ("id", "n")}
    else:
        write(tmp_path, f"{QLIK},id,n\n{CHANGES}")

    rows, foreign, _ = read(tmp_path, op=QLIK, **settings)

    assert (told(rows), foreign) == (KEPT, 2)


def test_blocks_do_not_part_an_update_from_its_image(tmp_path: Path) -> None:
    write(tmp_path, f"{QLIK},id,n\n{CHANGES}")

    found = [told(read(tmp_path, block_bytes=size, op=QLIK, header=True)[0]) for size in range(8, 40)]

    assert found == [KEPT] * len(found)


def test_an_image_at_the_end_of_a_file_is_shown_because_its_update_is_not_there(tmp_path: Path) -> None:
    """LOUD: as an unknown op it goes to quarantine."""
    write(tmp_path, f"{QLIK},id,n\nU,1,a\nB,1,a\n")

    rows, foreign, _ = read(tmp_path, op=QLIK, header=True)

    assert (told(rows), foreign) == ([("U", "1", None), ("B", "1", None)], 0)


def test_an_image_gives_no_key_across_a_record_that_cannot_be_read(tmp_path: Path) -> None:
    """KEY-CHANGE: the record between may be its update."""
    write(tmp_path, f"{QLIK},id,n\nB,1,a\nU,too,many,fields\nU,3,c\n")

    rows, foreign, _ = read(tmp_path, op=QLIK, header=True)

    assert (told(rows), foreign) == ([("U", "3", None)], 1)


def test_images_of_keys_with_an_expr_are_shown(tmp_path: Path) -> None:
    """LOUD: a change of such a key could not be seen; the images go to quarantine as an unknown op."""
    write(tmp_path, f"{QLIK},id,n\nB,1,a\nU,2,a\n")

    rows, foreign, _ = read(tmp_path, op=QLIK, header=True, columns=(Column(name="id", expr="upper(n)"),))

    assert (told(rows), foreign) == ([("B", "1", None), ("U", "2", None)], 0)


def test_files_of_amazon_dms_have_no_such_records(tmp_path: Path) -> None:
    write(tmp_path, "Op,id,n\nU,1,a\nB,1,a\nU,2,a\n")

    rows, foreign, _ = read(tmp_path, header=True)

    assert ([row["op"] for row in rows], foreign) == (["U", "B", "U"], 0)


def test_words_are_those_of_the_field_that_has_them() -> None:
    assert classes_of("__$operation") == {"1": "delete", "2": "upsert", "4": "upsert", "5": "upsert"}
    assert (said_by("code", "3"), said_by("__$operation", "3")) == ("3", "before image")
    assert words_of("op") == words_of("header__operation") == {}


@pytest.mark.parametrize("op", ["op", QLIK, "change_oper", "__$operation", "_change_type", "header__operation"])
def test_old_keys_are_known_where_images_are(op: str) -> None:
    """ERASE: personal data in keys is treated in old keys, too."""
    source = DmsFiles(path=("landing",), op=op)

    assert (source.before_prefix is not None) == ("before image" in words_of(op).values())
    assert source.is_bookkeeping("__before_id") == (source.before_prefix is not None)


def test_an_empty_block_is_read() -> None:
    images = BeforeImages(op="op", words=words_of(QLIK), keys={})

    assert len(images.among({"op": pa.array([], pa.string())}, [], is_last=True)) == 0


def test_a_text_for_missing_values_is_left_out(tmp_path: Path) -> None:
    """MISSING-IS-NOT-NULL."""
    write(tmp_path, 'Op,id,n,m\nU,1,-,5\nU,2,,"-"\nU,3,a,-b\n')
    write(tmp_path, "Op,id,n,m\nI,4,-,5\n", "LOAD00000001.csv")

    rows, _, known = read(tmp_path, header=True, csv_no_sup_value="-")

    assert [(row["n"], row["m"]) for row in rows] == [("-", "5"), (None, "5"), (None, None), ("a", "-b")]
    assert known == [None, ["op", "id", "m"], ["op", "id", "n"], None]
