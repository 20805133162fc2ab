"""The documentation under ``/docs``: where it is installed, who may read it, and what its pages may do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient
from tests.ui.test_guard import DECLARATION, PORT

from frazil.ui.app import Project, create_app
from frazil.ui.guard import HEADERS, Access, local_hosts

if TYPE_CHECKING:
    from pathlib import Path

PAGES = ("/docs/", "/docs/guarantees/order.html", "/docs/_static/site.css")


def client_of(folder: Path, docs: Path | None, *, known: bool = True) -> TestClient:
    (folder / "landing").mkdir()
    (folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    access = Access(port=PORT, hosts=local_hosts("127.0.0.1", PORT))
    made = TestClient(create_app(Project(folder), access, docs=docs), base_url=f"http://127.0.0.1:{PORT}")
    if known:
        made.cookies.set(access.cookie, access.session)
    return made


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site of two pages and a style sheet, as ``make docs`` builds it."""
    folder = tmp_path / "site"
    for name in ("index.html", "guarantees/order.html", "_static/site.css"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"content of {name}", encoding="utf-8")
    return folder


def test_docs_that_are_installed_are_served_and_linked(tmp_path: Path, site: Path) -> None:
    client = client_of(tmp_path, site)

    answers = [client.get(path) for path in PAGES]
    wrong = client.get("/tables/nosuch")

    assert [answer.text.removeprefix("content of ") for answer in answers] == [
        "index.html",
        "guarantees/order.html",
        "_static/site.css",
    ]
    assert client.get("/docs").text == "content of index.html"
    assert 'href="/docs/"' in client.get("/").text
    assert 'href="/docs/errors.html#fz103"' in wrong.text


def test_the_link_is_absent_without_the_package(tmp_path: Path) -> None:
    client = client_of(tmp_path, None)

    assert "/docs" not in client.get("/").text
    assert "/docs" not in client.get("/tables/nosuch").text
    assert client.get("/docs/").status_code == 404


def test_docs_are_for_the_browser_of_the_link_only(tmp_path: Path, site: Path) -> None:
    client = client_of(tmp_path, site, known=False)

    assert {client.get(path).status_code for path in PAGES} == {403}


def test_docs_cannot_run_code_of_pages_or_ask_others(tmp_path: Path, site: Path) -> None:
    client = client_of(tmp_path, site)

    policy = dict(part.split(" ", 1) for part in client.get("/docs/").headers["content-security-policy"].split("; "))

    assert policy["default-src"] == "'none'"
    assert {policy["script-src"], policy["style-src"], policy["connect-src"]} == {"'self'"}
    assert client.get("/").headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
