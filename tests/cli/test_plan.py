"""``frazil plan`` in front of a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.hostile.situation import command

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("columns", ["", "columns: [{name: id, type: int}]"])
def test_files_with_another_delimiter_have_the_setting_as_a_hint(tmp_path: Path, columns: str) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.csv").write_text("op;id;name\nI;1;a\n", encoding="utf-8")
    (tmp_path / "frazil.yml").write_text(
        "pipeline: p\nlake: {warehouse: lake}\ntables:\n"
        "  - {name: t, source: {kind: dms, path: landing, header: true, settle_seconds: 0}, keys: [id], "
        f"{columns}}}\n",
        encoding="utf-8",
    )

    said = command("plan", f"{tmp_path}")

    assert said.code in {2, 6}
    assert "nothing to do" not in said.text
    assert 'csv_delimiter: ";"' in said.text


def test_a_topic_whose_messages_are_not_captured_yet_is_not_done(tmp_path: Path) -> None:
    (tmp_path / "frazil.yml").write_text(
        "pipeline: p\nlake: {warehouse: lake}\ntables:\n"
        "  - {name: t, keys: [id], columns: [{name: id, type: int}],\n"
        "     source: {kind: debezium, servers: '127.0.0.1:1', topic: t, landing: landing}}\n",
        encoding="utf-8",
    )

    said = command("plan", f"{tmp_path}")

    assert said.code == 0
    assert "t: a run captures topic t of 127.0.0.1:1 first" in said.text
    assert "nothing to do" not in said.text
