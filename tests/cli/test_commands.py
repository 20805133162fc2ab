"""Every command: its help, what it says of a wrong declaration, and that it is a function of ``frazil.api``."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Final

import pytest
import typer
from tests.hostile.situation import command

import frazil
from frazil import api
from frazil.cli import commands
from frazil.cli.commands.rows import query
from frazil.cli.main import COMMANDS, app

if TYPE_CHECKING:
    from pathlib import Path

ASKED: Final = {
    "init": ["HERE"],
    "export": ["odcs", "HERE"],
    "serve": ["trino", "HERE"],
    "query": ["select 1", "HERE"],
    "cut": ["friday", "--project", "HERE"],
    "rollback": ["HERE", "--select", "orders", "--to", "batch:1", "--yes"],
    "diff": ["orders", "--from", "batch:1", "--project", "HERE"],
    "key": ["orders", "1", "--project", "HERE"],
    "status": ["orders", "--project", "HERE"],
    "lineage": ["orders", "--project", "HERE"],
    "runs": ["--project", "HERE"],
    "doctor": ["HERE", "--repair"],
    "erase": ["HERE", "--select", "orders", "--key", "1"],
}
"""What a command is given; the others only the project's folder."""
WRONG: Final = "pipeline: shop\nlake: {warehouse: ./lake}\ntabels: []\n"


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A project whose declaration has a mistake."""
    (tmp_path / "frazil.yml").write_text(WRONG, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without a lake; no test of it makes one."""
    folder = tmp_path_factory.mktemp("generated")
    assert command("init", f"{folder}", "--sample", "--rows", "5", "--batches", "0").code == 0
    return folder


def words(name: str, folder: Path) -> list[str]:
    return [name, *(word.replace("HERE", f"{folder}") for word in ASKED.get(name, ["HERE"]))]


def test_every_module_of_commands_names_them() -> None:
    modules = [import_module(one.name) for one in walk_packages(commands.__path__, f"{commands.__name__}.")]
    named = {name: module.__name__ for module in modules for name in re.findall("``([a-z]+)``", module.__doc__ or "")}

    assert named == COMMANDS


def test_help_groups_the_commands_into_panels() -> None:
    found = command("--help")

    panels = ["Options", "Start", "Run", "Look", "Prove", "Operate", "Protect"]
    assert re.findall(r"╭─ (\w+) ─", found.stdout) == panels


def test_every_command_is_a_function_that_returns_values() -> None:
    assert set(COMMANDS) - {"ui", "mcp"} <= set(api.__all__)  # pages and agents ask for many of them
    assert set(ASKED) <= set(COMMANDS)


def test_sql_for_an_audit_log_is_printed_with_its_names_quoted() -> None:
    said = command("export", "audit-trigger", 'public.or"ders', "--log", "audit.log")

    assert said.code == 0
    assert 'AFTER TRUNCATE ON "public"."or""ders"' in said.text
    assert 'CREATE TABLE IF NOT EXISTS "audit"."log"' in said.text


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_the_command_does(name: str) -> None:
    said = command(name, "--help")

    assert said.code == 0
    function = getattr(import_module(COMMANDS[name]), name)
    assert " ".join(function.__doc__.split())[:40] in " ".join(said.text.split())


def test_help_of_every_command_has_an_example_that_parses() -> None:
    group = typer.main.get_command(app)
    exports = group.commands["export"].commands  # type: ignore[attr-defined]
    commands = {**group.commands, **{f"export {name}": one for name, one in exports.items()}}  # type: ignore[attr-defined]

    for name, command_ in commands.items():
        [example] = re.findall(r"^Example: (.*)$", command_.help, re.MULTILINE)
        words_ = shlex.split(example)
        first = ["frazil", *name.split()]
        assert words_[: len(first)] == first
        assert command_.make_context(name, words_[len(first) :])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_declaration_ends_with_2_and_nothing_is_made(name: str, wrong: Path) -> None:
    said = command(*words(name, wrong))

    assert said.code == 2
    assert "[FZ10" in said.text
    assert [path.name for path in wrong.iterdir()] == ["frazil.yml"]


@pytest.mark.parametrize("name", sorted({*COMMANDS} - {"init", "mcp"}))
def test_with_json_an_error_is_an_object(name: str, wrong: Path) -> None:
    said = command(*words(name, wrong), "--json")

    error = json.loads(said.stdout)["error"]
    assert said.code == error["exit_code"] == 2
    assert error["code"].startswith("FZ10")
    assert set(error) == {"code", "message", "hint", "exit_code"}


@pytest.mark.parametrize(
    "name",
    sorted(
        {*COMMANDS}
        - {
            "init",
            "validate",
            "doctor",
            "status",
            "query",
            "cut",
            "diff",
            "rollback",
            "key",
            "quarantine",
            "replay",
            "export",
            "serve",
            "ui",
            "mcp",
            "erase",
            "lineage",
            "ls",
            "runs",
        }
    ),
)
def test_a_selection_of_nothing_ends_with_2(name: str, generated: Path) -> None:
    said = command(name, f"{generated}", "--select", "nosuch")

    assert said.code == (4 if name in ("check", "drop") else 2)  # these two look for the lake first
    assert "[FZ103]" in said.text or "[FZ304]" in said.text


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_keys_that_cannot_be_read_are_a_wrong_call(content: bytes | None, generated: Path, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "keys").write_bytes(content)

    said = command("erase", f"{generated}", "--select", "orders", "--keys-from", f"{tmp_path / 'keys'}", "--yes")

    assert said.code == 2
    assert "--keys-from" in said.text
    assert "a bug" not in said.text


@pytest.mark.parametrize(
    ("table", "says"), [("orders", "--key: the key of table 'orders' is a, b"), ("ordrs", "nothing is called 'ordrs'")]
)
def test_what_cannot_be_erased_is_refused_without_spark(table: str, says: str, tmp_path: Path) -> None:
    declared = "pipeline: shop\nlake: {warehouse: ./lake}\ntables:\n"
    declared += "  - {name: orders, source: {kind: debezium, path: ./landing}, keys: [a, b]}\n"
    (tmp_path / "frazil.yml").write_text(declared, encoding="utf-8")

    said = command("erase", f"{tmp_path}", "--select", table, "--key", "1", "--yes")

    assert said.code == 2
    assert says in said.text


def test_parquet_without_sql_is_refused_on_a_terminal(
    generated: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, terminal = pty.openpty()
    monkeypatch.setattr("sys.stdin", os.fdopen(terminal))
    monkeypatch.setattr("builtins.input", "the prompt is opened".index)

    with pytest.raises(typer.Exit):
        query(path=generated, parquet=generated / "rows.parquet")

    assert "there is no SQL to run" in capsys.readouterr().err


@pytest.mark.process
def test_the_package_is_the_command_too() -> None:
    done = subprocess.run([sys.executable, "-m", "frazil", "--version"], capture_output=True, text=True, check=True)

    assert done.stdout == f"frazil {frazil.__version__}\n"


@pytest.mark.parametrize(
    "given",
    [
        ["status", "s3://raw/shop"],
        ["export", "odcs", "HERE", "--to", "s3://raw/contract.yml"],
        ["quarantine", "HERE", "--select", "orders", "--to", "s3://raw/bad.jsonl"],
        ["key", "orders", "1", "--project", "s3://raw/shop"],
    ],
)
def test_an_address_where_a_local_file_is_asked_for_is_refused(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    said = command(*(word.replace("HERE", f"{tmp_path}") for word in given))

    assert said.code == 2
    assert "is an address" in " ".join(said.text.replace("│", " ").split())
    assert [*tmp_path.iterdir()] == []
