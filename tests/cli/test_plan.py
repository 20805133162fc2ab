"""``frazil plan`` in front of a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient
from tests.hostile.situation import command

from frazil import api
from frazil.ui.app import Project, create_app
from frazil.ui.guard import Access, local_hosts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project without a lake, with a file of one record."""
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "a.csv").write_text("op,id,name\nI,1,a\n", encoding="utf-8")
    (tmp_path / "frazil.yml").write_text(
        "pipeline: p\nlake: {warehouse: lake}\ntables:\n"
        "  - {name: t, source: {kind: dms, path: landing, header: true, settle_seconds: 0}, keys: [id]}\n"
        "  - {name: other, source: {kind: dms, path: none, header: true, settle_seconds: 0}, keys: [id]}\n",
        encoding="utf-8",
    )
    return tmp_path


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


def test_an_approved_plan_is_done_only_while_it_is_the_same(shop: Path) -> None:
    file = shop / "plan.json"
    saved = command("plan", f"{shop}", "--select", "t", "--save", f"{file}")
    same = api.approved_plan(shop, file)

    (shop / "landing" / "b.csv").write_text("op,id,name\nI,2,b\n", encoding="utf-8")
    said = command("run", f"{shop}", "--plan", f"{file}")

    assert (saved.code, f"frazil run -p {shop} --plan {file}" in saved.text) == (0, True)
    assert (same.selection.tables, same.exit_code) == (("t",), 0)
    assert said.code == 7
    assert "FZ603" in said.text
    assert "now also: t: ingest 2 files" in said.text
    assert "not any more: t: ingest 1 file" in said.text
    assert not (shop / "lake").exists()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("frazil.yml", "keys: [id]}", "keys: [id], max_bad_rows: 5}"), ("landing/a.csv", "I,1,a", "I,1,b")],
)
def test_another_declaration_or_content_needs_another_approval(shop: Path, name: str, old: str, new: str) -> None:
    file = shop / "plan.json"
    command("plan", f"{shop}", "--select", "t", "--save", f"{file}")
    before = (shop / name).read_text(encoding="utf-8")

    (shop / name).write_text(before.replace(old, new, 1), encoding="utf-8")

    assert "is another one" in command("run", f"{shop}", "--plan", f"{file}").text


def test_a_plan_with_errors_is_not_saved(shop: Path) -> None:
    said = command("plan", f"{shop}", "--save", f"{shop / 'plan.json'}")

    assert said.code != 0
    assert not (shop / "plan.json").exists()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"select": 1}'])
def test_a_file_without_a_saved_plan_is_refused(shop: Path, text: str) -> None:
    (shop / "plan.json").write_text(text, encoding="utf-8")

    said = command("run", f"{shop}", "--plan", f"{shop / 'plan.json'}")

    assert (said.code, "is not a saved plan" in said.text) == (2, True)


def test_the_page_saves_the_plan_that_it_shows_or_none(shop: Path) -> None:
    access = Access(port=80, hosts=local_hosts("127.0.0.1", 80) | {"testserver"})
    with TestClient(create_app(Project(shop), access)) as page:
        page.cookies.set(access.cookie, access.session)
        shown = page.get("/plan?table=t").text
        (link,) = [part.split('"')[0].replace("&amp;", "&") for part in shown.split('href="') if "approve=" in part]
        saved = page.get(link)
        (shop / "plan.json").write_bytes(saved.content)
        same = api.approved_plan(shop, shop / "plan.json")
        (shop / "landing" / "b.csv").write_text("op,id,name\nI,2,b\n", encoding="utf-8")
        late = page.get(link)

    assert "attachment" in saved.headers["content-disposition"]
    assert same.selection.tables == ("t",)
    assert (late.status_code, "not the shown one" in late.text) == (409, True)
