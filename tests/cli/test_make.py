"""Commands that write a declaration: their files, which never replace others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

import frazil
from frazil.catalog import catalogs as catalog_clients
from frazil.cli.main import app
from frazil.spec.load.project import json_schema

if TYPE_CHECKING:
    from pathlib import Path

SMALL = ["--rows", "20", "--batches", "1", "--changes", "5"]


def command(*words: str) -> Any:
    return CliRunner().invoke(app, [*words], catch_exceptions=False)


@pytest.mark.parametrize("words", [["init", "shop"], ["init", "shop", "--sample", *SMALL]])
def test_a_declaration_is_written_that_an_editor_can_check(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert command(*words).exit_code == 0

    first = (tmp_path / "shop" / "frazil.yml").read_text(encoding="utf-8").splitlines()[0]
    schema = tmp_path / "shop" / first.removeprefix("# yaml-language-server: $schema=")
    assert json.loads(schema.read_text(encoding="utf-8")) == json_schema()
    assert command("validate", "shop").output == "shop: 1 table, 2 marts, 0 aggregates, no problems\n"
    (source,) = (table.source for table in frazil.load("shop").tables)
    assert [*(tmp_path / "shop" / source.path[0]).glob("LOAD*.csv")]


@pytest.mark.parametrize("words", [["init", "shop"], ["init", "shop", "--sample", *SMALL]])
def test_a_declaration_that_is_there_is_not_replaced(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop").mkdir()
    mine = tmp_path / "shop" / "frazil.yml"
    mine.write_text("mine", encoding="utf-8")

    result = command(*words)

    assert result.exit_code == 2
    assert "FZ105" in result.output
    assert [path.name for path in (tmp_path / "shop").iterdir()] == ["frazil.yml"]
    assert mine.read_text(encoding="utf-8") == "mine"


def test_a_new_project_keeps_its_data_out_of_git_and_an_own_gitignore_stays(tmp_path: Path) -> None:
    for name in ("new", "mine"):
        (tmp_path / name).mkdir()
    (tmp_path / "mine" / ".gitignore").write_text("mine", encoding="utf-8")

    for name in ("new", "mine"):
        assert command("init", f"{tmp_path / name}").exit_code == 0

    lines = (tmp_path / "new" / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert {"/lake/", "/landing/"} < {*lines}
    assert (tmp_path / "mine" / ".gitignore").read_text(encoding="utf-8") == "mine"


def test_validate_names_the_client_that_a_catalog_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("init", *SMALL).exit_code == 0
    file = tmp_path / "frazil.yml"
    catalog = "{warehouse: ./lake, catalog: {type: jdbc, uri: 'jdbc:postgresql://db/lake'}}"
    file.write_text(file.read_text(encoding="utf-8").replace("{warehouse: ./lake}", catalog), encoding="utf-8")
    monkeypatch.setattr(catalog_clients, "find_spec", lambda _: None)

    said, values = command("validate"), json.loads(command("validate", "--json").stdout)

    assert said.exit_code == 0
    assert "psycopg2" in said.output
    assert "frazil[catalogs]" in said.output
    assert len(values["warnings"]) == 1
