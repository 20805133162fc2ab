# ruff: noqa: INP001 - a script, not a package
"""Take the pictures of `frazil ui` in the docs anew: ``.venv/bin/python scripts/pictures.py``.

It needs Chromium (``make .venv/.browser``). It runs the example of hosts in a folder of its own, with the file that
comes late, and takes its pages.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Final

from playwright.sync_api import sync_playwright

import frazil
from frazil.ui.server import page_server

if TYPE_CHECKING:
    from typing import Literal

    from playwright.sync_api import Browser

ROOT: Final = Path(__file__).parents[1]
WIDTH: Final = 1280
PICTURES: Final[tuple[tuple[str, str, int, Literal["dark", "light"]], ...]] = (
    ("ui-key", "/tables/hosts/keys?k=1006", 650, "dark"),
    ("ui-tables", "/", 480, "light"),
    ("ui-quarantine", "/quarantine?table=hosts", 480, "light"),
)
"""File in docs, address, height in pixels and colours of each picture."""


def example(folder: Path) -> Path:
    """Run the example of hosts, then once more with its late file; return its project."""
    project = folder / "airbnb"
    shutil.copytree(ROOT / "examples" / "airbnb", project)
    frazil.run(project)
    shutil.copy(next((project / "late").iterdir()), project / "landing" / "airbnb_db" / "public" / "hosts_demo")
    frazil.run(project)
    return project


def take(browser: Browser, link: str) -> None:
    """Take each picture."""
    page = browser.new_page()
    page.goto(link)
    address = link.partition("/?")[0]
    for name, path, height, colours in PICTURES:
        page.set_viewport_size({"width": WIDTH, "height": height})
        page.emulate_media(color_scheme=colours, reduced_motion="reduce")
        page.goto(f"{address}{path}")
        page.screenshot(path=ROOT / "docs" / f"{name}.png")


def main() -> None:
    """Take them all."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("pictures: no Chromium on this machine: `make .venv/.browser` installs it")
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = page_server(example(Path(folder)))
        thread = Thread(target=server.serve)
        thread.start()
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            take(browser, server.link)
        finally:
            browser.close()
            server.stop()
            thread.join()


if __name__ == "__main__":
    main()
