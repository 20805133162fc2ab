"""Access to the page: hosts, links and cookies, methods, sites."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from frazil.errors import DeclarationError
from frazil.ui.app import Project, create_app
from frazil.ui.guard import HEADERS, Access, local_hosts
from frazil.ui.server import page_server

if TYPE_CHECKING:
    from pathlib import Path

PORT = 8321
OWN = {"sec-fetch-site": "same-origin", "origin": f"http://127.0.0.1:{PORT}"}
CORRECT = "/correct?table=items&rule=cast"
DECLARATION = """\
pipeline: <b>shop</b>
lake: {warehouse: ./lake}
tables:
  - name: items
    source: {kind: dms, path: ./landing, header: true}
    keys: [id]
    sequence_by: [ts]
    columns: [{name: id, type: int}, {name: ts, type: timestamp}]
"""


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A project without a lake."""
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    return tmp_path


def client_of(folder: Path, access: Access | None = None, *, known: bool = True) -> TestClient:
    own = access or Access(port=PORT, hosts=local_hosts("127.0.0.1", PORT))
    made = TestClient(create_app(Project(folder), own), base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False)
    if known:
        made.cookies.set(own.cookie, own.session)
    return made


def test_a_token_opens_one_browser_once(empty: Path) -> None:
    links: list[str] = []
    access = Access(port=PORT, hosts=local_hosts("127.0.0.1", PORT), renewed=links.append)
    token = access.token

    opened = client_of(empty, access, known=False).get(f"/sql?token={token}&q=select+1")
    again = client_of(empty, access, known=False).get(f"/?token={token}")

    assert (opened.status_code, opened.headers["location"]) == (303, "/sql?q=select+1")
    cookie = opened.headers["set-cookie"]
    assert cookie.startswith(f"frazil_{PORT}={access.session}")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert again.status_code == 403
    assert links == [access.token]
    assert access.token != token


def test_a_redirect_stays_on_this_server(empty: Path) -> None:
    access = Access(port=PORT, hosts=local_hosts("127.0.0.1", PORT))

    opened = client_of(empty, access, known=False).get(f"/%2Fevil.example/?token={access.token}")

    assert opened.headers["location"] == "/evil.example/"


@pytest.mark.parametrize("path", ["/", "/tables/items", "/sql?q=select+1", "/nosuch"])
def test_without_a_cookie_nothing_is_answered(path: str, empty: Path) -> None:
    answer = client_of(empty, known=False).get(path)

    assert answer.status_code == 403
    assert "items" not in answer.text


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:80", f"localhost.evil:{PORT}", ""])
def test_another_host_is_refused(host: str, empty: Path) -> None:
    assert client_of(empty).get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    ("method", "status"), [("POST", 403), ("PUT", 405), ("DELETE", 405), ("OPTIONS", 405), ("PATCH", 405)]
)
@pytest.mark.parametrize("path", ["/", "/correct?table=items&rule=cast"])
def test_only_reading_is_allowed(path: str, method: str, status: int, empty: Path) -> None:
    assert client_of(empty).request(method, path, headers=OWN).status_code == status


def test_a_server_that_only_reads_has_no_form_of_corrections(empty: Path) -> None:
    answer = client_of(empty).get("/correct?table=items&rule=cast")

    assert (answer.status_code, "--allow-writes" in answer.text, "<textarea" in answer.text) == (403, True, False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": ""},
        {"origin": "http://evil.example"},
        {"origin": f"http://localhost:{PORT}"},  # another name of this server is another origin
        {"origin": "null"},
        {"origin": ""},
    ],
)
def test_only_a_form_of_the_page_may_write(wrong: dict[str, str], empty: Path) -> None:
    access = Access(port=PORT, hosts=local_hosts("127.0.0.1", PORT), allow_writes=True)

    answer = client_of(empty, access).post(CORRECT, headers=OWN | wrong, data={"token": access.form})

    assert (answer.status_code, "Only a form of this page" in answer.text) == (403, True)


@pytest.mark.parametrize(
    ("known", "token", "status", "says"),
    [
        (False, "{form}", 403, "needs the link"),
        (True, "", 403, "not of this server"),
        (True, "{session}", 403, "not of this server"),
        (True, "{form}" + "x" * 5_000_000, 413, "at most"),
        (True, "{form}", 503, "no lake yet"),
    ],
)
def test_a_form_needs_the_cookie_and_the_token_of_this_server(
    token: str, status: int, says: str, empty: Path, *, known: bool
) -> None:
    access = Access(port=PORT, hosts=local_hosts("127.0.0.1", PORT), allow_writes=True)
    sent = {"token": token.format(form=access.form, session=access.session), "do": "replay"}

    answer = client_of(empty, access, known=known).post(CORRECT, headers=OWN, data=sent)

    assert (answer.status_code, says in answer.text) == (status, True)


@pytest.mark.parametrize("path", ["/", "/sql", "/quarantine"])
def test_pages_that_only_show_take_no_form(path: str, empty: Path) -> None:
    access = Access(port=PORT, hosts=local_hosts("127.0.0.1", PORT), allow_writes=True)

    assert client_of(empty, access).post(path, headers=OWN, data={"token": access.form}).status_code == 405


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_gets_no_answer(site: str, empty: Path) -> None:
    assert client_of(empty).get("/", headers={"sec-fetch-site": site}).status_code == 403


@pytest.mark.parametrize("path", ["/", "/static/ui.css", "/nosuch", "/static/../app.py"])
def test_every_answer_has_the_headers(path: str, empty: Path) -> None:
    answer = client_of(empty).get(path)

    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "access-control-allow-origin" not in answer.headers


def test_an_empty_lake_says_what_to_do(empty: Path) -> None:
    answer = client_of(empty).get("/")

    assert answer.status_code == 200
    assert "The lake is empty" in answer.text
    assert "<b>" not in answer.text
    assert client_of(empty).get("/tables/items").status_code == 200


def test_an_error_shows_its_code_and_the_way_out(empty: Path) -> None:
    (empty / "frazil.yml").write_text("pipeline: x\ntabels: []\n", encoding="utf-8")

    answer = client_of(empty).get("/")

    assert answer.status_code == 400
    assert "FZ100" in answer.text
    assert "tabels" in answer.text


def test_a_missing_declaration_is_an_error_before_the_first_page(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="no declaration"):
        page_server(tmp_path)
