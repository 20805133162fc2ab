"""Options that all commands have, options that exclude each other, and old forms that still work."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest
import typer
from tests.hostile.situation import command

import frazil
from frazil.cli.console import named_project, out, runnable
from frazil.cli.main import app

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without a lake; no test of it makes one."""
    folder = tmp_path_factory.mktemp("shop")
    assert command("init", f"{folder}", "--sample", "--rows", "5", "--batches", "0").code == 0
    return folder


def words(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.mark.parametrize("given", [["PATH"], ["-p", "PATH"], ["--project", "PATH"], []])
def test_the_project_is_an_argument_an_option_or_a_variable(
    given: list[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not given:
        monkeypatch.setenv("FRAZIL_PROJECT", f"{project}")

    assert command("validate", *(word.replace("PATH", f"{project}") for word in given)).code == 0


def test_a_given_project_wins_over_the_variable(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAZIL_PROJECT", "./nosuch")

    assert command("validate", f"{project}").code == 0
    assert command("key", "orders", "1", "-p", f"{project}").code == 4
    assert "no declaration at nosuch" in command("validate").text


@pytest.mark.parametrize(
    ("given", "there"), [(["PATH"], " -p PATH"), (["-p", "PATH"], " -p PATH"), ([], ""), (["."], "")]
)
def test_commands_in_hints_name_the_project_that_the_command_line_names(
    given: list[str], there: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)

    said = command("ls", *(word.replace("PATH", f"{project}") for word in given))

    there = there.replace("PATH", f"{project}")
    assert f"make it: frazil run{there}; where that commits nothing, frazil plan{there} says why" in words(said.text)


def test_every_command_that_takes_a_project_is_known_to_hints() -> None:
    taking = {
        name
        for name, one in typer.main.get_command(app).commands.items()  # type: ignore[attr-defined]
        if any(parameter.name == "project" for parameter in one.params)
    }

    named_project.set("p")
    missing = {name for name in taking if runnable(f"frazil {name}") != f"frazil {name} -p p"}
    named_project.set(None)

    assert missing == set()
    assert runnable("frazil run") == "frazil run"


@pytest.mark.parametrize("given", [["key", "orders", "5", "PATH"], ["runs", "PATH"], ["lineage", "PATH"]])
def test_a_project_in_the_place_of_another_word_is_refused_with_the_option(
    given: list[str], project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    said = command(*(word.replace("PATH", f"{project}") for word in given))

    assert said.code == 2
    assert "is a project; name it with an option: --project" in words(said.text)


def test_a_project_given_twice_is_refused(project: Path) -> None:
    said = command("validate", f"{project}", "--project", f"{project}")

    assert said.code == 2
    assert "the project is given twice" in words(said.text)


@pytest.mark.parametrize(
    ("given", "new"),
    [
        (["key", "orders", "1", "--path", "PATH"], "--path is now --project"),
        (["quarantine", "PATH", "--table", "orders"], "--table is now --select"),
        (["rollback", "PATH", "-t", "orders", "--to", "batch:1"], "--table is now --select"),
        (["rebuild", "PATH", "--select", "nosuch"], "frazil rebuild is now frazil run --full-refresh"),
        (["schema", "orders", "--project", "PATH"], "frazil schema is now frazil status"),
        (["generate", "PATH/orders"], "frazil generate is now frazil init --sample;"),
    ],
)
def test_an_old_form_works_with_a_warning_that_names_the_new_one(given: list[str], new: str, project: Path) -> None:
    said = command(*(word.replace("PATH", f"{project}") for word in given))

    assert new in said.text
    assert "[FZ" in said.text  # what the command says of a lake that is not there
    assert new not in said.stdout


def test_old_forms_write_what_they_wrote(tmp_path: Path) -> None:
    made = command("generate", f"{tmp_path / 'new' / 'files'}", "--rows", "5", "--json")
    sql = command("sql", "audit-trigger", "public.orders")
    catalog = command("serve", "trino", f"{tmp_path / 'new'}", "--catalog-file")

    written = json.loads(made.stdout)
    assert [len(written[name]) for name in ("load", "batches")] == [1, 3]
    assert frazil.load(tmp_path / "new").tables[0].source.path == ("./files",)
    assert sql.stdout == command("export", "audit-trigger", "public.orders").stdout
    assert "frazil sql audit-trigger is now frazil export audit-trigger" in sql.text
    assert catalog.stdout == command("export", "trino", f"{tmp_path / 'new'}").stdout
    assert "--catalog-file is now frazil export trino" in catalog.text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["PATH"], "no lake yet at PATH"),
        (["orders", "-p", "PATH"], "no lake yet at PATH"),
        (["nosuch"], "no declaration at nosuch"),
        (["orders", "-p", "PATH", "--select", "orders"], "tables are named twice"),
    ],
)
def test_status_takes_a_table_or_the_project(
    given: list[str], said: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    found = words(command("status", *(word.replace("PATH", f"{project}") for word in given)).text)

    assert said.replace("PATH", f"{project}") in found


def test_sizes_of_sample_files_are_refused_with_a_source(tmp_path: Path) -> None:
    said = command("init", f"{tmp_path}", "--from", "./landing", "--rows", "5")

    assert said.code == 2
    assert "remove --rows" in words(said.text)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--certificates", "--select", "orders"], "--certificates proves the whole lake; remove --select"),
        (["--certificates", "--exclude", "orders"], "remove --select or --exclude"),
        (["--certificates", "--source"], "remove --source"),
        (["--known", "ab", "--against", "./dump"], "--known proves the whole lake; remove --against"),
        (["--source", "--against", "./dump"], "two comparisons"),
    ],
)
def test_check_refuses_options_that_exclude_each_other(options: list[str], problem: str, project: Path) -> None:
    said = command("check", f"{project}", *options)

    assert said.code == 2
    assert problem in words(said.text)


@pytest.mark.parametrize("given", [[], ["--select", "a", "--select", "b"]])
def test_commands_of_one_table_need_one(given: list[str], project: Path) -> None:
    said = command("erase", f"{project}", *given, "--key", "1", "--yes")

    assert said.code == 2
    assert "name one table" in words(said.text)


def test_an_erase_without_keys_is_refused_before_spark_starts(project: Path) -> None:
    said = command("erase", f"{project}", "--select", "orders", "--yes")

    assert said.code == 2
    assert "name the keys" in words(said.text)


def test_tables_are_chosen_in_a_database_only(tmp_path: Path) -> None:
    said = command("init", f"{tmp_path}", "--tables", "orders")

    assert said.code == 2
    assert "a database only" in said.text
    assert [*tmp_path.iterdir()] == []


def test_a_project_from_another_database_is_refused_without_its_password(tmp_path: Path) -> None:
    said = command("init", f"{tmp_path}", "--from", "mysql://app:hidden@db/shop")

    assert said.code == 2
    assert "cannot be made from mysql://…" in said.text
    assert "hidden" not in said.text
    assert [*tmp_path.iterdir()] == []


def test_the_log_level_holds_for_spark_and_clients(project: Path) -> None:
    log = logging.getLogger("frazil")
    try:
        assert command("validate", f"{project}", "--log-level", "debug").code == 0
        assert log.level == logging.DEBUG
    finally:
        log.setLevel(logging.NOTSET)
    assert command("validate", f"{project}", "--log-level", "loud").code == 2


def test_quiet_prints_errors_only(project: Path) -> None:
    assert command("validate", f"{project}", "-q").text == ""
    assert "[FZ103]" in command("plan", f"{project}", "-q", "--select", "nosuch").text
    assert "no problems" in command("validate", f"{project}").text
    assert not out.quiet
