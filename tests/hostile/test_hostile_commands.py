"""Whatever is typed, a command ends with a code that means something and says what to do."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

import pytest
from tests.hostile.commands import LINES, Line
from tests.hostile.situation import command

if TYPE_CHECKING:
    from pathlib import Path

_TABLE: Final = """
  - name: {name}
    source: {{kind: dms, path: ./landing, header: true}}
    keys: [id]
    columns: [{{name: id, type: int}}, {{name: v}}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project that nothing was run in."""
    (tmp_path / "landing").mkdir()
    (tmp_path / "lake").mkdir()
    text = "pipeline: shop\nlake: {warehouse: ./lake}\ntables:" + "".join(_TABLE.format(name=name) for name in "ab")
    (tmp_path / "frazil.yml").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.line)
def test_a_command_line_ends_with_a_code_and_words(
    line: Line, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    nowhere = tmp_path_factory.mktemp("none") / "nowhere"
    args = shlex.split(line.line.replace("NOWHERE", f"{nowhere}").replace("HERE", f"{folder}"))

    said = command(*args, answer=line.answer)

    assert said.code == line.code, said.text
    assert line.says in said.text
