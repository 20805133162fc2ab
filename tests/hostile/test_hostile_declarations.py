"""Whatever a declaration holds, ``frazil validate`` tells a person what is wrong, and where."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.hostile.declarations import CONTENTS, EDITS, RIGHT, Content, Edit
from tests.hostile.situation import command

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project's folder with a file of the source and a link to where it stands."""
    landing = tmp_path / "landing" / "t"
    landing.mkdir(parents=True)
    (landing / "LOAD00000001.csv").write_text("op,id,ts,v\nI,1,2026-01-01 00:00:00,a\n", encoding="utf-8")
    (tmp_path / "link").symlink_to(landing)
    return tmp_path


def test_the_declaration_that_is_edited_is_right(folder: Path) -> None:
    (folder / "frazil.yml").write_text(RIGHT, encoding="utf-8")

    assert command("validate", f"{folder}").text == "shop: 1 table, 1 mart, 0 aggregates, no problems\n"


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.name)
def test_a_mistake_is_reported_with_its_place_and_without_a_stack(
    edit: Edit, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", f"{folder}")
    assert edit.before in RIGHT
    text = RIGHT.replace(edit.before, edit.after.replace("FOLDER", f"{folder}"), 1)
    (folder / "frazil.yml").write_text(text, encoding="utf-8")

    said = command("validate", f"{folder}")

    assert said.code == 2
    assert edit.says in said.text
    assert said.text.startswith("[FZ100] ")
    assert re.search(r"frazil\.yml:\d+:\d+: |^expr of ", said.text, re.MULTILINE)
    assert "hunter2" not in said.text
    assert len(said.text) < 1_000


@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: content.name)
def test_other_files_than_declarations_are_refused(content: Content, folder: Path) -> None:
    content.put(folder / "frazil.yml")

    said = command("validate", f"{folder}")

    assert said.code == content.code
    assert content.says in said.text
