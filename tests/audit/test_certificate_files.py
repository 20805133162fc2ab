"""Certificates as files, and the snapshots that they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from frazil.audit.certificates import CertificateStore, _others, certificate_key
from frazil.audit.hashes import TableHistory
from frazil.errors import DeclarationError
from frazil.spec import DmsFiles, Lake, Pipeline, Table

if TYPE_CHECKING:
    from pathlib import Path


def pipeline(folder: Path, **settings: Any) -> Pipeline:
    table = Table(name="t", source=DmsFiles(path=("landing",)), keys=("id",))
    return Pipeline(pipeline="shop/../x", lake=Lake(warehouse="lake"), tables=(table,), **settings).at(folder)


def store(folder: Path) -> CertificateStore:
    found = CertificateStore.of(pipeline(folder))
    assert found is not None
    return found


def test_a_certificate_is_known_by_number_and_hash_and_the_newest_is_the_last(tmp_path: Path) -> None:
    certificates = store(tmp_path)
    assert certificates.newest() is None

    digests = [certificates.write({"number": number, "act": "run"}, b"") for number in (1, 2, 10)]

    assert [(one.number, one.digest) for one in certificates.all()] == [*zip((1, 2, 10), digests, strict=True)]
    assert all(one.is_whole and not one.is_sealed for one in certificates.all())
    newest = certificates.newest()
    assert newest is not None
    assert newest.content == {"number": 10, "act": "run"}
    assert [path.name for path in (tmp_path / "lake" / ".frazil" / "certificates").iterdir()] == ["shop%2F..%2Fx"]


@pytest.mark.parametrize("bytes_there", [b"", b"[]", b"{", b'{"number":1,"act":"erase"}', b'{"act":"run","number":2}'])
def test_a_changed_certificate_file_is_not_whole(tmp_path: Path, bytes_there: bytes) -> None:
    store(tmp_path).write({"number": 1, "act": "run"}, b"")
    [file] = tmp_path.rglob("*.json")

    file.write_bytes(bytes_there)

    assert not any(one.is_whole for one in store(tmp_path).all())


def test_a_seal_is_of_one_key_and_of_all_that_is_said(tmp_path: Path) -> None:
    store(tmp_path).write({"number": 1, "act": "run"}, b"key")
    [one] = store(tmp_path).all()

    assert one.is_sealed
    assert one.has_seal_of(b"key")
    assert not one.has_seal_of(b"another")
    store(tmp_path).write({**one.content, "number": 2}, b"")
    assert not [*store(tmp_path).all()][1].has_seal_of(b"key")


def test_the_key_is_a_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert certificate_key(pipeline(tmp_path)) == b""
    monkeypatch.setenv("SEAL", "secret")
    assert certificate_key(pipeline(tmp_path, certificate_key="${env:SEAL}")) == b"secret"
    monkeypatch.delenv("SEAL")
    with pytest.raises(DeclarationError, match="SEAL"):
        certificate_key(pipeline(tmp_path, certificate_key="${env:SEAL}"))


def test_snapshots_since_another_are_known_as_long_as_all_are_there() -> None:
    snapshots = {2: {"snapshot-id": 2, "parent-snapshot-id": 1}, 3: {"snapshot-id": 3, "parent-snapshot-id": 2}}
    table = TableHistory(location="x", snapshot=3, snapshots=snapshots, folder="file:///lake/marts/t")

    assert table.since(3) == []
    assert table.since(2) == [snapshots[3]]
    assert table.since(1) == [snapshots[2], snapshots[3]]
    assert table.since(9) is None
    assert table.since(None) is None
    assert table.short("file:/lake/marts/t/data/a.parquet") == "data/a.parquet"
    stored = TableHistory(location="x", snapshot=None, snapshots={}, folder="s3://bucket/lake/t")
    assert stored.short("s3a://bucket/lake/t/data/a.parquet") == "data/a.parquet"


def snapshot(number: int, **summary: str) -> dict[str, Any]:
    return {"snapshot-id": number, "summary": {key.replace("_", "-"): value for key, value in summary.items()}}


def test_a_run_made_what_carries_its_id_what_leads_to_it_and_what_replaces_rows_by_the_same() -> None:
    mine, other = ({"frazil.run-id": name} for name in ("mine", "other"))
    deletes, appends, merges = snapshot(1, operation="delete"), snapshot(2, added_records="5"), snapshot(3)
    appends["summary"] |= mine
    merges["summary"]["operation"] = "replace"
    foreign, killed, deleted = snapshot(4, added_records="1"), snapshot(5, added_records="1"), snapshot(6)
    killed["summary"] |= other

    assert _others([deletes, appends, merges], "mine") == []
    assert _others([foreign, deletes, appends], "mine") == [foreign]
    assert _others([killed, appends, deleted], "mine") == [killed, deleted]
