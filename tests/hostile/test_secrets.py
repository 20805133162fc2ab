"""Frazil never writes a secret to logs, tables, snapshots, plans, reports or exceptions."""

from __future__ import annotations

import json
import logging
import shlex
import traceback
import warnings
from threading import Event
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

import frazil
from frazil import api
from frazil.cli.main import COMMANDS, app
from frazil.errors import FrazilError
from frazil.sources.debezium import topic
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

MARKER: Final = "m4rk3r/w0rd+of%the:shop"
"""Has to be encoded in addresses; no piece of it may be shown in either form."""
FORMS: Final = (MARKER, quote(MARKER, safe=""), quote(MARKER), "m4rk3r", "w0rd+of", "w0rd%2Bof")

GOOD: Final = """
  - name: orders
    source: {kind: dms, path: ./landing, header: true, settle_seconds: 0}
    keys: [id]
    sequence_by: [ts]
    columns: [{name: id, type: int}, {name: ts, type: timestamp}, {name: n, type: int, min: 0}]
    rules: [{name: one_number, unique: [n], on_violation: warn}]
    marts: [{kind: current}, {kind: history}]
"""
SERVERS: Final = """
  - {name: replicated, source: {kind: postgres, url: "${env:SHOP_DB}", table: public.a, landing: ./in/a}, keys: [id]}
  - name: audited
    source: {kind: audit_log, url: "${env:SHOP_DB}", log: public.log, table: public.b, landing: ./in/b}
    keys: [id]
  - {name: dumped, source: {kind: snapshot, url: "${env:SHOP_DB}", table: public.c, landing: ./in/c}, keys: [id]}
  - name: sharded
    source: {kind: sharded, shards: {eu: {kind: postgres, url: "${env:SHOP_DB}", table: public.d, landing: ./in/d}}}
    keys: [shard, id]
"""
TOPIC: Final = """
  - name: topic
    source:
      kind: debezium
      servers: 127.0.0.1:9
      topic: shop.orders
      landing: ./in/e
      properties: {sasl.username: ada, sasl.password: "${env:WORD}", security.protocol: SASL_PLAINTEXT,
        sasl.mechanism: PLAIN, socket.connection.setup.timeout.ms: "1000"}
    keys: [id]
"""
RECEIVERS: Final = """
notify:
  - {webhook: "${env:WORD}"}
  - {webhook: "http://127.0.0.1:9/${env:WORD}"}
  - {email: {to: [a@b], sender: f@b, host: 127.0.0.1, port: 9, user: ada, password: "${env:WORD}"}}
"""
LAKE: Final = "pipeline: shop\nlake: {warehouse: ./lake}\n"
CATALOG: Final = 'pipeline: shop\nlake: {warehouse: ./other, catalog: {type: jdbc, uri: "${env:LAKE_DB}"}}\n'
STORE: Final = """\
pipeline: shop
lake: {warehouse: "s3://bucket/lake", catalog: {type: jdbc, uri: "${env:LAKE_DB}"}}
stores: {"s3://bucket": {endpoint: "http://127.0.0.1:9", access_key_id: key, secret_access_key: "${env:WORD}"}}
"""
LINES: Final = (
    "validate HERE",
    "plan HERE",
    "status HERE",
    "check HERE",
    "check HERE --source",
    "key orders 1 --project HERE",
    "status orders --project HERE",
    "status replicated --project HERE",
    "test HERE",
    "quarantine HERE",
    "quarantine HERE --select orders",
    "query 'select * from marts.orders' HERE",
    "query 'select * from nosuch' HERE",
    "diff orders --from batch:1 --project HERE",
    "cut --list --project HERE",
    "export dbt HERE",
    "export odcs HERE",
    "capture HERE",
    "capture HERE --reload replicated",
    "export trino HERE",
    "doctor HERE",
    "doctor HERE --notify",
)
"""None of them starts Java."""
OF_A_TOPIC: Final = (
    "validate HERE",
    "capture HERE",
    "check HERE --source",
    "status topic --project HERE",
    "doctor HERE",
)
WRITING: Final = (
    "run HERE",
    "run HERE --select orders --full-refresh --yes",
    "watch HERE",
    "cut monday --project HERE --yes",
    "replay HERE --select orders --yes",
    "rebuild HERE --select orders --yes",
    "maintain HERE --select orders",
    "erase HERE --select orders --key 2 --yes",
    "rollback HERE --select orders --to batch:1 --yes",
    "drop HERE --yes",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose servers do not answer."""
    encoded = quote(MARKER, safe="")
    monkeypatch.setenv("SHOP_DB", f"postgresql://ada:{encoded}@127.0.0.1:9/shop?connect_timeout=2")
    monkeypatch.setenv("LAKE_DB", f"jdbc:postgresql://127.0.0.1:9/lake?user=ada&password={encoded}")
    monkeypatch.setenv("WORD", MARKER)
    (tmp_path / "landing").mkdir()
    rows = ["op,id,ts,n", "I,1,2026-01-01 00:00:00,1", "I,2,2026-01-01 00:00:00,1", "I,3,2026-01-01 00:00:00,-1"]
    (tmp_path / "landing" / "20260101-000000000.csv").write_text("\n".join([*rows, ""]))
    return tmp_path


class OneTurn(Event):
    """Stops at the first pause what goes on until it is stopped."""

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        self.set()
        return True


@pytest.fixture(autouse=True)
def one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    for command in ("capture", "watch"):
        monkeypatch.setattr(f"{COMMANDS[command]}.Event", OneTurn)


@pytest.fixture
def heard(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Everything that is logged, down to what only programmers read."""
    with caplog.at_level(logging.DEBUG):
        yield caplog


def said(line: str, folder: Path, forms: Sequence[str] = ("", "--json", "-v")) -> Iterator[tuple[str, str]]:
    """Run a command for people, as JSON, and with everything it can say."""
    for more in (form.split() for form in forms):
        if line.startswith("capture") and more == ["-v"]:
            continue
        asked = [*shlex.split(line.replace("HERE", f"{folder}")), *more]
        result = CliRunner().invoke(app, asked)
        assert result.exit_code != 1, result.output
        yield " ".join(asked), result.output


def leaks(text: str) -> list[str]:
    """Return what of the secret a text shows."""
    return [form for form in FORMS if form.lower() in text.lower()]


def raised(call: Any) -> str:
    """Return an exception in every way that it may be shown: with all its causes, and what it is made of."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
    except FrazilError as error:
        chain = "".join(traceback.format_exception(error))
        return f"{error!r} {error.__dict__!r} {error.hint} {chain} {caught}"
    return f"{caught}"


def files_of(folder: Path) -> Iterator[tuple[Path, bytes]]:
    yield from ((path, path.read_bytes()) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("top", [LAKE, pytest.param(CATALOG, marks=pytest.mark.long)], ids=["servers", "catalog"])
def test_answers_without_java_contain_no_secrets(top: str, folder: Path, heard: pytest.LogCaptureFixture) -> None:
    (folder / "frazil.yml").write_text(f"{top}tables:{GOOD}{SERVERS}{RECEIVERS}")

    for line in LINES:
        for asked, answer in said(line, folder):
            assert not leaks(answer), asked
    for call in (api.plan, api.status, api.check, api.test):
        assert not leaks(raised(lambda call=call: call(folder)))
    assert not leaks(repr(frazil.load(folder)))
    assert not leaks(heard.text)
    assert not [path for path, content in files_of(folder) if leaks(content.decode("latin-1"))]


def test_a_secret_of_a_store_is_in_no_answer(folder: Path, heard: pytest.LogCaptureFixture) -> None:
    (folder / "frazil.yml").write_text(f"{STORE}tables:{GOOD}")

    for line in ("validate HERE", "plan HERE", "query 'select 1' HERE"):
        for asked, answer in said(line, folder):
            assert not leaks(answer), asked
    assert not leaks(repr(frazil.load(folder)))
    assert not leaks(heard.text)


def test_a_secret_of_a_broker_is_in_no_answer(
    folder: Path, heard: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic, "_ANSWER_SECONDS", 0.2)
    (folder / "frazil.yml").write_text(f"{LAKE}tables:{GOOD}{TOPIC}")

    answers = {line: [*said(line, folder, ("", "--json"))] for line in OF_A_TOPIC}

    assert "shop.orders" in answers["capture HERE"][0][1]
    assert not [asked for every in answers.values() for asked, answer in every if leaks(answer)]
    assert not leaks(repr(frazil.load(folder)))
    assert not leaks(heard.text)
    assert not [path for path, content in files_of(folder) if leaks(content.decode("latin-1"))]


@pytest.mark.spark
@pytest.mark.long
def test_a_secret_is_in_nothing_that_a_run_writes(
    folder: Path, spark: SparkSession, heard: pytest.LogCaptureFixture
) -> None:
    """One table is good, the others fail; then every command that writes."""
    del spark  # only there so that Java runs
    (folder / "frazil.yml").write_text(f"{LAKE}tables:{GOOD}{SERVERS}")
    for line in (*WRITING, *LINES):
        for asked, answer in said(line, folder, ["-v" if line in WRITING else "--json"]):
            assert not leaks(answer), asked
    pipeline = frazil.load(folder)
    session = spark_session(pipeline)
    shown = raised(lambda: frazil.run(pipeline, spark=session))
    assert "replicated" in shown
    assert not leaks(shown)

    assert not leaks(heard.text)
    assert not [path for path, content in files_of(folder) if leaks(content.decode("latin-1"))]
    listed = api.query(folder, "SELECT table_schema, table_name FROM information_schema.tables").rows
    assert ("marts", "orders") in listed
    for schema, table in listed:  # files of rows are compressed
        rows = api.query(folder, f'SELECT * FROM "{schema}"."{table}"').rows
        assert not leaks(json.dumps(rows, default=str)), table
