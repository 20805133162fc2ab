"""What the doctor finds of an object store: a bucket in memory, behind a server that tells its clock and its region."""

from __future__ import annotations

from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time
from typing import TYPE_CHECKING, Any

import obstore
import pytest
from obstore.store import MemoryStore
from tests.answering import Quiet, answering

from frazil.catalog.store_check import look_at_store
from frazil.spec.model.stores import StoreAccess
from frazil.storage import store_client
from frazil.storage.store_client import ObjectStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.sources.capture import Looked


class Greeter(ThreadingHTTPServer):
    """Answers to HEAD with a date and a region."""

    ahead_seconds = 0.0
    region: str | None = None


@pytest.fixture
def greeter() -> Iterator[Greeter]:
    class Greets(Quiet, BaseHTTPRequestHandler):
        server: Greeter

        def do_HEAD(self) -> None:
            self.send_response_only(403)
            self.send_header("Date", formatdate(time() + self.server.ahead_seconds, usegmt=True))
            if self.server.region:
                self.send_header("x-amz-bucket-region", self.server.region)
            self.end_headers()

    with answering(Greeter(("127.0.0.1", 0), Greets)) as server:
        yield server


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    store = MemoryStore()
    monkeypatch.setattr(store_client, "client", lambda _: store)
    return store


def look(greeter: Greeter, key: str = "shop", *, is_written: bool = False, may_refuse: bool = False) -> list[Looked]:
    endpoint = f"http://127.0.0.1:{greeter.server_port}"
    access = StoreAccess("s3", "lake", settings=(("endpoint", endpoint), ("region", "eu-west-1")))
    return [*look_at_store(access, f"s3://lake/{key}", is_written=is_written, may_refuse=may_refuse)]


def test_a_place_that_is_right_is_listed_read_and_a_lakes_written(greeter: Greeter, bucket: MemoryStore) -> None:
    assert [one.detail for one in look(greeter)] == ["s3://lake/shop: listed, nothing is there yet"]
    obstore.put(bucket, "shop/a.csv", b"1")

    assert [one.detail for one in look(greeter)] == ["s3://lake/shop: listed, read"]
    assert [one.detail for one in look(greeter, "shop/*.csv")] == ["s3://lake/shop/*.csv: listed, read"]
    assert [one.detail for one in look(greeter, "shop/a.csv")] == ["s3://lake/shop/a.csv: listed, read"]
    [lake] = look(greeter, is_written=True)
    assert (lake.ok, lake.detail) == (True, "s3://lake/shop: listed, read, written, removed")
    assert [one["path"] for page in obstore.list(bucket) for one in page] == ["shop/a.csv"]


@pytest.mark.parametrize(("ahead_seconds", "words"), [(1200, "20 minutes behind"), (-1200, "20 minutes ahead of")])
def test_a_clock_that_is_wrong_is_found(
    greeter: Greeter, bucket: MemoryStore, ahead_seconds: float, words: str
) -> None:
    del bucket
    greeter.ahead_seconds = ahead_seconds

    clock, _ = look(greeter)

    assert clock.ok is None
    assert words in clock.detail


def test_the_region_of_the_bucket_is_the_way_out(
    greeter: Greeter, bucket: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    del bucket
    greeter.region = "eu-central-1"

    def refused(*_: Any) -> Any:
        raise ObjectStoreError("s3://lake/shop", Exception("<Code>AuthorizationHeaderMalformed</Code>"))

    monkeypatch.setattr(store_client, "keys", refused)
    differs, refusal = look(greeter)

    assert differs.detail == "s3://lake is in eu-central-1, and requests are signed for eu-west-1"
    assert (refusal.ok, refusal.hint) == (False, "region: eu-central-1 in stores")


def denied(*_: Any) -> Any:
    raise ObjectStoreError("s3://lake/shop", Exception("<Code>AccessDenied</Code>"))


def test_a_missing_permission_is_reported_with_the_stores_message(
    greeter: Greeter, bucket: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    del bucket

    monkeypatch.setattr(store_client, "put", denied)
    [found] = look(greeter, is_written=True)

    assert found.ok is False
    assert "denies access" in found.detail
    assert "PutObject" in (found.hint or "")


def test_a_bucket_for_tables_only_is_accepted_with_its_catalog(
    greeter: Greeter, bucket: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    del bucket

    monkeypatch.setattr(store_client, "put", denied)
    [found] = look(greeter, is_written=True, may_refuse=True)

    assert (found.ok, found.detail) == (None, "s3://lake/shop: listed, but only tables can be written")


def test_a_store_that_does_not_answer_is_found_at_once() -> None:
    access = StoreAccess("s3", "lake", settings=(("endpoint", "http://127.0.0.1:1"),))

    [found] = look_at_store(access, "s3://lake/shop", is_written=True)

    assert found.ok is False
    assert found.detail == "127.0.0.1:1 cannot be reached: Connection refused"
