"""Objects of a bucket that is kept in memory: listed, opened by version, read in parts, missing or denied."""

from __future__ import annotations

import io
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import obstore
import pytest
from obstore.store import MemoryStore

from frazil.spec.model.stores import StoreAccess
from frazil.storage import object_store, store_client
from frazil.storage.base import Found, Passed
from frazil.storage.object_store import ObjectStore, StoreAddress
from frazil.storage.store_client import ObjectStoreError, StoreClientError

S3 = StoreAccess("s3", "raw", settings=(("access_key_id", "A"), ("secret_access_key", "B")))


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store = MemoryStore()
    monkeypatch.setattr(store_client, "client", lambda _: store)
    return store


def names(declared: str, *endings: str) -> tuple[list[str], list[str]]:
    """Return the keys that are found below a declared path, and those that are passed over."""
    listed = list(ObjectStore(S3).find(declared, Path(), endings or (".csv",)))
    found = [one.uri.removeprefix("s3://raw/") for one in listed if isinstance(one, Found)]
    return found, [one.uri.removeprefix("s3://raw/") for one in listed if isinstance(one, Passed)]


def test_a_prefix_lists_its_objects_and_says_which_it_passed_over(bucket: MemoryStore) -> None:
    for key in ("in/a.csv", "in/deep/b.csv", "in/_tmp/c.csv", "in/.d.csv", "in/notes.txt", "inside/e.csv"):
        obstore.put(bucket, key, b"1\n")
    obstore.put(bucket, "in/folder", b"")

    assert names("s3://raw/in") == (["in/a.csv", "in/deep/b.csv"], ["in/notes.txt"])
    assert names("s3://raw/in/") == names("s3://raw/in")
    assert names("s3://raw/nothing") == ([], [])


def test_a_pattern_lists_what_it_matches_and_a_file_itself(bucket: MemoryStore) -> None:
    for key in ("in/a/1.csv", "in/b/2.csv", "in/b/2.txt", "in/_hidden.csv"):
        obstore.put(bucket, key, b"1\n")

    assert names("s3://raw/in/b/*") == (["in/b/2.csv"], ["in/b/2.txt"])
    assert names("s3://raw/in/*/1.csv") == (["in/a/1.csv"], [])
    assert names("s3://raw/in/a/1.csv") == (["in/a/1.csv"], [])
    assert names("s3://raw/in/_hidden.csv") == ([], [])
    assert names("s3://raw/in/gone.csv") == ([], [])


def test_a_found_object_is_described_by_size_time_and_version(bucket: MemoryStore) -> None:
    obstore.put(bucket, "in/a.csv", b"12345")

    (found,) = ObjectStore(S3).find("s3://raw/in", Path(), (".csv",))
    again = ObjectStore(S3).stat("s3://raw/in/a.csv")

    assert isinstance(found, Found)
    assert found == again
    assert (found.name, found.size_bytes, found.etag) == ("a.csv", 5, obstore.head(bucket, "in/a.csv")["e_tag"])
    assert found.modified_ns > 1_700_000_000_000_000_000


def test_an_object_that_was_listed_is_read_as_the_version_that_was_listed(bucket: MemoryStore) -> None:
    obstore.put(bucket, "in/a.csv", b"first")
    store = ObjectStore(S3)
    listed = store.stat("s3://raw/in/a.csv").uri
    assert store.open(listed).read() == b"first"

    obstore.put(bucket, "in/a.csv", b"second")

    assert store.open(listed).read() == b"first"  # kept: a small object is asked for once
    assert store.open(pickle.loads(pickle.dumps(listed))).read() == b"first"  # noqa: S301
    assert store.open("s3://raw/in/a.csv").read() == b"second"
    assert store.read("s3://raw/in/a.csv") == b"second"
    with pytest.raises(OSError, match="another object has its place"):
        store.open(StoreAddress("s3://raw/in/a.csv", S3, '"of-another-day"'))


def test_a_large_object_is_read_in_parts_and_fails_when_it_is_replaced(
    bucket: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "_PART_BYTES", 10)
    obstore.put(bucket, "in/large.csv", bytes(range(35)))
    listed = ObjectStore(S3).stat("s3://raw/in/large.csv").uri

    with ObjectStore(S3).open(listed) as file:
        assert file.seekable()
        assert file.read(12) == bytes(range(12))
        assert file.seek(-5, io.SEEK_END) == 30
        assert file.read() == bytes(range(30, 35))
        assert file.read() == b""
        assert file.seek(3) == file.tell() == 3
        assert file.seek(2, io.SEEK_CUR) == 5
        obstore.put(bucket, "in/large.csv", bytes(35))
        file.seek(20)
        with pytest.raises(OSError, match="another object has its place"):
            file.read()


def test_an_address_without_a_size_is_read_in_parts_too_and_as_one_version(
    bucket: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    get = store_client.get

    def noted(access: StoreAccess, key: str, **options: Any) -> Any:
        asked.append(options.get("range"))
        answer = get(access, key, **options)
        # Of an answer of the whole object only the head is looked at.
        return answer if "range" in options else SimpleNamespace(meta=answer.meta)

    monkeypatch.setattr(store_client, "get", noted)
    monkeypatch.setattr(object_store, "_PART_BYTES", 10)
    obstore.put(bucket, "in/large.csv", bytes(range(35)))

    for address in ("s3://raw/in/large.csv", StoreAddress("s3://raw/in/large.csv", S3)):
        with ObjectStore(S3).open(address) as file:
            assert file.read() == bytes(range(35))
    assert asked == [None, (0, 35)] * 2

    with ObjectStore(S3).open("s3://raw/in/large.csv") as file:
        assert file.read(3) == bytes(range(3))
        obstore.put(bucket, "in/large.csv", bytes(35))
        file.seek(20)
        with pytest.raises(OSError, match="another object has its place"):
            file.read()
    with pytest.raises(FileNotFoundError, match="no such object"):
        ObjectStore(S3).open("s3://raw/in/gone.csv")


def test_only_so_many_bytes_of_small_objects_are_kept(bucket: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    get = store_client.get

    def counted(access: StoreAccess, key: str, **options: Any) -> Any:
        asked.append(key)
        return get(access, key, **options)

    monkeypatch.setattr(store_client, "get", counted)
    monkeypatch.setattr(object_store, "_KEPT_BYTES", 8)
    store = ObjectStore(S3)
    for key in ("kept/1", "kept/2", "kept/3"):
        obstore.put(bucket, key, b"4444")
    first, second, third = (store.stat(f"s3://raw/kept/{n}").uri for n in (1, 2, 3))

    for uri in (first, second, second, third, first):
        store.open(uri)

    assert asked == ["kept/1", "kept/2", "kept/3", "kept/1"]


@pytest.mark.usefixtures("bucket")
def test_what_is_not_there_is_missing_and_what_is_written_and_removed_is_so() -> None:
    store_client.put(S3, "lake/a", b"1")
    store_client.put(S3, "lake/a", b"2")
    assert bytes(store_client.get(S3, "lake/a").bytes()) == b"2"

    store_client.delete(S3, ["lake/a"])

    assert [*store_client.keys(S3, "lake")] in ([], [[]])
    with pytest.raises(FileNotFoundError, match="no such object"):
        ObjectStore(S3).stat("s3://raw/lake/a")
    with pytest.raises(FileNotFoundError, match="no such object"):
        ObjectStore(S3).read("s3://raw/lake/a")


def test_a_missing_bucket_differs_from_a_missing_object() -> None:
    with pytest.raises(ObjectStoreError, match="has no such bucket"), store_client.answering("s3://raw"):
        raise FileNotFoundError("404: <Code>NoSuchBucket</Code>")
    with pytest.raises(ObjectStoreError, match="does not answer") as raised, store_client.answering("s3://raw"):
        raise obstore.exceptions.GenericError("Generic S3 error: HTTP error: error sending request")
    assert raised.value.retryable


def test_a_client_is_made_once_for_a_login() -> None:
    endpoint = StoreAccess("s3", "raw", settings=(*S3.settings, ("endpoint", "http://127.0.0.1:1")))

    made = store_client.client(endpoint)

    assert made is store_client.client(endpoint)
    assert made is not store_client.client(S3)
    assert made.config["aws_bucket" if "aws_bucket" in made.config else "bucket"] == "raw"


def test_the_login_is_declared_or_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "its-secret")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)

    assert store_client.login(S3) == {"access_key_id": "A", "secret_access_key": "B"}
    assert store_client.login(StoreAccess("s3", "raw")) == {
        "access_key_id": "of-environment",
        "secret_access_key": "its-secret",
    }
    provide = store_client._own_login()
    assert provide()["access_key_id"] == "of-environment"
    assert provide()["expires_at"] is None


def test_without_the_client_every_request_names_the_extra_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("obstore", "obstore.store", "obstore.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    store_client.client.cache_clear()

    for request in (
        lambda: [*store_client.keys(S3, "in")],
        lambda: store_client.get(S3, "in/a.csv"),
        lambda: store_client.describe(S3, "in/a.csv"),
        lambda: store_client.put(S3, "in/a.csv", b"1"),
        lambda: store_client.delete(S3, ["in/a.csv"]),
        lambda: store_client.client(S3),
        lambda: ObjectStore(S3).open("s3://raw/in/a.csv"),
    ):
        with pytest.raises(StoreClientError, match="obstore, which is not installed") as caught:
            request()
        assert caught.value.hint == "pip install 'frazil[stores]'"
