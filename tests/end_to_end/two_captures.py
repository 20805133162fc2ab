"""Random histories of two hosts that capture one table of PostgreSQL, each into a landing folder of its own."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Final

import psycopg
from tests.end_to_end.places import CATALOGS
from tests.end_to_end.two_hosts import IN_A_ROW, KEYS, SHOWN, TwoHosts, declaration, new_projects

from frazil import api

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.end_to_end.host import Host
    from tests.end_to_end.places import Places

JOBS: Final = {"run": 8, "capture": 6, "watch": 2, "rebuild": 1, "maintain": 1, "check": 1}
COLUMNS: Final = {"id": "int", "name": "string", "qty": "int", "note": "string"}
REFUSED: Final = {"FZ705"}
"""What a host is refused with whose landing folder is not the one that the lake goes on from."""
CHANGES: Final = 12
MOVED: Final = 0.5
"""Share of rounds before which the landing folder of a host is lost, or restored."""


@dataclass(kw_only=True)
class TwoCaptures(TwoHosts):
    """A lake of two hosts with one slot; whoever's landing folder is not of the lake is refused, or reads all again.

    Attributes:
        database: address of the captured database.
        slot: its replication slot.
    """

    jobs: ClassVar[Mapping[str, int]] = JOBS
    database: str
    slot: str

    def live(self, rounds: int) -> None:
        """Let both work at once; after each round one of them alone, whose run is right or refused."""
        self.allowed = REFUSED
        super().live(rounds)

    def _arrive(self, number: int, rounds: int) -> None:
        """Change rows in the database."""
        del rounds
        with psycopg.connect(self.database, autocommit=True) as session:
            if number == 0:
                session.execute("CREATE TABLE things (id int PRIMARY KEY, name text, qty int, note text)")
            for row in range(CHANGES):
                key = self.lot.randint(1, KEYS)
                if self.lot.random() < 0.3:
                    session.execute("DELETE FROM things WHERE id = %s", [key])
                    continue
                values = [key, f"n{number}x{row}", self.lot.randint(1, 3)]
                written = "INSERT INTO things VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET "
                session.execute(f"{written}name = excluded.name, qty = excluded.qty".encode(), values)

    def _restore(self) -> None:
        super()._restore()
        host = self.restores.randrange(2)
        landing, kept = (self.folders[host] / name for name in ("landing", "kept"))
        if self.restores.random() < MOVED and landing.exists():
            shutil.rmtree(landing)
            is_lost = not kept.exists() or self.restores.random() < 0.5
            if not is_lost:
                shutil.copytree(kept, landing)
            self._say(f"the landing folder of host {host} is {'lost' if is_lost else 'restored'}")
        elif landing.exists():
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(landing, kept)
            self._say(f"the landing folder of host {host} is backed up")

    def _round(self, number: int) -> None:
        super()._round(number)
        self._run_alone(self.lot.randrange(2), reloads=self.lot.random() < 0.6)

    def _run_alone(self, host: int, *, reloads: bool) -> None:
        """Let a host run: its tables are right then, or it is refused and the slot stays; it may read all again."""
        before = self._confirmed()
        answer = self.hosts[host].do("run", self.folders[host])
        self._say(f"host {host} alone run: {answer or 'done'}")
        if answer == []:
            self.faults += [f"after a run of host {host}: {line}" for line in self._wrong_rows()]
            return
        if answer is None or not {line[:5] for line in answer} <= REFUSED:
            self.faults.append(f"host {host} alone run: {answer}")
        elif (after := self._confirmed()) != before:
            self.faults.append(f"host {host} was refused and moved the slot from {before} to {after}")
        if reloads:
            self._settle("reload", "things", host=host)
            self._settle("run", host=host)
            self.faults += [f"after host {host} read all again: {line}" for line in self._wrong_rows()]

    def _come_to_an_end(self) -> None:
        self._run_alone(0, reloads=True)

    def _confirmed(self) -> Any:
        with psycopg.connect(self.database) as session:
            sql = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
            return session.execute(sql, [self.slot]).fetchone()

    def _wrong_rows(self) -> list[str]:
        with psycopg.connect(self.database) as session:
            right = Counter(session.execute("SELECT id, name, qty, note FROM things").fetchall())
        found = []
        for mart, condition in zip(SHOWN, ("true", "not is_deleted", "is_current and not is_deleted"), strict=True):
            sql = f"SELECT {', '.join(COLUMNS)} FROM marts.{mart} WHERE {condition}"
            have = Counter(api.query(self.folders[0], sql).rows)
            found += [f"{mart} has {count} x {row}" for row, count in (have - right).items()]
            found += [f"{mart} lacks {count} x {row}" for row, count in (right - have).items()]
        return found


def new_captures(seed: int, hosts: tuple[Host, Host], places: Places, database: str) -> TwoCaptures:
    """Draw a history, and make the empty lake and the database that it is of."""
    name, slot = f"captures{seed}", f"slot{seed}"
    catalog = CATALOGS[seed // IN_A_ROW % len(CATALOGS)]
    source = {
        "kind": "postgres",
        "url": "${file:source}",
        "table": "public.things",
        "landing": "landing",
        "slot": slot,
        "max_delete_fraction": 1,
    }
    declared = declaration(source, COLUMNS, certificates=seed % 2 == 1) | places.lake(catalog, name)
    secrets = places.secrets() | {"source": database}
    folders = new_projects(name, hosts, catalog, declared, secrets, keeps_lease=seed % 4 >= 2)
    return TwoCaptures(
        lot=Random(seed),
        places=places,
        catalog=catalog,
        weather="calm",
        hosts=hosts,
        folders=folders,
        landing=folders[0] / "landing",
        bucket=name,
        files={},
        restores=Random(f"restores {seed}"),
        database=database,
        slot=slot,
    )
