"""The pages of a lake: shown values, and hostile values as text."""

from __future__ import annotations

import csv
from io import StringIO
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from frazil import api
from frazil.ui.app import Project, Replay, Replays, create_app
from frazil.ui.guard import Access, local_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def page(project: Path) -> Iterator[TestClient]:
    """A browser that has the cookie."""
    access = Access(port=80, hosts=local_hosts("127.0.0.1", 80) | {"testserver"})
    with TestClient(create_app(Project(project), access)) as client:
        client.cookies.set(access.cookie, access.session)
        yield client


def test_the_overview_has_every_table_with_its_state(page: TestClient) -> None:
    shown = page.get("/").text

    assert 'href="/tables/items"' in shown
    assert 'href="/quarantine?table=items">1</a>' in shown
    assert "marts.items_history" in shown
    assert "gold.prices" in shown
    assert shown.count('class="run good"') == 4  # two runs of the table, two of the aggregate


@pytest.mark.parametrize(("words", "found"), [("ite hist", True), ("PRICES", True), ("nosuch", False), ("<b>", False)])
def test_the_search_looks_at_all_names(page: TestClient, words: str, *, found: bool) -> None:
    shown = page.get("/", params={"q": words}).text

    assert ("No table of that name" in shown) is not found
    assert "<b>" not in shown


def test_hostile_values_are_text_and_personal_data_is_hidden(page: TestClient) -> None:
    shown = page.get("/tables/items").text

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "invoice⟦U+202E⟧gpj.exe" in shown
    assert "<script>" not in shown
    assert "hidden: pii" in shown
    assert "***" not in shown


def test_a_table_shows_its_batches_with_their_counts(page: TestClient, project: Path) -> None:
    newest, first = api.batches(project, "items")

    assert (newest.batch, first.batch) == (2, 1)
    assert (first.records, first.quarantined) == (8, 1)
    assert [commit.name for commit in newest.commits] == ["marts.items", "marts.items_history"]
    assert page.get("/tables/items").text.count('class="tag">') >= 2


def test_pages_of_rows_hold_every_row_once(page: TestClient, project: Path) -> None:
    every = api.rows(project, "items_history", limit=100)
    found, after = [], None
    while True:
        some = api.rows(project, "items_history", after=after, limit=2)
        found += some.rows
        if (after := some.next) is None:
            break

    assert len(every.rows) > 4
    assert found == every.rows
    assert page.get("/tables/items", params={"mart": "items_history", "after": "nonsense"}).status_code == 200


def test_a_query_is_an_address(page: TestClient) -> None:
    shown = page.get("/sql", params={"q": "select name from marts.items where id = 3", "limit": "1"}).text

    assert "&lt;script&gt;" in shown
    assert "1 row" in shown


@pytest.mark.parametrize(
    "sql",
    ["select", "drop table x", "select 1; select 2", "select * from read_csv('/etc/passwd')", "select * from no"],
)
def test_a_query_that_cannot_run_says_why(page: TestClient, sql: str) -> None:
    shown = page.get("/sql", params={"q": sql})

    assert shown.status_code == 200
    assert 'role="alert"' in shown.text
    assert "root:" not in shown.text


def test_a_query_that_takes_too_long_is_stopped(page: TestClient) -> None:
    sql = "select count(*) from range(100000000000) a, range(1000) b"

    shown = page.get("/sql", params={"q": sql, "seconds": "1"})

    assert "took longer than 1 s" in shown.text


def test_a_download_guards_formulas(page: TestClient) -> None:
    sql = "select id, name, -1 as less, '@x' as at from marts.items where id = 7"

    answer = page.get("/sql", params={"q": sql, "form": "csv"})

    assert [*csv.reader(StringIO(answer.text))] == [["id", "name", "less", "at"], ["7", "'=1+1", "-1", "'@x"]]
    assert "attachment" in answer.headers["content-disposition"]


def test_the_story_of_a_key_is_drawn_with_its_late_change(page: TestClient) -> None:
    shown = page.get("/tables/items/keys", params={"k": "1"}).text

    assert shown.count('class="link late"') == 2  # one in the legend
    assert 'id="square"' in shown
    assert "1.30" in shown
    assert "***" not in shown
    assert page.get("/tables/items/keys", params={"k": "one"}).status_code == 400
    assert "nothing of this key" in page.get("/tables/items/keys", params={"k": "77"}).text


def test_quarantine_marks_the_wrong_value(page: TestClient) -> None:
    shown = page.get("/quarantine", params={"table": "items"}).text

    assert "four" in shown.partition("<mark>")[2].partition("</mark>")[0]
    assert "items" in page.get("/quarantine").text
    assert "<mark>" not in page.get("/quarantine", params={"table": "items", "rule": "null_key"}).text


def test_late_changes_are_a_heat_map(page: TestClient) -> None:
    shown = page.get("/late").text

    assert "7 changes" not in shown  # each day has its own cell
    assert 'class="heat h' in shown


def test_the_plan_says_what_the_next_run_does(page: TestClient, project: Path) -> None:
    assert "Nothing to do" in page.get("/plan").text
    file = project / "landing" / "20260109-000000001.csv"
    file.write_text("op,id,ts,name,price,mail\nI,9,2026-01-09 00:00:00,x,1.00,f@x.org\n", encoding="utf-8")

    shown = page.get("/plan", params={"table": "items"}).text
    file.unlink()

    assert "landing/20260109-000000001.csv" in shown
    assert "apply batch 3 to items_history" in shown
    assert "frazil run --select items" in shown


def test_the_plan_says_what_a_run_captures_first(tmp_path: Path) -> None:
    """A source that has not been asked is not "nothing to do"."""
    topic = "{kind: debezium, servers: '127.0.0.1:1', topic: t, landing: landing}"
    (tmp_path / "frazil.yml").write_text(
        f"pipeline: shop\nlake: {{warehouse: ./lake}}\ntables:\n  - {{name: t, keys: [id], source: {topic}}}\n",
        encoding="utf-8",
    )
    access = Access(port=80, hosts=frozenset({"testserver"}))

    with TestClient(create_app(Project(tmp_path), access)) as client:
        client.cookies.set(access.cookie, access.session)
        shown = client.get("/plan").text

    assert "a run captures topic t of 127.0.0.1:1 first" in shown
    assert ("Capture first" in shown, "Nothing to do" in shown) == (True, False)


def test_a_diff_shows_changed_rows_and_hides_personal_data(page: TestClient) -> None:
    shown = page.get("/diff", params={"mart": "items", "from": "batch:1"}).text

    assert "0 inserted, 1 updated, 0 deleted" in shown
    assert "<del>1.50</del> <ins>1.70</ins>" in shown
    assert "hidden: pii" in shown
    assert "FZ180" in page.get("/diff", params={"mart": "items", "from": "nosuch"}).text
    assert "FZ103" in page.get("/diff", params={"mart": "<b>", "from": "batch:1"}).text


def test_proofs_are_made_when_a_table_is_asked_for(page: TestClient) -> None:
    assert "NOTHING-LOST" not in page.get("/proofs").text

    shown = page.get("/proofs", params={"table": "items"}).text

    assert shown.count(">holds</span>") >= 12
    assert ">fails</span>" not in shown


def test_one_replay_is_at_work_at_a_time_and_a_failed_one_says_why(project: Path) -> None:
    access = Access(port=80, hosts=local_hosts("127.0.0.1", 80) | {"testserver"}, allow_writes=True)
    replays = Replays(project)
    own = {"sec-fetch-site": "same-origin", "origin": "http://testserver"}
    sent = {"token": access.form, "do": "replay", "field": "price", "how": "whole", "new": "4.00"}
    with TestClient(create_app(Project(project), access, replays), follow_redirects=False) as client:
        client.cookies.set(access.cookie, access.session)
        replays.last = Replay(table="items", records=1)
        busy = client.post("/correct?table=items&rule=cast&column=price", headers=own, data=sent)
        nothing = client.post("/correct?table=items&rule=cast&column=price", headers=own, data=sent | {"new": "four"})
        working = client.get("/quarantine?table=items").text
        why = {"code": "FZ600", "message": "another run <b>works</b>", "hint": "wait"}
        replays.last = Replay(table="items", records=1, exit_code=7, errors=(why,))
        failed = client.get("/quarantine?table=items").text

    assert (busy.status_code, "another replay is at work" in busy.text) == (409, True)
    assert (nothing.status_code, "nothing is to be corrected" in nothing.text) == (409, True)
    assert 'data-live="5"' in working
    assert "ended with exit code 7" in failed
    assert "another run &lt;b&gt;works" in failed
