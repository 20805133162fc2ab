"""What the pages of ``frazil ui`` cost, over HTTP from a process of its own: ``python -m bench.ui [part …]``.

Parts are start, paint, weight, many, quarantine, key, lineage and views; without one, all. The first time, a run makes
a lake of 5 M orders, and others are made from its metadata: see ``bench.ui_lakes``.
"""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from http import HTTPStatus
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlencode, urlsplit

import psutil
from playwright.sync_api import sync_playwright

from bench.process import Watch
from bench.ui_lakes import ROWS, TABLES, drawn, many, shop
from frazil import api

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

_STARTS: Final = 5
_TIMES: Final = 40
_VIEWS: Final = 1_000
_MB: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer: seconds until its last byte, bytes as they were sent, and its text."""

    seconds: float
    size: int
    text: str


class Served:
    """``frazil ui`` on a lake, and one browser's connection to it.

    Attributes:
        ready_s: seconds from the start of the process until the link has opened it.
        link: its address, without the token.
    """

    def __init__(self, home: Path) -> None:
        began = time.perf_counter()
        command = [sys.executable, "-m", "frazil", "ui", "--json", "--no-open", "--port", "0", f"{home}"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._seen = psutil.Process(self._process.pid)
        self._watch = Watch(self._process.pid)
        assert self._process.stdout is not None
        told = urlsplit(json.loads("".join(iter(self._process.stdout.readline, "}\n")) + "}")["url"])
        self.link = f"http://{told.netloc}"
        self._connection = http.client.HTTPConnection(told.netloc)
        self._connection.request("GET", f"/?{told.query}")
        opened = self._connection.getresponse()
        opened.read()
        self.cookie = opened.headers["Set-Cookie"].partition(";")[0]
        self.ready_s = time.perf_counter() - began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.wait()
        self._watch.end()

    def get(self, path: str) -> Answer:
        """Ask for an address, as a browser does; any status but 200 is an error."""
        began = time.perf_counter()
        self._connection.request("GET", path, headers={"Cookie": self.cookie, "Accept-Encoding": "gzip"})
        answer = self._connection.getresponse()
        sent = answer.read()
        seconds = time.perf_counter() - began
        packed = answer.headers.get("Content-Encoding") == "gzip"
        text = (gzip.decompress(sent) if packed else sent).decode()
        if answer.status != HTTPStatus.OK:
            raise RuntimeError(f"{path}: {answer.status}: {text[:2000]}")
        return Answer(seconds=seconds, size=len(sent), text=text)

    @property
    def cpu_s(self) -> float:
        """CPU seconds of the process."""
        times = self._seen.cpu_times()
        return times.user + times.system

    @property
    def resident_mb(self) -> float:
        """Memory of the process now, in MB."""
        return self._seen.memory_info().rss / _MB

    @property
    def peak_mb(self) -> float:
        """Highest memory of the process so far, in MB."""
        return max(self._watch.peak_bytes.values(), default=0) / _MB


def tell(what: str, numbers: Sequence[float], bar: float, unit: str, *, cpu: float = 0.0, peak: float = 0.0) -> None:
    """Print one line of the table: the 95th percentile against its bar, and the median."""
    ordered = sorted(numbers)
    most = ordered[max(0, -(-95 * len(ordered) // 100) - 1)]
    cells = [what, f"{bar:g} {unit}", f"{most:.3g} {unit}", f"{median(numbers):.3g} {unit}", f"{len(numbers)}"]
    cells += [f"{cpu:.2f}" if cpu else "", f"{peak:.0f}" if peak else "", "yes" if most <= bar else "**no**"]
    print(f"| {' | '.join(cells)} |", flush=True)


def ask(served: Served, what: str, paths: Sequence[str], bar_ms: float) -> list[Answer]:
    """Ask for each address once, and tell of all but the first, which the process has nothing ready for."""
    first = served.get(paths[0])
    before = served.cpu_s
    answers = [served.get(path) for path in paths[1:]]
    cpu = (served.cpu_s - before) / len(answers)
    tell(what, [1000 * one.seconds for one in answers], bar_ms, "ms", cpu=cpu, peak=served.peak_mb)
    tell("… the first one of the process", [1000 * first.seconds], bar_ms, "ms")
    return [first, *answers]


def start() -> None:
    """From the start of the process until it answers."""
    found = []
    for _ in range(_STARTS + 1):
        with Served(shop()) as served:
            found.append((served.ready_s, served.cpu_s, served.peak_mb))
    ready, cpu, peak = zip(*found[1:], strict=True)
    tell("start, until the link opens", ready, 1.5, "s", cpu=median(cpu), peak=max(peak))


def paint() -> None:
    """First paint in Chromium, which has the style sheet and the script already, as after the first page."""
    browser_file = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_file is None:
        print("no Chromium: first paint is not measured")
        return
    with Served(shop()) as served, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_file, args=["--no-sandbox"])
        context = browser.new_context()
        name, _, value = served.cookie.partition("=")
        context.add_cookies([{"name": name, "value": value, "url": served.link}])
        page = context.new_page()
        for what, path in (("tables", "/"), ("runs", "/runs"), ("plan", "/plan")):
            painted = []
            for _ in range(_TIMES):
                page.goto(f"{served.link}{path}")
                painted.append(float(page.evaluate(_PAINTED)))
            tell(f"first paint: {what}", painted[1:], 300, "ms")
        browser.close()


_PAINTED: Final = """() => new Promise(done => new PerformanceObserver(list => list.getEntries().forEach(
    one => one.name == 'first-contentful-paint' && done(one.startTime))).observe({type: 'paint', buffered: true}))"""


def pages() -> tuple[str, ...]:
    """Every kind of page, on the shop."""
    (run, *_) = api.runs(shop(), limit=1)
    return (
        "/",
        "/tables/orders",
        "/tables/readings",
        "/tables/orders/keys?k=4711",
        "/plan",
        "/runs",
        f"/runs/{run.run_id}",
        "/quarantine",
        "/quarantine?table=readings",
        "/late?table=orders",
        "/lineage?table=orders",
        "/proofs",
        "/diff?mart=orders&from=batch:1",
        "/sql?q=select+*+from+orders",
    )


def weight() -> None:
    """Bytes that a browser with an empty cache receives for a page: the page, and what it links."""
    with Served(shop()) as served:
        sizes = {}
        for path in pages():
            answer = served.get(path)
            linked = {*re.findall(r'(?:href|src)="(/static/[^"]+)"', answer.text)}
            sizes[path] = (answer.size + sum(served.get(one).size for one in linked)) / 1000
        heaviest = max(sizes, key=lambda one: sizes[one])
        tell(f"weight of a page, gzip; the heaviest is {heaviest.partition('?')[0]}", [*sizes.values()], 60, "KB")


def overview_of_many() -> None:
    """The list of 10,000 tables: the first page that a process shows, then any page of it, and searches."""
    chosen, cold, ready, cpu = Random(1), list[float](), list[float](), list[float]()
    for _ in range(_STARTS):
        with Served(many()) as served:
            ready.append(served.ready_s)
            before = served.cpu_s
            cold.append(1000 * served.get("/").seconds)
            cpu.append(served.cpu_s - before)
    tell(f"{TABLES:,} tables: start, until the link opens", ready, 1.5, "s")
    tell(f"{TABLES:,} tables: the first page of the process", cold, 1000, "ms", cpu=median(cpu))
    with Served(many()) as served:
        paths = ["/", *(f"/?page={chosen.randrange(TABLES // 50)}" for _ in range(_TIMES))]
        ask(served, f"{TABLES:,} tables: any page of the list", paths, 200)
        ask(served, "… a search", [f"/?q={chosen.randrange(100, 999)}" for _ in range(_TIMES)], 200)


def quarantine() -> None:
    """Pages of 1 M records in quarantine, one after the other, and filters by rule."""
    rules = [rule.rule for rule in api.quarantine(shop(), "readings", limit=1).rules]
    with Served(shop()) as served:
        where, answers = "/quarantine?table=readings", list[Answer]()
        before = served.cpu_s
        for number in range(_TIMES + 1):
            answers.append(served.get(where))
            found = re.search(r'href="([^"#]+)[^"]*" rel="next"', answers[-1].text)
            where = (
                f"/quarantine?table=readings&rule={rules[number // 8 % len(rules)]}"
                if number % 8 == 7 or found is None
                else found[1].replace("&amp;", "&")
            )
        cpu = (served.cpu_s - before) / len(answers)
        tell(
            "quarantine of 1 M records: a page or a filter",
            [1000 * one.seconds for one in answers[1:]],
            300,
            "ms",
            cpu=cpu,
            peak=served.peak_mb,
        )
        tell("… the first one of the process", [1000 * answers[0].seconds], 300, "ms")


def key() -> None:
    """Stories of keys that were drawn at random, each another one."""
    chosen = Random(1).sample(range(1, ROWS), _TIMES)
    with Served(shop()) as served:
        ask(
            served,
            "story of a key, of 5 M rows with a history",
            [f"/tables/orders/keys?k={k}" for k in chosen],
            1000,
        )


def lineage() -> None:
    """The drawing of 200 nodes."""
    home, table = drawn()
    path = f"/lineage?{urlencode({'table': f'gold.{table}'})}"
    with Served(home) as served:
        ask(served, "lineage of 200 nodes", [path] * _TIMES, 500)


def views() -> None:
    """Memory of a process that has shown a thousand pages of every kind."""
    chosen = Random(2)
    paths = pages()
    with Served(shop()) as served:
        for number in range(_VIEWS):
            served.get(paths[number % len(paths)].replace("k=4711", f"k={chosen.randrange(1, ROWS)}"))
        tell(f"memory after {_VIEWS:,} pages", [served.resident_mb], 400, "MB", peak=served.peak_mb)


PARTS: Final[dict[str, Callable[[], None]]] = {
    "start": start,
    "paint": paint,
    "weight": weight,
    "many": overview_of_many,
    "quarantine": quarantine,
    "key": key,
    "lineage": lineage,
    "views": views,
}
"""What is measured, by name."""


def main(names: Sequence[str]) -> None:
    """Measure, and print a table."""
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}\n")
    print("| page | bar | 95 % within | median | times | CPU s each | peak MB | reached |")
    print("|---|--:|--:|--:|--:|--:|--:|---|")
    for name in names or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
