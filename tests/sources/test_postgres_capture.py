"""A table of PostgreSQL is captured with its rows and changes, or an error has the way out."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.sources.replay import declare, land, records, replayed, selected

from frazil.errors import FrazilError
from frazil.sources.postgres.database.server import Server, exported_snapshot
from frazil.sources.postgres.errors import ServerError, ServerSetupError, SlotLostError
from frazil.sources.postgres.landed.load import ExportedSnapshot, RewrittenError, load_table
from frazil.testing.postgres import postgres_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.server

Session = psycopg.Connection[Any]

LONG = "".join(chr(97 + number * number % 23) for number in range(9000))
"""Too long for a row, so it is stored beside it."""


@pytest.fixture(params=["database", "newest_database"])
def url(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    address = str(request.getfixturevalue(request.param))
    monkeypatch.setenv("TEST_DB", address)
    return address


@pytest.fixture
def session(url: str) -> Iterator[Session]:
    with psycopg.connect(url, autocommit=True) as opened:
        opened.execute("CREATE TABLE orders (id int PRIMARY KEY, qty int, doc text)")
        opened.execute("ALTER TABLE orders ALTER COLUMN doc SET STORAGE EXTERNAL")
        yield opened


def shown(folder: Path) -> list[str]:
    """Each record of ``orders``, short: its op, what changed of its key, and its values."""
    found = []
    for record in records(folder, "public.orders"):
        values = [
            f"{name}={value and value[:8]}" for name, value in record.items() if not name.startswith("__") and value
        ]
        old = f"({record['__old_id']})" if record.get("__old_id") else ""
        unchanged = [record["__unchanged"]] if record["__unchanged"] else []
        found.append(" ".join([f"{record['__op']}{old}", *values, *unchanged]))
    return found


def test_rows_then_changes_in_the_order_of_commits(session: Session, url: str, tmp_path: Path) -> None:
    declare(tmp_path, {"public.orders": "id"})
    session.execute("INSERT INTO orders VALUES (1, 1, %s), (2, NULL, '')", (LONG,))
    land(tmp_path)

    with psycopg.connect(url) as slow:
        slow.execute("INSERT INTO orders VALUES (3, 3, 'begun first')")
        session.execute("UPDATE orders SET qty = 2 WHERE id = 1")
        session.execute("UPDATE orders SET id = 9 WHERE id = 1")
        session.execute("DELETE FROM orders WHERE id = 2")
    session.execute("TRUNCATE orders")
    landed = land(tmp_path)

    assert shown(tmp_path) == [
        f"r id=1 qty=1 doc={LONG[:8]}",
        "r id=2",
        'u id=1 qty=2 ["doc"]',
        'u(1) id=9 qty=2 ["doc"]',
        'd id=2 ["qty", "doc"]',
        "i id=3 qty=3 doc=begun fi",
        't ["id", "qty", "doc"]',
    ]
    assert (landed.records, landed.files, landed.busy) == (5, 1, None)
    assert land(tmp_path).files == 0


def test_values_are_those_of_the_table(session: Session, url: str, tmp_path: Path) -> None:
    session.execute("SET timezone = 'Asia/Kolkata'")
    session.execute("CREATE DOMAIN price AS numeric(8,2)")
    session.execute(
        """CREATE TABLE things ("Id" int PRIMARY KEY, b bytea, at timestamptz, w timestamp, d date, j jsonb,
        n numeric, p price, f float8, r float4, t boolean, a text[], s text,
        i interval, g int GENERATED ALWAYS AS (1) STORED)"""
    )
    for number in (1, 2):
        session.execute(
            """INSERT INTO things VALUES (%s, '\\x00ff', '2026-01-01 00:00+05:30', '2026-01-01 01:02:03.000004',
            '0044-03-15', '{"a": 1}', 1e30, 1.5, 0.1, 0.1, true, '{a,NULL,"b,\\"c"}',
            E'a,"b"\\r\\n\\\\.', '1 day 02:00')""",
            (number,),
        )
        session.execute("""INSERT INTO things ("Id", s) VALUES (%s, '')""", (number + 10,))
        declare(tmp_path, {"public.things": "Id"})
        land(tmp_path)

    found = replayed(tmp_path, "public.things", ["Id"])

    expected = selected(url, "things", ["Id"])
    for row in expected.values():
        row["b"] = row["b"] and row["b"][2:]
        row["t"] = row["t"] and row["t"][0]
        del row["g"]
    assert found == expected


def test_columns_that_change_begin_a_file_and_lose_nothing(session: Session, url: str, tmp_path: Path) -> None:
    declare(tmp_path, {"public.orders": "id"})
    land(tmp_path)
    session.execute("INSERT INTO orders VALUES (1, 1, 'a')")
    session.execute("ALTER TABLE orders ADD COLUMN extra text")
    session.execute("INSERT INTO orders VALUES (2, 2, 'b', 'e')")
    session.execute("ALTER TABLE orders RENAME COLUMN qty TO count")
    session.execute("ALTER TABLE orders DROP COLUMN doc")
    session.execute("INSERT INTO orders VALUES (3, 3, 'f')")

    landed = land(tmp_path)

    assert landed.files == 3
    assert shown(tmp_path) == ["i id=1 qty=1 doc=a", "i id=2 qty=2 doc=b extra=e", "i id=3 count=3 extra=f"]
    del url


def test_the_server_leaves_out_what_a_publication_leaves_out(session: Session, tmp_path: Path) -> None:
    session.execute("CREATE PUBLICATION frazil FOR TABLE orders (id, qty) WHERE (id < 100)")
    session.execute("INSERT INTO orders VALUES (1, 1, 'secret'), (100, 1, 'secret')")
    declare(tmp_path, {"public.orders": "id"})
    land(tmp_path)
    session.execute("INSERT INTO orders VALUES (2, 1, 'secret'), (200, 1, 'secret')")
    land(tmp_path)

    assert shown(tmp_path) == ["r id=1 qty=1", "i id=2 qty=1"]


def test_a_partitioned_table_is_one_table(session: Session, url: str, tmp_path: Path) -> None:
    session.execute("CREATE TABLE parts (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    session.execute("CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (10)")
    session.execute("CREATE TABLE high PARTITION OF parts FOR VALUES FROM (10) TO (20)")
    session.execute("INSERT INTO parts VALUES (1, 'a'), (11, 'b')")
    declare(tmp_path, {"public.parts": "id"})
    land(tmp_path)
    session.execute("UPDATE parts SET id = id + 1")
    session.execute("UPDATE parts SET id = 15 WHERE id = 2")
    land(tmp_path)

    assert replayed(tmp_path, "public.parts", ["id"]) == selected(url, "parts", ["id"])


def test_rows_that_a_truncate_hides_from_a_snapshot_are_asked_for_again(
    session: Session, url: str, tmp_path: Path
) -> None:
    session.execute("INSERT INTO orders VALUES (1, 1, 'a')")
    session.execute("CREATE PUBLICATION frazil FOR TABLE orders")

    with Server(url) as server, exported_snapshot(url, "1") as (lsn, name):
        table = server.table(("public", "orders"), "frazil")
        assert table is not None
        session.execute("TRUNCATE orders")
        with pytest.raises(RewrittenError):
            load_table(
                table, tmp_path, ExportedSnapshot(url=url, lsn=lsn, name=name, read_at="", domains={}), lambda _: None
            )


def refusal(folder: Path) -> FrazilError:
    with pytest.raises(FrazilError) as caught:
        land(folder)
    return caught.value


@pytest.mark.parametrize(
    ("declared", "says", "way_out"),
    [
        (
            ("(v int)", "v"),
            "neither a primary key nor a replica identity",
            "ALTER TABLE public.t REPLICA IDENTITY FULL",
        ),
        (("(id int PRIMARY KEY, v int)", "v"), "key 'v' of table 't' is not in the replica identity", "FULL"),
        (('(id int PRIMARY KEY, "__op" int)', "id"), "a name that landing files use", "rename it"),
    ],
)
def test_a_table_that_cannot_be_captured_is_left_alone(
    session: Session, tmp_path: Path, declared: tuple[str, str], says: str, way_out: str
) -> None:
    session.execute(f"CREATE TABLE t {declared[0]}".encode())
    declare(tmp_path, {"public.t": declared[1]})

    error = refusal(tmp_path)

    assert isinstance(error, ServerSetupError)
    assert says in error.message
    assert way_out in (error.hint or "")
    assert session.execute("SELECT count(*) FROM pg_publication").fetchone() == (0,)


def test_a_server_that_is_not_there_may_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_DB", "postgresql://postgres:hidden@127.0.0.1:1/none")
    declare(tmp_path, {"public.t": "id"})

    error = refusal(tmp_path)

    assert isinstance(error, ServerError)
    assert error.retryable
    assert "hidden" not in f"{error}"


def test_a_server_without_logical_wal_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with postgres_server(settings={"wal_level": "replica"}) as server:
        monkeypatch.setenv("TEST_DB", server.url)
        declare(tmp_path, {"public.t": "id"})

        assert "ALTER SYSTEM SET wal_level" in (refusal(tmp_path).hint or "")


def test_a_slot_that_went_lost_changes(session: Session, tmp_path: Path) -> None:
    declare(tmp_path, {"public.orders": "id"})
    land(tmp_path)
    session.execute("SELECT pg_drop_replication_slot('frazil')")

    error = refusal(tmp_path)

    assert isinstance(error, SlotLostError)
    assert error.exit_code == 8
    assert "frazil capture --reload orders; frazil run" in (error.hint or "")


def test_changes_that_somebody_else_has_read_are_missed(session: Session, tmp_path: Path) -> None:
    declare(tmp_path, {"public.orders": "id"})
    land(tmp_path)
    session.execute("INSERT INTO orders VALUES (1, 1, 'a')")
    session.execute("SELECT pg_replication_slot_advance('frazil', pg_current_wal_lsn())")

    assert "another process has read" in refusal(tmp_path).message


def test_a_table_that_was_out_of_the_publication_or_the_declaration_is_missed(session: Session, tmp_path: Path) -> None:
    session.execute("CREATE TABLE others (id int PRIMARY KEY)")
    declare(tmp_path, {"public.orders": "id", "public.others": "id"})
    land(tmp_path)
    declare(tmp_path, {"public.others": "id"})
    session.execute("INSERT INTO orders VALUES (1, 1, 'a')")
    land(tmp_path)
    declare(tmp_path, {"public.orders": "id", "public.others": "id"})

    failed = land(tmp_path).failed
    assert [*failed] == ["orders"]
    assert "public.orders was not captured for a time" in failed["orders"].message

    declare(tmp_path, {"public.others": "id"})
    session.execute("ALTER PUBLICATION frazil DROP TABLE others")

    assert "public.others was removed from publication frazil" in land(tmp_path).failed["others"].message


def test_another_database_is_refused(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: Any
) -> None:
    declare(tmp_path, {"public.orders": "id"})
    land(tmp_path)
    monkeypatch.setenv("TEST_DB", postgres.url)

    assert "the landing files are from another server or database" in refusal(tmp_path).message
    del session


def test_landing_files_without_their_state_are_not_gone_on_with(session: Session, tmp_path: Path) -> None:
    declare(tmp_path, {"public.orders": "id"})
    land(tmp_path)
    (tmp_path / "landing" / ".frazil-frazil.json").unlink()

    assert "was lost or replaced; changes may be missing" in refusal(tmp_path).message
    del session


def test_a_second_capture_does_nothing_and_says_so(session: Session, url: str, tmp_path: Path) -> None:
    declare(tmp_path, {"public.orders": "id"})
    land(tmp_path)
    session.execute("INSERT INTO orders VALUES (1, 1, 'a')")

    with Server(url) as other:
        assert other.lock("frazil")
        landed = land(tmp_path)

    assert landed.busy is not None
    assert landed.files == 0


def test_landing_files_that_were_set_back_are_not_gone_on_with(session: Session, tmp_path: Path) -> None:
    declare(tmp_path, {"public.orders": "id"})
    land(tmp_path)
    shutil.copytree(tmp_path / "landing", tmp_path / "backup")
    session.execute("INSERT INTO orders VALUES (1, 1, 'a')")
    land(tmp_path)
    shutil.rmtree(tmp_path / "landing")
    shutil.move(tmp_path / "backup", tmp_path / "landing")

    assert "another process has read" in refusal(tmp_path).message
