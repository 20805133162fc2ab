"""A capture of a real server shows what it landed and how far it is behind, and sends a message when that is far."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING

import psycopg
from tests.interop.receivers import webhook
from tests.interop.test_live import Client
from tests.sources.replay import declare

from frazil import api
from frazil.interop import live_server
from frazil.interop.notify import notify as telling

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


RECEIVER = """
notify: [{webhook: "${env:HOOK}", lag_mb: 0.5, lag_seconds: 1000000, on: [lag, recovered]}]
"""


def test_a_capture_shows_its_lag_and_sends_it(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_DB", database)
    monkeypatch.setattr(live_server, "_LAG_SECONDS", 0.05)
    monkeypatch.setattr(telling, "_LOOK_SECONDS", 0.0)
    with psycopg.connect(database, autocommit=True) as session, webhook() as hook:
        monkeypatch.setenv("HOOK", hook.address)
        session.execute("CREATE TABLE orders (id int PRIMARY KEY, doc text); INSERT INTO orders VALUES (1, 'a')")
        declare(tmp_path, {"public.orders": "id"})
        with (tmp_path / "frazil.yml").open("a", encoding="utf-8") as file:
            file.write(RECEIVER)
        client, stop = Client(), Event()
        lags: list[float] = []

        def turned(name: str, *_: object) -> None:
            found = client.metrics()
            lags.append(found.get(("frazil_capture_lag_bytes", name), -1))
            landed = found["frazil_landed_records_total", name]
            if len(lags) == 1:
                session.execute("INSERT INTO orders SELECT g, repeat('x', 1000) FROM generate_series(2, 1000) g")
            is_level = landed == 1000 and 0 <= lags[-1] < 500_000 and len(hook.got) > 1
            if is_level or len(lags) > 300:
                stop.set()

        options = api.CaptureOptions(
            every_seconds=0.05, idle_seconds=0.1, turned=turned, tell=lambda _name, text: client.said.append(text)
        )
        assert api.capture(tmp_path, stop, options=options, metrics=("127.0.0.1", 0)) == 0

    assert 0 <= lags[-1] < 500_000
    assert [text.partition("\n")[0][:47] for text in hook.texts] == [
        "shop: slot frazil of ${env:TEST_DB} is behind b",
        "shop: slot frazil of ${env:TEST_DB} level again",
    ]
