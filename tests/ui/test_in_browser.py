"""The pages in a real browser: accessibility, errors of the console, requests to other machines, width, and keys."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright
from tests.ui.conftest import BIDI, FIRST, HEAD, HOSTILE
from tests.ui.conftest import DECLARATION as SHOP
from tests.ui.test_guard import DECLARATION

import frazil
from frazil import api
from frazil.ui.server import page_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from playwright.sync_api import Browser, Page
    from pyspark.sql import SparkSession

CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: `make .venv/.browser` installs it"),
]
SITE: Final = Path(__file__).parents[2] / "build" / "docs"
PATHS: Final = (
    "/",
    "/?q=nosuch",
    "/tables/items",
    "/tables/items/keys?k=1",
    "/tables/items/keys?k=99",
    "/quarantine?table=items",
    "/late?table=items",
    "/runs",
    "/runs/{run}",
    "/lineage?table=items",
    "/sql?q=select+*+from+items",
    "/sql?q=select+nosuch",
    "/plan",
    "/proofs",
    "/proofs?table=items",
    "/diff",
    "/diff?mart=items&from=batch:1",
    "/diff?mart=items&from=nosuch",
    "/nosuch",
)
_WIDER: Final = "() => document.scrollingElement.scrollWidth > window.innerWidth"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@contextmanager
def served(folder: Path, docs: Path | None = None, *, allow_writes: bool = False) -> Iterator[str]:
    """Serve the page of a project; yield the link that opens it."""
    server = page_server(folder, docs=docs, allow_writes=allow_writes)
    thread = Thread(target=server.serve)
    thread.start()
    try:
        yield server.link
    finally:
        server.stop()
        thread.join()


@contextmanager
def opened(
    browser: Browser, link: str, scheme: Literal["light", "dark"] = "light", width: int = 1280
) -> Iterator[tuple[Page, list[str]]]:
    """Open the link; yield the page, and a list that gets what went wrong in it."""
    wrong: list[str] = []
    with browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}) as context:
        page = context.new_page()
        here = link.partition("?")[0]
        page.on("console", lambda said: wrong.extend([said.text] if said.type in {"error", "warning"} else []))
        page.on("pageerror", lambda error: wrong.append(f"{error}"))
        page.on("dialog", lambda dialog: dialog.dismiss())
        page.on("dialog", lambda dialog: wrong.append(f"a script ran: {dialog.message}"))
        page.on("request", lambda asked: wrong.extend([] if asked.url.startswith((here, "data:")) else [asked.url]))
        page.set_default_timeout(20_000)
        page.goto(link)
        yield page, wrong


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1280),
        ("dark", 390),
        pytest.param("light", 390, marks=pytest.mark.laws),
        pytest.param("dark", 1280, marks=pytest.mark.laws),
    ],
)
def test_every_page_of_a_lake_is_sound(
    scheme: Literal["light", "dark"], width: int, browser: Browser, project: Path
) -> None:
    """Hostile values are in the rows, in quarantine, and in the results of SQL."""
    (run, *_) = api.runs(project)
    with served(project) as link, opened(browser, link, scheme, width) as (page, wrong):
        address = link.partition("/?")[0]
        for path in PATHS:
            answer = page.goto(f"{address}{path.format(run=run.run_id)}")
            assert answer is not None
            found = [f"{one['id']}: {one['help']}" for one in Axe().run(page).response["violations"]]
            is_missing = answer.status >= 400
            told = [text for text in wrong if not (is_missing and "Failed to load resource" in text)]
            assert (path, found, told, page.evaluate(_WIDER)) == (path, [], [], False)
            wrong.clear()


def test_a_project_without_a_lake_has_sound_pages(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    with served(tmp_path) as link, opened(browser, link) as (page, wrong):
        for path in ("/", "/tables/items", "/quarantine", "/runs", "/sql", "/plan", "/proofs?table=items", "/diff"):
            page.goto(f"{link.partition('/?')[0]}{path}")
            assert (path, Axe().run(page).response["violations"]) == (path, [])

        assert [text for text in wrong if "Failed to load resource" not in text] == []


@pytest.mark.skipif(not SITE.is_dir(), reason="no site of the documentation: `make docs` builds it")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_docs_work_under_the_policy_of_the_server(
    scheme: Literal["light", "dark"], browser: Browser, tmp_path: Path
) -> None:
    """The search finds pages, the theme switches, and nothing is refused or asked elsewhere."""
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    with served(tmp_path, SITE) as link, opened(browser, link, scheme) as (page, wrong):
        page.click("text=Docs")
        for name in ("index", "errors", "commands", "api", "first-postgresql", "benchmarks"):
            page.goto(f"{link.partition('/?')[0]}/docs/{name}.html")
        before = page.evaluate("() => document.body.dataset.theme")
        page.locator("button.theme-toggle >> visible=true").first.click()
        assert page.evaluate("() => document.body.dataset.theme") != before
        page.fill("input[name=q] >> visible=true", "tombstone")
        page.keyboard.press("Enter")
        page.locator("#search-results li a").first.click()

        assert "tombstone" in page.content().lower()
        assert wrong == []


def test_from_the_first_page_to_the_story_of_a_key_by_keyboard(browser: Browser, project: Path) -> None:
    with served(project) as link, opened(browser, link) as (page, wrong):
        page.keyboard.press("/")
        assert page.evaluate("() => document.activeElement.id") == "find"
        page.keyboard.type("items")
        page.keyboard.press("Enter")
        page.click("a[href='/tables/items']")
        page.click("a[href^='/tables/items/keys']")

        assert page.locator("svg").count() > 0
        assert wrong == []


def test_a_part_of_the_square_says_what_was_true_when(browser: Browser, project: Path) -> None:
    with served(project) as link, opened(browser, link) as (page, wrong):
        page.goto(f"{link.partition('/?')[0]}/tables/items/keys?k=1")
        cells = page.locator("a:has(> .cell)")
        cells.first.focus()
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Enter")
        page.wait_for_url("**known=**")

        assert page.locator("a[aria-current='true']:has(> .cell)").count() == 1
        assert wrong == []


@pytest.fixture(scope="module")
def wrong_prices(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with three records in quarantine, whose prices have commas."""
    del spark  # only there so that Java runs, with the settings of the tests
    folder = tmp_path_factory.mktemp("prices")
    (folder / "landing").mkdir()
    (folder / "frazil.yml").write_text(SHOP, encoding="utf-8")
    bad = f"""\
I,11,2026-01-06 08:00:00,rime,"11,50",k@x.org
I,12,2026-01-06 08:00:00,{HOSTILE},"12,00",l@x.org
I,13,2026-01-06 08:00:00,{BIDI},"1,2,3",m@x.org
"""
    for name, text in {"LOAD00000001.csv": FIRST["LOAD00000001.csv"], "20260106-000000001.csv": bad}.items():
        (folder / "landing" / name).write_text(HEAD + text, encoding="utf-8")
    frazil.run(folder)
    return folder


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_forms_of_corrections_are_sound(
    scheme: Literal["light", "dark"], width: int, browser: Browser, wrong_prices: Path
) -> None:
    with (
        served(wrong_prices, allow_writes=True) as link,
        opened(browser, link, scheme, width) as (page, wrong),
    ):
        address = link.partition("/?")[0]
        for way in ("Correct this record >> nth=1", "Correct this record >> nth=2", "td >> text=Correct"):
            page.goto(f"{address}/quarantine?table=items")
            for there in (f"text={way}" if way[0] == "C" else way, "text=Preview"):
                assert (Axe().run(page).response["violations"], page.evaluate(_WIDER)) == ([], False)
                page.click(there)

            assert (Axe().run(page).response["violations"], page.evaluate(_WIDER)) == ([], False)
            assert page.locator("h2 >> text=No record is changed").count() == 1
        assert wrong == []


def test_records_are_corrected_previewed_and_replayed_in_the_page(browser: Browser, wrong_prices: Path) -> None:
    """Two of three pass, as the preview says; the third one stays, with its new reason and its hostile name."""
    before = api.query(wrong_prices, "select name from marts.items where id > 10").rows
    with served(wrong_prices, allow_writes=True) as link, opened(browser, link) as (page, wrong):
        page.goto(f"{link.partition('/?')[0]}/quarantine?table=items")
        page.click("td >> text=Correct")
        page.fill("#old", ",")
        page.fill("#new", ".")
        page.click("text=Preview")
        previewed = page.locator("section[role=status]").inner_text()
        page.click("text=Replay 3 corrected records")
        page.wait_for_selector("text=at work")
        page.wait_for_selector("text=3 corrected records of items were replayed", timeout=300_000)
        shown = page.locator("main").inner_text()
        page.click("text=The run")

        assert page.locator("text=marts.items_history").count() > 0
        assert wrong == []
    assert (before, previewed.splitlines()[0]) == ([], "2 of 3 would pass")
    assert "1.2.3" in shown
    found = api.query(wrong_prices, "select id, name, price::text from marts.items where id > 10 order by id").rows
    assert [*map(tuple, found)] == [(11, "rime", "11.50"), (12, HOSTILE, "12.00")]
    (left,) = api.quarantine(wrong_prices, "items").records
    assert (left.row, left.reason.rpartition(": ")[2]) == (3, "1.2.3")
