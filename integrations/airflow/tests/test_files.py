"""The trigger for new files: when it fires, and when it does not."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from frazil_airflow.files import NewFilesTrigger, listing
from moto.server import ThreadedMotoServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUICK = 0.05


class Store(dict[str, Any]):
    """The state of the watched asset, which outlives the triggerer."""

    async def aget(self, key: str) -> Any:
        return self.get(key)

    async def aset(self, key: str, value: Any) -> None:
        self[key] = value


def fired(
    folder: Path | str,
    store: Store | None,
    *steps: Callable[[], object],
    seconds: float = 2.0,
    conn_id: str | None = None,
) -> list[int]:
    """Watch a folder, do each step once nothing more happens, and return the numbers of files of the events."""

    async def watch() -> list[int]:
        trigger = NewFilesTrigger(path=str(folder), poll_seconds=QUICK, conn_id=conn_id)
        trigger.asset_state_store = store
        stream, events = trigger.run(), []
        for step in (lambda: None, *steps):
            step()
            waiting = asyncio.ensure_future(anext(stream))
            while (await asyncio.wait({waiting}, timeout=seconds))[0]:
                events.append(waiting.result().payload["files"])
                waiting = asyncio.ensure_future(anext(stream))
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            stream = trigger.run()
        return events

    return asyncio.run(watch())


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    (folder / "shop" / "orders").mkdir(parents=True)
    return folder


def test_files_that_were_there_before_it_started_are_an_event_and_only_once(landing: Path) -> None:
    (landing / "shop" / "orders" / "LOAD1.csv").write_text("1\n")
    store = Store()
    assert fired(landing, store) == [1]
    assert fired(landing, store) == []


def test_an_empty_folder_and_one_that_is_not_there_are_no_event(landing: Path) -> None:
    assert fired(landing, Store()) == []
    assert fired(landing / "none", Store()) == []


def test_it_meets_new_files_whatever_their_names_and_files_that_are_written_again(landing: Path) -> None:
    orders = landing / "shop" / "orders"
    (orders / "20260102.csv").write_text("1\n")

    def write_again() -> None:
        (orders / "20260102.csv").write_text("2\n")
        os.utime(orders / "20260102.csv", (1, 1))

    def older() -> None:
        (orders / "20260101.csv").write_text("3\n")

    assert fired(landing, Store(), older, write_again) == [1, 2, 2]


def test_it_waits_until_the_folder_stands_still(landing: Path) -> None:
    async def grow() -> int:
        trigger = NewFilesTrigger(path=str(landing), poll_seconds=QUICK)
        trigger.asset_state_store = Store()
        waiting = asyncio.ensure_future(anext(trigger.run()))
        with (landing / "big.csv").open("w", encoding="utf-8") as file:
            for _ in range(40):
                file.write("x" * 100)
                file.flush()
                await asyncio.sleep(QUICK / 2)
                assert not waiting.done()
        return int((await waiting).payload["files"])

    assert asyncio.run(grow()) == 1


def test_a_folder_that_cannot_be_looked_at_for_a_moment_is_looked_at_again(
    landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (landing / "LOAD1.csv").write_text("1\n")
    failures = [PermissionError("denied"), ConnectionError("no answer"), FileNotFoundError("it went")]

    def sometimes(folder: Any) -> list[str]:
        if failures:
            raise failures.pop()
        return listing(folder)

    monkeypatch.setattr("frazil_airflow.files.listing", sometimes)
    assert fired(landing, Store()) == [1]
    assert failures == []


def test_files_of_an_object_store_are_met_too(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    try:
        url = "http://{}:{}".format(*server.get_host_and_port())
        secret = {"aws_access_key_id": "landing", "aws_secret_access_key": "not-a-secret"}
        client = boto3.client("s3", endpoint_url=url, region_name="us-east-1", **secret)
        client.create_bucket(Bucket="lake")
        client.put_object(Bucket="lake", Key="landing/orders/LOAD1.csv", Body=b"1")
        extra = {"endpoint_url": url, "region_name": "us-east-1"}
        login = {"conn_type": "aws", "login": "landing", "password": "not-a-secret", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps(login))

        def arrives() -> None:
            client.put_object(Bucket="lake", Key="landing/orders/20260101.csv", Body=b"2")

        def is_written_again() -> None:
            client.put_object(Bucket="lake", Key="landing/orders/LOAD1.csv", Body=b"3")

        steps = (arrives, is_written_again)
        assert fired("s3://lake/landing", Store(), *steps, seconds=4.0, conn_id="store") == [1, 2, 2]
    finally:
        server.stop()


def test_it_can_be_written_down_and_started_again() -> None:
    path, settings = NewFilesTrigger(path="s3://lake/landing", poll_seconds=3, conn_id="minio").serialize()
    assert path == "frazil_airflow.files.NewFilesTrigger"
    assert NewFilesTrigger(**settings).serialize() == (path, settings)
