"""Several writers of one database, slow and rolled-back transactions among them."""

from __future__ import annotations

from random import Random
from threading import Event, Thread
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TABLES = """
CREATE TABLE plain (id int PRIMARY KEY, qty int, note text);
CREATE TABLE pair (a int, b text, doc text, at timestamptz DEFAULT clock_timestamp(), PRIMARY KEY (a, b));
CREATE TABLE whole (id int NOT NULL, price numeric(12,2), doc text);
ALTER TABLE whole REPLICA IDENTITY FULL;
ALTER TABLE pair ALTER COLUMN doc SET STORAGE EXTERNAL;
ALTER TABLE whole ALTER COLUMN doc SET STORAGE EXTERNAL;
INSERT INTO plain SELECT g, g, 'first' FROM generate_series(1, 300) g;
INSERT INTO pair SELECT g, 'k', repeat(md5(g::text), 100) FROM generate_series(1, 100) g;
INSERT INTO whole SELECT g, g / 7.0, repeat(md5(g::text), 100) FROM generate_series(1, 100) g;
"""

KEYS = {"public.plain": ["id"], "public.pair": ["a", "b"], "public.whole": ["id"]}

CHANGES = (
    "INSERT INTO plain VALUES ({a}, {b}, 'new') ON CONFLICT (id) DO UPDATE SET qty = excluded.qty",
    "UPDATE plain SET qty = qty + 1, note = NULL WHERE id = {a}",
    "UPDATE plain SET id = id + 1000 * {b} WHERE id = {a}",
    "DELETE FROM plain WHERE id BETWEEN {a} AND {a} + 3",
    "INSERT INTO pair VALUES ({a}, 'k{b}', repeat(md5('{b}'), 100)) ON CONFLICT DO NOTHING",
    "UPDATE pair SET at = clock_timestamp() WHERE a = {a}",
    "UPDATE pair SET b = b || '+', at = clock_timestamp() WHERE a = {a} AND length(b) < 5",
    "DELETE FROM pair WHERE a = {a}",
    "INSERT INTO whole SELECT {a}, {b}, repeat(md5('{b}'), 100) WHERE NOT EXISTS (SELECT FROM whole WHERE id = {a})",
    "UPDATE whole SET price = price + 0.01 WHERE id = {a}",
    "UPDATE whole SET doc = NULL WHERE id = {a}",
    "DELETE FROM whole WHERE id = {a}",
)
"""``whole`` has no primary key, so only one writer inserts into it: see :func:`write`."""

RARE = ("TRUNCATE pair", "INSERT INTO plain SELECT g, 0, 'many' FROM generate_series(100000, 104000) g")


class Writers:
    """Writers that go on until they are stopped."""

    def __init__(self, url: str, seed: int, count: int = 3) -> None:
        self._stop = Event()
        self._failed: list[BaseException] = []
        self._threads = [
            Thread(target=self._guarded, args=(lambda number=number: write(url, seed + number, number, self._stop),))
            for number in range(count)
        ]

    def _guarded(self, body: Callable[[], None]) -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - told at the end
            self._failed.append(error)

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert self._failed == []


def write(url: str, seed: int, number: int, stop: Event) -> None:
    """Write random transactions until told to stop, and again when the server is back that went away."""
    random = Random(seed)
    mine = [text for text in CHANGES if number == 0 or "INTO whole" not in text]
    while not stop.is_set():
        try:
            with psycopg.connect(url, autocommit=True) as session:
                write_on(session, random, mine, stop)
        except psycopg.OperationalError:
            stop.wait(0.1)


def write_on(session: psycopg.Connection, random: Random, mine: Sequence[str], stop: Event) -> None:
    """Write transactions, most of them short, some slow, some rolled back, some in parts."""
    while not stop.is_set():
        fate = random.random()
        try:
            with session.transaction(force_rollback=fate < 0.1):
                for _ in range(random.choice((1, 1, 3, 20))):
                    try:
                        with session.transaction(force_rollback=random.random() < 0.05):
                            text = random.choice(RARE) if random.random() < 0.002 else random.choice(mine)
                            session.execute(text.format(a=random.randrange(1, 300), b=random.randrange(1, 9)).encode())
                    except psycopg.errors.UniqueViolation:
                        continue
                if fate > 0.85:
                    stop.wait(random.random() / 2)
        except (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation):
            continue
        stop.wait(random.random() / 100)
