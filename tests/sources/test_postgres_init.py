"""``frazil init --from postgresql://…`` declares the tables of a database, without its password."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.hostile.situation import command

from frazil import api

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.server

TABLES = """
CREATE SCHEMA sales;
CREATE TABLE orders (order_id bigint PRIMARY KEY, total numeric(12,2), free numeric, doc jsonb, who uuid);
CREATE TABLE sales.orders (b int, a int, PRIMARY KEY (b, a));
CREATE TABLE "Order Lines" (order_id bigint NOT NULL, "No" int NOT NULL, valid_from timestamptz);
CREATE UNIQUE INDEX "Lines" ON "Order Lines" ("No", order_id);
CREATE TABLE log (x int);
CREATE TABLE parts (id int, d date, PRIMARY KEY (id, d)) PARTITION BY RANGE (d);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2020-01-01') TO ('2030-01-01');
CREATE UNLOGGED TABLE scratch (id int PRIMARY KEY);
CREATE VIEW shown AS SELECT 1 AS one;
"""


@pytest.fixture(params=["database", "newest_database"])
def url(request: pytest.FixtureRequest) -> str:
    address = str(request.getfixturevalue(request.param))
    with psycopg.connect(address, autocommit=True) as session:
        session.execute(TABLES)
    return address


def variable(url: str) -> str:
    """The variable that the declaration names: the database in capitals."""
    return f"{url.rpartition('/')[2].upper()}_DB"


def test_tables_with_a_key_are_declared_without_the_password(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable(url), url)
    password = url.partition("://")[2].partition("@")[0].partition(":")[2]

    said = command("init", f"{tmp_path}", "--from", url)

    assert said.code == 0
    text = (tmp_path / "frazil.yml").read_text(encoding="utf-8")
    assert password
    assert password not in said.text + text
    assert {table.name: table.keys for table in api.load(tmp_path).tables} == {
        "order_lines": ("No", "order_id"),
        "public_orders": ("order_id",),
        "parts": ("id", "d"),
        "sales_orders": ("b", "a"),
    }
    assert "order_id bigint, total numeric(12,2)" in " ".join(said.text.split())
    assert "public.log: left out, no primary key" in said.text
    assert "public.orders: come as text: free numeric, doc jsonb" in said.text
    assert f"export {variable(url)}=" in said.text
    assert "no history: it would add a column valid_from" in text
    assert command("validate", f"{tmp_path}").code == 0


def test_what_the_server_needs_is_told_with_its_command(url: str, tmp_path: Path) -> None:
    said = command("init", f"{tmp_path / 'shop'}", "--from", url, "--tables", "Order*,parts")

    assert "[FZ211] public.Order Lines has neither a primary key nor a replica identity" in said.text
    way_out = 'ALTER TABLE "public"."Order Lines" REPLICA IDENTITY USING INDEX "Lines"'
    assert way_out in said.text
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(way_out)
    assert "the server:" not in command("init", f"{tmp_path / 'again'}", "--from", url, "--tables", "Order*,parts").text


def test_a_reference_is_written_as_it_is(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANY", url)

    begun = api.init(tmp_path, source="${env:ANY}", tables=["sales.*"])

    [table] = api.load(tmp_path).tables
    assert table.source.url == "${env:ANY}"
    assert (begun.variable, begun.needs) == (None, ())


def test_in_a_terminal_it_lists_the_tables_once_and_asks_which(url: str, tmp_path: Path) -> None:
    typed, terminal = os.openpty()
    os.write(typed, b"sales.*\n")
    words = [sys.executable, "-m", "frazil", "init", f"{tmp_path}", "--from", url]

    done = subprocess.run(words, stdin=terminal, capture_output=True, text=True, timeout=100, check=True)

    assert "Which tables?" in done.stderr
    assert done.stdout.count("sales.orders") == 1
    assert [table.keys for table in api.load(tmp_path).tables] == [("b", "a")]
    os.close(typed)
    os.close(terminal)


def test_a_table_without_a_key_needs_one_in_the_declaration(url: str, tmp_path: Path) -> None:
    assert command("init", f"{tmp_path}", "--from", url, "--tables", "log").code == 0

    assert "'keys' of table 'log' is empty" in command("validate", f"{tmp_path}").text


def test_what_the_database_does_not_have_is_an_error(url: str, tmp_path: Path) -> None:
    unknown = command("init", f"{tmp_path}", "--from", url, "--tables", "nosuch")
    elsewhere = command("init", f"{tmp_path}", "--from", f"{url}_nosuch")

    assert (unknown.code, elsewhere.code) == (3, 3)
    assert "[FZ214] the database has no table 'nosuch'" in unknown.text
    assert "does not exist" in elsewhere.text
    assert "check database, user and password" in elsewhere.text
    assert [*tmp_path.iterdir()] == []
