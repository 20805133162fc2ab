"""Fields of DMS files, and other files in the folder."""

from __future__ import annotations

import gzip
import hashlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.sources.dms_files import SOURCE, put, take_all

from frazil.errors import FrazilError
from frazil.formats.records import DuplicateFieldsError
from frazil.sources.base import Listing
from frazil.sources.dms.layout import HeaderError, OtherFieldsError, list_files
from frazil.sources.dms.source import DmsSource
from frazil.spec import Column, DmsFiles, Table
from frazil.storage.base import MissingFolderError

if TYPE_CHECKING:
    from pathlib import Path


def test_the_layout_of_a_file_is_read_from_its_header(tmp_path: Path) -> None:
    put(tmp_path, {"a.csv": b'\n OP,"Id","a ""b"", c",_file,_CDC_x,,x\x01\nI,1,2,3,4,5,6\n'})

    [file] = take_all(tmp_path, source=SOURCE.model_copy(update={"op": " Op"})).files

    assert [name for name, _ in file.columns] == [
        " Op",
        "Id",
        'a "b", c',
        "source_file",
        "source_CDC_x",
        "unnamed",
        "x_",
    ]
    assert {kind for _, kind in file.columns} == {"string"}


@pytest.mark.parametrize(
    ("content", "broken"),
    [
        (b'op,"id\nI,1\n', "unreadable: header, open_quote: to the end of the file"),
        (b"op,i\xffd\nI,1\n", "encoding: header, invalid UTF-8 at byte 5"),
        ("op,id\nI,1\n".encode("utf-16"), "encoding: UTF-16, not UTF-8"),
    ],
)
def test_a_file_whose_header_cannot_be_read_is_broken(tmp_path: Path, content: bytes, broken: str) -> None:
    put(tmp_path, {"a.csv": content})

    [file] = take_all(tmp_path).files

    assert (file.broken, file.columns) == (broken, ())


def test_fields_named_alike_stop_the_run(tmp_path: Path) -> None:
    put(tmp_path, {"a.csv": b"op,id,Id\nI,1,1\n"})

    with pytest.raises(DuplicateFieldsError) as caught:
        take_all(tmp_path)
    assert (caught.value.code, caught.value.exit_code) == ("FZ501", 6)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_fields_named_alike_get_names_in_the_declaration(tmp_path: Path, kind: Literal["csv", "parquet"]) -> None:
    put(tmp_path, {f"a.{kind}": b"Op,id,ID,op\nI,1,x,buy\n"})
    if kind == "parquet":
        rows = pa.table([["I"], ["1"], ["x"], ["buy"]], names=["Op", "id", "ID", "op"])
        pq.write_table(rows, tmp_path / "in" / "a.parquet")
    source = DmsFiles(path=("in",), format=kind, header=kind == "csv", names={"ID": "id_2", "op": "action"})
    table = Table(name="t", source=source, keys=("id",))

    [file] = take_all(tmp_path, now=9e9, source=source).files
    columns = DmsSource(table).columns([file], ())
    [read] = DmsSource(table).read(replace(file, uri=str(tmp_path / "in" / f"a.{kind}")), columns).reader

    assert columns == ("op", "id", "id_2", "action")
    assert {name: values.to_pylist() for name, values in read.fields.items()} == {
        "op": ["I"],
        "id": ["1"],
        "id_2": ["x"],
        "action": ["buy"],
    }


def test_files_without_a_dropped_column_have_a_layout_of_their_own(tmp_path: Path) -> None:
    """MISSING-IS-NOT-NULL: the column is not carried by the records of such files."""
    put(tmp_path, {"LOAD1.csv": b"1,a,10\n", "20240302-101500123.csv": b"U,1,11\n", "20240303-1.csv": b"I,3,c,30\n"})
    fields = ("id", "name", "n")
    source = DmsFiles(path=("in",), fields=fields, other_fields=(("id", "n"),))
    table = Table(name="t", source=source, keys=("id",), columns=tuple(Column(name=name) for name in fields))

    files = take_all(tmp_path, source=source).files
    mine = DmsSource(table)
    columns = mine.columns(files, ())
    read = [mine.read(replace(file, uri=str(tmp_path / "in" / file.name)), columns) for file in files]
    rows = [{name: values[0].as_py() for name, values in next(iter(one.reader)).fields.items()} for one in read]

    assert columns == ("op", "id", "name", "n")
    assert rows == [
        {"id": "1", "name": "a", "n": "10"},
        {"op": "U", "id": "1", "n": "11"},
        {"op": "I", "id": "3", "name": "c", "n": "30"},
    ]
    assert [one.known for one in read] == [None, ["id", "n", "op"], None]


@pytest.mark.parametrize(
    ("content", "refused"),
    [
        (b"U,1,11\nI,3,30\n", "have 3 fields, the declaration names 4 with the op: id, name, n"),
        (b"U,1,a,11,web\nI,3,c,30,web\n", "have 5 fields"),
        (b"U,1,11\n", None),
        (b"U,1,11\nI,3,c,30\n", None),
        (b"U,1\nI,3\n", None),
        (b"x\ny\n", None),
        (b"", None),
    ],
    ids=["dropped", "added", "one may be bad", "some are right", "another list", "lines of text", "empty"],
)
def test_records_that_agree_in_another_number_of_fields_stop_their_table(
    tmp_path: Path, content: bytes, refused: str | None
) -> None:
    """LOUD: small batches have no limit of bad records, so a table would stand still, with exit 0."""
    put(tmp_path, {"LOAD1.csv": b"1,a,10\n2,b,20\n", "20240302-1.csv": content})
    source = DmsFiles(path=("in",), header=False, fields=("id", "name", "n"), other_fields=(("id",),))

    if refused is None:
        assert len(take_all(tmp_path, source=source).files) == 2
        return
    with pytest.raises(OtherFieldsError, match=refused) as stopped:
        take_all(tmp_path, source=source)
    assert "other_fields" in str(stopped.value.hint)


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_files_have_the_declared_encoding(tmp_path: Path, ending: str) -> None:
    """NOTHING-LOST: a byte that is no sign of it makes one bad record."""
    text = "Op,id,größe\nI,1,50 € für Ärger\n".encode("cp1252") + b"I,2,\x81\n" + b"I,3,plain\n"
    put(tmp_path, {f"a.{ending}": gzip.compress(text) if ending.endswith("gz") else text})
    source = DmsFiles(path=("in",), header=True, encoding="CP1252")
    mine = DmsSource(Table(name="t", source=source, keys=("id",)))

    [file] = take_all(tmp_path, source=source).files
    columns = mine.columns([file], ())
    reader = mine.read(replace(file, uri=str(tmp_path / "in" / f"a.{ending}")), columns).reader
    read = [*reader]

    assert columns == ("op", "id", "größe")
    assert [values for one in read for values in one.fields["größe"].to_pylist()] == ["50 € für Ärger", "plain"]
    assert [(bad.row, bad.reason.partition(":")[0], bad.raw) for one in read for bad in one.bad] == [
        (2, "encoding", b"I,2,\x81")
    ]
    assert mine.recount(str(tmp_path / "in" / f"a.{ending}")) == len(text.splitlines())
    recoded = text.decode("cp1252", "surrogateescape").encode("utf-8", "surrogateescape")
    assert reader.form()["content_sha256"] == hashlib.sha256(recoded).hexdigest()


def test_a_parquet_file_tells_its_columns_and_types(tmp_path: Path) -> None:
    put(tmp_path, {"a.parquet": b""})
    pq.write_table(pa.table({"Op": ["I"], "id": pa.array([1], pa.int32())}), tmp_path / "in" / "a.parquet")

    [file] = take_all(tmp_path, now=9e9, source=DmsFiles(path=("in",), format="parquet")).files

    assert file.columns == (("op", "string"), ("id", "int"))


def test_a_missing_folder_names_itself_and_the_declaration(tmp_path: Path) -> None:
    with pytest.raises(MissingFolderError) as caught:
        list_files(SOURCE, tmp_path)
    assert isinstance(caught.value, FrazilError)
    assert (caught.value.code, caught.value.exit_code) == ("FZ201", 3)
    assert str(tmp_path / "in") in str(caught.value)
    assert "given as 'in'" in str(caught.value)


def test_new_columns_follow_the_columns_there_are(tmp_path: Path) -> None:
    put(tmp_path, {"LOAD1.csv": b"ID,b\n1,2\n", "a.csv": b"c,OP,id\n1,I,2\n"})
    table = Table(name="t", source=SOURCE, keys=("id",), columns=(Column(name="id"),))

    fresh = DmsSource(table).columns(take_all(tmp_path).files, ())
    later = DmsSource(table).columns(take_all(tmp_path).files, ("id", "op", "x"))

    assert fresh == ("op", "ID", "b", "c")
    assert later == ("id", "op", "x", "b", "c")
    assert Listing(()) == Listing((), ())


@pytest.mark.parametrize("first", ["U,1,n1b", "1,ada,2026-01-01", "I,2024-01-01 10:00:00,7"])
def test_a_file_that_should_have_a_header_and_begins_with_a_record_is_refused(tmp_path: Path, first: str) -> None:
    """Its first record would be gone: no change, not in quarantine, not counted."""
    put(tmp_path, {"a.csv": b"op,id,name\nI,1,ada\n", "b.csv": f"{first}\nD,3,x\n".encode()})

    with pytest.raises(HeaderError, match=f"first record of in/b.csv .* looks like values: {first.replace(',', ', ')}"):
        take_all(tmp_path)


def test_an_empty_file_adds_no_columns(tmp_path: Path) -> None:
    put(tmp_path, {"a.csv": b"", "b.csv": b"op,id\nI,1\n"})
    table = Table(name="t", source=SOURCE, keys=("id",), columns=(Column(name="id"), Column(name="later")))

    assert DmsSource(table).columns(take_all(tmp_path).files, ()) == ("op", "id")


def test_files_of_another_kind_are_named_with_the_reason(tmp_path: Path) -> None:
    names = ["a.csv", "b.CSV.gz", "c.csv.bz2", "d.zip", "e.parquet", "f.json", ".hidden.zip", "_x", "g.csv.tmp"]
    for name in names:
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_bytes(b"op,id\n")

    csv = list_files(DmsFiles(path=("in",)), tmp_path)
    parquet = list_files(DmsFiles(path=("in",), format="parquet"), tmp_path)
    both = list_files(DmsFiles(path=("in",), format="parquet", cdc_path=("in",)), tmp_path)

    assert [file.name for file in csv.files] == ["a.csv", "b.CSV.gz"]
    assert dict(csv.passed) == {
        "in/c.csv.bz2": "packed as bz2; of packed files only .csv.gz is read",
        "in/d.zip": "packed as zip; of packed files only .csv.gz is read",
        "in/e.parquet": "not .csv or .csv.gz; the source says format: csv",
        "in/f.json": "not .csv or .csv.gz",
    }
    assert dict(parquet.passed)["in/a.csv"] == "not .parquet; the source says format: parquet"
    assert sorted(dict(both.passed)) == ["in/c.csv.bz2", "in/d.zip", "in/f.json"]


def test_a_name_outside_utf8_can_be_shown_among_passed_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with open(os.fsencode(tmp_path / "in") + b"/\xff.zip", "wb"):  # noqa: PTH123 - no Path has such a name
        pass

    [(path, _)] = list_files(DmsFiles(path=("in",)), tmp_path).passed

    assert path == "in/\\xff.zip"
