"""Finding files: what is taken, what is passed over, what is refused."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest

from frazil.sources.base import stored_path
from frazil.storage.base import Found, MissingFolderError, Refused, UnknownStoreError
from frazil.storage.files import find, sha256_of, storage_of

if TYPE_CHECKING:
    from pathlib import Path

CSV = (".csv",)


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")


def found(declared: str, folder: Path) -> list[str]:
    return sorted(
        os.path.relpath(entry.uri, folder) for entry in find(declared, folder, CSV) if isinstance(entry, Found)
    )


def refused(declared: str, folder: Path) -> dict[str, str]:
    entries = find(declared, folder, CSV)
    return {os.path.relpath(entry.uri, folder): entry.reason for entry in entries if isinstance(entry, Refused)}


def test_hidden_temporary_and_other_names_are_passed_over(tmp_path: Path) -> None:
    touch(tmp_path, "in/a.csv", "in/.b.csv", "in/_c.csv", "in/d.csv.tmp", "in/e.csv._COPYING_", "in/f.csv.part")
    touch(
        tmp_path,
        "in/g.csv.crc",
        "in/readme.md",
        "in/_temporary/h.csv",
        "in/.hidden/i.csv",
        "in/deep/er/j.csv",
    )

    assert found("in", tmp_path) == ["in/a.csv", "in/deep/er/j.csv"]
    assert refused("in", tmp_path) == {}


def test_a_path_is_a_folder_a_file_or_a_pattern(tmp_path: Path) -> None:
    touch(tmp_path, "in/a.csv", "in/x/b.csv", "in/y/b.csv", "in/[i].csv", "in/.z/b.csv")

    assert found("in/a.csv", tmp_path) == ["in/a.csv"]
    assert found(str(tmp_path / "in" / "x"), tmp_path / "elsewhere") == ["../in/x/b.csv"]
    assert found("in/*/b.csv", tmp_path) == ["in/x/b.csv", "in/y/b.csv"]
    assert found("i?", tmp_path) == ["in/[i].csv", "in/a.csv", "in/x/b.csv", "in/y/b.csv"]
    assert found("in/**/b.csv", tmp_path) == ["in/x/b.csv", "in/y/b.csv"]
    assert found("in/[i].csv", tmp_path) == ["in/[i].csv"]
    assert found("in/none*", tmp_path) == []


def test_a_folder_with_signs_of_a_pattern_in_its_name_is_itself(tmp_path: Path) -> None:
    touch(tmp_path, "[a]/in/a.csv", "a/in/b.csv")

    assert found("in/*.csv", tmp_path / "[a]") == ["in/a.csv"]


@pytest.mark.parametrize("declared", ["nowhere", "nowhere/a.csv"])
def test_a_path_that_is_not_there_is_an_error(tmp_path: Path, declared: str) -> None:
    with pytest.raises(MissingFolderError, match="nowhere"):
        found(declared, tmp_path)


def test_an_unreadable_store_is_not_tried_again(tmp_path: Path) -> None:
    with pytest.raises(UnknownStoreError, match=r"hdfs://.* cannot be read") as caught:
        found("hdfs://host/folder", tmp_path)

    assert not caught.value.retryable


def test_links_do_not_lead_out_of_the_declared_folder(tmp_path: Path) -> None:
    touch(tmp_path, "in/a.csv", "in/deep/b.csv", "out/secret.csv")
    (tmp_path / "in/out.csv").symlink_to(tmp_path / "out/secret.csv")
    (tmp_path / "in/out").symlink_to(tmp_path / "out")
    (tmp_path / "in/again").symlink_to(tmp_path / "in")
    (tmp_path / "in/same.csv").symlink_to(tmp_path / "in/a.csv")
    (tmp_path / "in/deep/up").symlink_to(tmp_path / "in")
    (tmp_path / "in/gone.csv").symlink_to(tmp_path / "in/nothing")
    (tmp_path / "alias").symlink_to(tmp_path / "in")

    for declared in ("in", "in/*", "alias"):
        top = declared.removesuffix("/*")
        leads_out = "a link that leads out of the declared folder"
        assert found(declared, tmp_path) == [f"{top}/a.csv", f"{top}/deep/b.csv", f"{top}/same.csv"]
        assert refused(declared, tmp_path) == {
            f"{top}/out.csv": leads_out,
            f"{top}/out": leads_out,
            f"{top}/gone.csv": "a link that leads nowhere",
        }


def test_a_pattern_does_not_go_through_links_either(tmp_path: Path) -> None:
    touch(tmp_path, "in/x/a.csv", "out/x/a.csv")
    (tmp_path / "in/x/up").symlink_to(tmp_path / "in")
    (tmp_path / "in/out").symlink_to(tmp_path / "out")

    assert found("in/**/a.csv", tmp_path) == ["in/x/a.csv"]
    assert set(refused("in/*/x/a.csv", tmp_path)) == {"in/out/x/a.csv"}


def test_pipes_and_names_that_are_not_text_are_refused(tmp_path: Path) -> None:
    touch(tmp_path, "in/a.csv")
    os.mkfifo(tmp_path / "in/pipe.csv")
    os.close(os.open(os.fsencode(tmp_path) + b"/in/\xff.csv", os.O_CREAT))

    assert found("in", tmp_path) == ["in/a.csv"]
    assert refused("in", tmp_path) == {
        "in/pipe.csv": "not a regular file",
        "in/\\xff.csv": "its name is not UTF-8",
    }


def test_ten_thousand_files_are_all_found(tmp_path: Path) -> None:
    touch(tmp_path, "in/0.csv")
    for number in range(1, 10_000):
        os.close(os.open(tmp_path / "in" / f"{number}.csv", os.O_CREAT))

    assert len(found("in", tmp_path)) == 10_000


def test_a_path_is_stored_relative_to_the_declaration_or_whole(tmp_path: Path) -> None:
    assert stored_path(str(tmp_path / "in" / "a.csv"), tmp_path) == "in/a.csv"
    assert stored_path(str(tmp_path) + "2/a.csv", tmp_path) == f"{tmp_path}2/a.csv"


def test_a_file_that_is_replaced_has_another_etag_though_size_and_time_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"1")
    storage = storage_of(f"{file}")
    before = storage.stat(f"{file}")

    (tmp_path / "new.csv").write_bytes(b"2")
    (tmp_path / "new.csv").replace(file)
    os.utime(file, ns=(before.modified_ns, before.modified_ns))
    after = storage.stat(f"{file}")

    assert (after.size_bytes, after.modified_ns) == (before.size_bytes, before.modified_ns)
    assert after.etag != before.etag


def test_listing_and_looking_say_the_same(tmp_path: Path) -> None:
    touch(tmp_path, "in/a.csv")

    (listed,) = find("in", tmp_path, CSV)

    assert listed == storage_of(listed.uri).stat(listed.uri)
    with storage_of(listed.uri).open(listed.uri) as raw:
        assert raw.read() == b"x"


def test_the_hash_covers_the_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc" * 1_000_000)

    assert sha256_of(str(tmp_path / "a")) == hashlib.sha256(b"abc" * 1_000_000).hexdigest()
