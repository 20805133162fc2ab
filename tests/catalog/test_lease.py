"""The lease of a lake in an object store: one holder at a time, and nobody waits for one that is gone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import obstore
import pytest
from obstore.store import MemoryStore

from frazil.catalog import lock as turns
from frazil.catalog.lock import lock, waiting_lock
from frazil.errors import BusyError
from frazil.spec import DmsFiles, JdbcCatalog, Lake, Pipeline, Table
from frazil.storage import store_client

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KEY = "shop/.frazil/leases/orders.json"
NOBODY = 2**22 + 1
"""No process has so large an id."""
Written = list[tuple[str, object]]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryStore]:
    """A bucket in memory, of which no process knows anything yet."""
    bucket = MemoryStore()
    monkeypatch.setattr(store_client, "client", lambda _: bucket)
    turns._lease_at.cache_clear()
    yield bucket
    turns._lease_at.cache_clear()


@pytest.fixture
def lake() -> Pipeline:
    table = Table(name="orders", source=DmsFiles(path=("landing",)), keys=("id",))
    catalog = JdbcCatalog(type="jdbc", uri="jdbc:postgresql://127.0.0.1/lake")
    return Pipeline(pipeline="orders", lake=Lake(warehouse="s3://lake/shop", catalog=catalog), tables=(table,))


def content(store: MemoryStore) -> dict[str, Any]:
    return dict(json.loads(bytes(obstore.get(store, KEY).bytes())))


def take_elsewhere(store: MemoryStore, **other: object) -> None:
    """Write the lease as another host does that takes it."""
    told = content(store)
    holder = {"host": "elsewhere", "process": 7, "machine": "other", "since": "2026-01-01 00:00:00", **other}
    obstore.put(store, KEY, json.dumps({**told, "holder": holder, "token": "other"}).encode())


def leave(lake: Pipeline) -> None:
    """Hold the lake for a moment, so that there is a lease."""
    with lock(lake):
        pass


def test_a_lake_is_held_by_one_process_and_free_after_it(store: MemoryStore, lake: Pipeline) -> None:
    with lock(lake):
        holder = turns.lease_holder(lake)
        with (
            pytest.raises(BusyError, match=r"'orders' is held by another process \(process \d+ on .*, since 20"),
            lock(lake),
        ):
            pass

    assert holder is not None
    assert turns.lease_holder(lake) is None
    assert content(store)["epoch"] == 1
    leave(lake)
    assert content(store)["epoch"] == 2


def test_a_lease_that_stays_as_it_is_is_taken_over(
    store: MemoryStore, lake: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the clock of who waits, and not before its holder had the time to write it again."""
    leave(lake)
    take_elsewhere(store)
    now = [100.0]
    monkeypatch.setattr("frazil.catalog.lock.time.monotonic", lambda: now[0])

    for passed in (0.0, turns.LEASE_SECONDS - 1):
        now[0] = 100.0 + passed
        with pytest.raises(BusyError, match="process 7 on elsewhere"), lock(lake):
            pass
    now[0] += 2

    with lock(lake):
        assert content(store)["holder"]["host"] != "elsewhere"


def test_a_holder_that_writes_its_lease_again_keeps_it(
    store: MemoryStore, lake: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(lake)
    now = [100.0]
    monkeypatch.setattr("frazil.catalog.lock.time.monotonic", lambda: now[0])

    for since in ("1", "2", "3"):
        take_elsewhere(store, since=since)
        now[0] += turns.LEASE_SECONDS
        with pytest.raises(BusyError, match="elsewhere"), lock(lake):
            pass


def test_a_process_of_this_machine_that_has_ended_holds_nothing(store: MemoryStore, lake: Pipeline) -> None:
    with lock(lake):
        machine = content(store)["holder"]["machine"]
    take_elsewhere(store, process=NOBODY, machine=machine)

    assert turns.lease_holder(lake) is None
    with lock(lake):
        assert content(store)["holder"]["process"] != NOBODY


def test_a_lease_that_was_taken_over_is_left_to_its_new_holder(store: MemoryStore, lake: Pipeline) -> None:
    with lock(lake):
        take_elsewhere(store)

    assert content(store)["holder"]["host"] == "elsewhere"


def test_the_holder_writes_its_lease_again_and_again(
    store: MemoryStore, lake: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "BEAT_SECONDS", 0.001)
    with lock(lake):
        first = content(store)["written"]
        while content(store)["written"] == first:
            pass
        assert content(store)["epoch"] == 1

    assert content(store)["holder"] is None


def test_a_process_that_held_the_lake_last_takes_it_in_one_request(
    store: MemoryStore, lake: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(lake)
    monkeypatch.setattr(turns, "get", None)

    leave(lake)

    assert content(store)["epoch"] == 2


def test_a_write_that_was_done_and_seemed_to_fail_is_known_by_its_token(
    store: MemoryStore, lake: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client tries a write again whose answer was lost, and is told that another one has its place."""
    put_if = store_client.put_if

    def twice(*given: Any) -> Mapping[str, str | None] | None:
        return put_if(*given) and put_if(*given)

    monkeypatch.setattr(turns, "put_if", twice)

    with lock(lake):
        assert turns.lease_holder(lake) is not None
    assert content(store)["holder"] is None


def test_runs_go_on_without_a_lease_in_the_store(lake: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise store_client.ObjectStoreError("s3://lake", ValueError("NotImplemented"))

    monkeypatch.setattr(turns, "get", refuse)
    monkeypatch.setattr(turns, "put_if", refuse)
    turns._lease_at.cache_clear()

    with waiting_lock(lake, 0):
        assert turns.lease_holder(lake) is None


def test_a_clock_that_the_store_finds_wrong_stops_all(lake: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java's client would correct its requests by itself, and commit with the wrong time."""

    def refuse(*_: object) -> None:
        raise store_client.ObjectStoreError("s3://lake", ValueError("<Code>RequestTimeTooSkewed</Code>"))

    monkeypatch.setattr(turns, "get", refuse)
    turns._lease_at.cache_clear()

    with pytest.raises(store_client.ObjectStoreError, match="finds this machine's clock wrong"), lock(lake):
        pytest.fail("the block runs")
