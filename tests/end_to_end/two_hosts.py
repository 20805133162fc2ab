"""Random histories of two hosts that work on one lake at once, and what it holds in the end."""

from __future__ import annotations

import io
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from random import Random
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import pyarrow.parquet as pq
from tests.end_to_end.places import CATALOGS

from frazil import api
from frazil.catalog.conf import lake_access
from frazil.errors import FrazilError
from frazil.storage.store_client import get, keys
from frazil.testing import oracle
from frazil.testing.changes import COLUMNS, as_files, oracle_changes, random_history, write_csv

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.end_to_end.host import Answer, Host
    from tests.end_to_end.places import Backup, Catalog, Places

    from frazil.testing.changes import Record

KEYS = 8
JOBS: Final = {"run": 10, "watch": 2, "erase": 5, "rebuild": 2, "maintain": 3, "cut": 1, "rollback": 1, "check": 1}
"""Job -> how often it is drawn."""
RUNNING: Final = ("bronze.before_publish", "silver.before_publish", "mart.before_rows", "mart.before_publish")
FAILPOINTS: Final[Mapping[str, tuple[str, ...]]] = {
    "run": RUNNING,
    "watch": RUNNING,
    "capture": (
        "capture.after_slot",
        "capture.rows_shown",
        "capture.range_written",
        "capture.range_named",
        "capture.range_half_shown",
        "capture.before_advance",
        "capture.after_advance",
    ),
    "rebuild": ("silver.before_publish", "mart.before_publish"),
    "erase": (
        "erase.after_block",
        "erase.before_publish",
        "erase.after_bronze",
        "erase.after_silver",
        "erase.after_rewrite",
        "erase.after_purge",
        "erase.after_receipt",
    ),
    "maintain": ("maintain.after_rewrite", "maintain.after_stamp", "maintain.after_expire"),
    "cut": ("cut.after_tag",),
    "rollback": ("rollback.before_commit", "rollback.after_commit"),
    "check": ("-",),
}
BESIDE_ANOTHER: Final = {"FZ600", "FZ601"}
"""What a job may fail with because of the other host."""
OF_ITSELF: Final = {
    "cut": {"FZ186", "FZ304", "FZ602"},
    "rollback": {"FZ180", "FZ304"},
    "check": {"FZ304"},
    "erase": {"FZ112", "FZ304", "FZ801"},
}
"""What a job may refuse in the state that it finds.

There is no lake yet, or it has no changes; a name is taken, tables are not level, a batch has expired. An erase finds
what another host's run wrote meanwhile; done again, it removes that too.
"""
WEATHER: Final = ("calm", "outages", "clocks")
OUTAGE: Final = {"FZ303", "FZ307", "FZ308"}
"""What a job may say of a server that failed meanwhile: all can be tried again."""
CLOCK: Final = {"FZ311"}
SKEWED: Final = {"FZ308"}
"""What a store says of a host whose clock is wrong by more than a quarter of an hour."""
SKEWS: Final = (-1200, -300, -40, 40, 300, 1200)
"""By so many seconds a clock is ahead."""
TAKEN_BY_STORES: Final = 900
BACKED_UP: Final = 0.8
"""Share of rounds that begin with a backup of the lake, or with a restore where there is one."""
RESTORED: Final = 0.4
"""Share of rounds that begin with a restore where there is a backup."""
IN_A_ROW: Final = 10
"""So many seeds have the same catalog: Java has the drivers of one."""
LAYOUTS: Final[tuple[dict[str, list[str]], ...]] = ({}, {"partition_by": ["bucket(2, id)"]}, {"sort_by": ["qty"]})
GOLD: Final = "select qty, count(*) as living, max(name) as newest from {{ hard }} group by qty"
SHOWN: Final = {
    "hard": [*COLUMNS],
    "soft": [*COLUMNS, "is_deleted"],
    "close": [*COLUMNS, "valid_from", "valid_to", "is_current", "is_deleted"],
}


@dataclass(kw_only=True)
class TwoHosts:
    """A lake in a bucket of its own, its catalog in a database of its own, and a project folder on each host.

    Attributes:
        places: the servers of both.
        catalog: its kind.
        weather: ``outages`` where servers are killed and started again, ``clocks`` where clocks are wrong, ``calm``.
        hosts: both.
        folders: the project of each.
        landing: where files arrive, for both.
        files: all of DMS that arrive in the end: name -> records. No value of ``name`` comes with two keys.
        restores: draws when the lake is set back, so that all else of a seed is drawn as without that.
        asked: keys that some host was told to erase.
        allowed: what jobs of this round may say because of a server or a clock.
        ahead: by so many seconds a clock was ahead that wrote.
        skews: by so many seconds a clock may be ahead.
        said: what happened, a line each.
        began: when the first line was.
        faults: what must not have happened.
        backup: the lake as it was some rounds ago.
    """

    jobs: ClassVar[Mapping[str, int]] = JOBS
    lot: Random
    places: Places
    catalog: Catalog
    weather: str
    hosts: tuple[Host, Host]
    folders: tuple[Path, Path]
    landing: Path
    bucket: str
    files: dict[str, list[Record]]
    restores: Random
    asked: set[str] = field(default_factory=set)
    allowed: set[str] = field(default_factory=set)
    ahead: int = 0
    skews: tuple[int, ...] = SKEWS
    said: list[str] = field(default_factory=list)
    began: float = field(default_factory=monotonic)
    faults: list[str] = field(default_factory=list)
    backup: Backup | None = None

    def live(self, rounds: int) -> None:
        """Let both work at once, round by round, while files arrive; then let everything come to its end."""
        for number in range(rounds):
            self._arrive(number, rounds)
            self._change_weather()
            if number:
                self._restore()
            self._round(number)
        if self.catalog == "rest":  # its server has a clock of its own
            sleep(self.ahead)
            self.ahead = 0
        for host in self.hosts:
            host.set_clock(self.ahead)  # as if so much time had passed: nobody writes before the newest commit
        self._come_to_an_end()

    def _come_to_an_end(self) -> None:
        if self.asked:
            self._settle("erase", *sorted(self.asked))
        self._settle("run")

    def _arrive(self, number: int, rounds: int) -> None:
        """Deliver the files of a round."""
        names = sorted(self.files)
        for name in names[number * len(names) // rounds : (number + 1) * len(names) // rounds]:
            (self.landing / name).write_bytes(write_csv(self.files[name]))

    def _restore(self) -> None:
        """Set the lake back to its backup, or make one: catalog and warehouse together; files that arrived stay."""
        drawn = self.restores.random()
        if self.catalog == "rest" or drawn > BACKED_UP:
            return
        if self.backup is not None and drawn < RESTORED:
            self.places.restore(self.catalog, self.bucket, self.backup)
            self._say("the lake is restored from its backup")
        elif self._has_lake():
            self.backup = self.places.back_up(self.catalog, self.bucket)
            self._say("the lake is backed up")

    def _has_lake(self) -> bool:
        try:
            return bool(api.status(self.folders[0]).tables)
        except FrazilError:
            return False

    def _say(self, line: str) -> None:
        self.said.append(f"{monotonic() - self.began:4.0f} s {line}")

    def _change_weather(self) -> None:
        """Set a clock otherwise, or restart a server that nobody uses; warm sessions find their connections cut."""
        if self.weather == "clocks" and self.lot.random() < 0.6:
            host, seconds = self.lot.randrange(2), self.lot.choice((*self.skews, 0))
            self.hosts[host].set_clock(seconds)
            self.allowed |= CLOCK | (SKEWED if abs(seconds) >= TAKEN_BY_STORES else set())
            self.ahead = max(self.ahead, seconds if seconds < TAKEN_BY_STORES else 0)
            self._say(f"the clock of host {host} is {seconds:+d} s ahead")
        if self.weather == "outages":
            self.allowed = set()
            if self.lot.random() < 0.3:
                self._fail(self._server(), 0, 0)

    def _server(self) -> Catalog | Literal["store"]:
        return self.catalog if self.lot.random() < 0.5 else "store"

    def _fail(self, what: Catalog | Literal["store"], after: float, seconds: float) -> None:
        sleep(after)
        self._say(f"    {what} fails for {seconds:.1f} s")
        self.places.fail(what, seconds)
        self._say(f"    {what} is back")

    @contextmanager
    def _outage(self) -> Iterator[None]:
        """Let a server fail while the block runs."""
        if self.weather != "outages" or self.lot.random() < 0.3:
            yield
            return
        what, after = self._server(), self.lot.uniform(0, 8)
        self.allowed |= OUTAGE
        with ThreadPoolExecutor(1) as beside:
            failed = beside.submit(self._fail, what, after, self.lot.uniform(0, 12))
            yield
        failed.result()

    def _round(self, number: int) -> None:
        first, second = self.lot.sample((0, 1), 2)
        first_job = self._draw("run" if number == 0 else None)
        how = self.lot.choice(("", "", "kill", "stop", "stop", "late kill", "late stop"))
        failpoint = ""
        if how in ("kill", "stop"):
            failpoint = self.lot.choice(FAILPOINTS[first_job[0]])
        self._say(f"round {number}: host {first} {' '.join(first_job)} [{how} {failpoint}]")
        mode = {"kill": "", "stop": ":stop"}.get(how, "")
        self.hosts[first].begin(first_job[0], self.folders[first], *first_job[1:], failpoint=failpoint + mode)
        if "stop" in how:
            self.hosts[first].pause(self.lot.uniform(0, 4) if "late" in how else None)
        elif how == "late kill":
            self.hosts[first].pause(self.lot.uniform(0, 4))
            self.hosts[first].kill()
        with self._outage():
            for _ in range(self.lot.choice((1, 2, 3))):
                self._job(second, self._draw())
        with self._outage() if "stop" in how else nullcontext():
            if "stop" in how:
                self.hosts[first].resume()
            self._answered(first, first_job, self.hosts[first].end())

    def _draw(self, job: str | None = None) -> tuple[str, ...]:
        job = job or self.lot.choices([*self.jobs], [*self.jobs.values()])[0]
        if job == "erase":
            key = f"{self.lot.randint(1, KEYS + 1)}"  # of the last one there is no record
            self.asked.add(key)
            return job, key
        if job == "watch":
            return job, f"{self.lot.randint(1, 12)}"
        return (job, f"cut{self.lot.randint(1, 99)}") if job == "cut" else (job,)

    def _job(self, host: int, job: tuple[str, ...]) -> None:
        if job[0] in ("run", "rebuild") and self.lot.random() < 0.2:
            self._declare_again(host)
        self._answered(host, job, self.hosts[host].do(job[0], self.folders[host], *job[1:]))

    def _answered(self, host: int, job: tuple[str, ...], answer: Answer | None) -> None:
        self._say(f"    host {host} {' '.join(job)}: {'died' if answer is None else answer or 'done'}")
        allowed = BESIDE_ANOTHER | OF_ITSELF.get(job[0], set()) | self.allowed
        self.faults += [f"{' '.join(job)}: {line}" for line in answer or () if line[:5] not in allowed]

    def _settle(self, job: str, *words: str, host: int = 0) -> None:
        answer = self.hosts[host].do(job, self.folders[host], *words)
        self._say(f"host {host} alone {job} {' '.join(words)}: {answer or 'done'}")
        if answer != []:
            self.faults.append(f"host {host} alone {job} {' '.join(words)}: {answer}")

    def _declare_again(self, host: int) -> None:
        """Lay a mart out otherwise, on this host alone."""
        path = self.folders[host] / "frazil.yml"
        declared = json.loads(path.read_text())
        marts = declared["tables"][0]["marts"]
        number = self.lot.randrange(len(marts))
        kept = {name: value for name, value in marts[number].items() if name not in ("partition_by", "sort_by")}
        marts[number] = kept | self.lot.choice(LAYOUTS)
        path.write_text(json.dumps(declared))
        self._say(f"    host {host} declares {marts[number]}")

    def differences(self) -> list[str]:
        """Return what is wrong with the lake, a sentence each, and what must not have happened."""
        try:
            failed = [f"{proof}" for proof in api.check(self.folders[0]) if proof.ok is False]
            return [*self.faults, *failed, *self._wrong_rows(), *self._occurrences()]
        except FrazilError as error:
            return [*self.faults, f"{error}"]

    def _wrong_rows(self) -> list[str]:
        changes = [one for one in oracle_changes(self.files) if f"{one.key[0]}" not in self.asked]
        tracked = ("name", "qty", "note")
        want = {
            "hard": oracle.current(changes, [*COLUMNS]),
            "soft": oracle.soft(changes, [*COLUMNS]),
            "close": oracle.history(changes, [*COLUMNS], tracked, "close"),
        }
        found = []
        for mart, columns in SHOWN.items():
            have = Counter(api.query(self.folders[0], f"SELECT {', '.join(columns)} FROM marts.{mart}").rows)
            right = Counter(tuple(row[name] for name in columns) for row in want[mart])
            found += [f"{mart} has {count} x {row}" for row, count in (have - right).items()]
            found += [f"{mart} lacks {count} x {row}" for row, count in (right - have).items()]
        living: dict[Any, Any] = dict(api.query(self.folders[0], "SELECT qty, living FROM gold.living").rows)
        right_living = Counter(row["qty"] for row in want["hard"])
        return found if living == dict(right_living) else [*found, f"gold: {living} and not {dict(right_living)}"]

    def _occurrences(self) -> list[str]:
        """Look for values of erased keys in every byte of the bucket, and in every value of its Parquet files."""
        gone = {f"{one['name']}" for some in self.files.values() for one in some if one["id"] in self.asked}
        access = lake_access(api.load(self.folders[0]), f"s3://{self.bucket}")
        found = []
        for path in (one["path"] for some in keys(access, "") for one in some):
            content = bytes(get(access, path).bytes())
            text = content.decode("latin-1")
            if path.endswith(".parquet"):
                text += f"{pq.read_table(io.BytesIO(content)).to_pydict()}"
            found += [f"{value} is in {path}" for value in gone if value in text]
        return found


def new_history(seed: int, hosts: tuple[Host, Host], places: Places, folder: Path) -> TwoHosts:
    """Draw a history, and make the empty lake that it is of."""
    lot, name = Random(seed), f"hosts{seed}"
    catalog = CATALOGS[seed // IN_A_ROW % len(CATALOGS)]
    drawn = random_history(seed, size=40, keys=KEYS)
    records = [{**one, "name": f"t{seed}x{one['id']}x{row}y"} for row, one in enumerate(drawn)]
    landing = folder / f"landing{seed}"
    landing.mkdir()
    source = {"kind": "dms", "path": f"{landing}", "header": True}
    declared = declaration(source, COLUMNS, certificates=seed % 2 == 1) | places.lake(catalog, name)
    return TwoHosts(
        lot=lot,
        places=places,
        catalog=catalog,
        weather=lot.choice(WEATHER),
        skews=SKEWS if seed % 4 >= 2 else tuple(one for one in SKEWS if abs(one) < TAKEN_BY_STORES),
        hosts=hosts,
        folders=new_projects(name, hosts, catalog, declared, places.secrets(), keeps_lease=seed % 4 >= 2),
        landing=landing,
        bucket=name,
        files=as_files(records, seed, parts=8, load=lot.random() < 0.5),
        restores=Random(f"restores {seed}"),
    )


def new_projects(
    name: str,
    hosts: tuple[Host, Host],
    catalog: Catalog,
    declared: Mapping[str, Any],
    secrets: Mapping[str, str],
    *,
    keeps_lease: bool,
) -> tuple[Path, Path]:
    """Prepare both hosts for another lake, and write its declaration on each; return the folders."""
    for host in hosts:
        host.set_clock(0)
        host.use(catalog)
    folders = (hosts[0].folder / name, hosts[1].folder / name)
    for project in folders:
        project.mkdir()
        (project / "frazil.yml").write_text(json.dumps(declared))
        if not keeps_lease:
            (project / "no-lease").touch()
        for file, secret in secrets.items():
            (project / file).write_text(secret)
    return folders


def declaration(source: Mapping[str, Any], columns: Mapping[str, str], *, certificates: bool) -> dict[str, Any]:
    """Return what is declared of all but the lake."""
    things = {
        "name": "things",
        "source": source,
        "keys": ["id"],
        "sequence_by": [name for name in ("ts",) if name in columns],
        "max_bad_fraction": 1,
        "columns": [{"name": column, "type": kind} for column, kind in columns.items()],
        "marts": [
            {"kind": "current", "name": "hard"},
            {"kind": "current", "name": "soft", "deletes": "soft"},
            {"kind": "history", "name": "close"},
        ],
    }
    return {
        "pipeline": "shop",
        "upkeep": {"retain_last": 1, "orphans_after_days": 1},
        "certificates": certificates,
        "tables": [things],
        "gold": [{"name": "living", "materialized": "incremental", "sql": GOLD}],
    }
