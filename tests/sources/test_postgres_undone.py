"""IDENTITY, LOUD: what was changed between two captures and undone is in no catalog; the table stops all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
import pytest
from tests.sources.replay import declare, land
from tests.sources.test_postgres_known import is_level, stopped

from frazil import api

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.server

Session = psycopg.Connection[Any]

TABLE = """CREATE TABLE t (id int PRIMARY KEY, v text, u int NOT NULL UNIQUE);
    INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 5) g"""

NAMES: dict[str, LiteralString] = {
    "v": "ALTER TABLE t RENAME v TO w; UPDATE t SET w = 'new' WHERE id = 1; ALTER TABLE t RENAME w TO v",
    "id": "ALTER TABLE t RENAME id TO w; DELETE FROM t WHERE w = 2; ALTER TABLE t RENAME w TO id",
}
IDENTITIES: tuple[LiteralString, ...] = (
    """ALTER TABLE t REPLICA IDENTITY USING INDEX t_u_key; DELETE FROM t WHERE id = 2;
    ALTER TABLE t REPLICA IDENTITY DEFAULT""",
    """ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (u); UPDATE t SET id = 100 WHERE id = 2;
    ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (id)""",
)
PUBLICATIONS: tuple[tuple[LiteralString, LiteralString, LiteralString], ...] = (
    ("", "SET (publish = 'insert')", "SET (publish = 'insert, update, delete, truncate')"),
    ("FOR TABLES IN SCHEMA public", "DROP TABLES IN SCHEMA public", "ADD TABLES IN SCHEMA public"),
)


def found_again(session: Session, url: str, folder: Path) -> bool:
    """Whether a stopped table has the rows of the source once it was read again, and then follows it."""
    assert {name: error.code for name, error in stopped(folder).items()} == {"t": "FZ705"}
    api.reload(folder, ["t"])
    session.execute("UPDATE t SET v = 'after' WHERE id = 3")
    assert stopped(folder) == {}
    return is_level(folder, url, "public.t")


@pytest.mark.parametrize("column", NAMES)
def test_a_column_that_had_another_name_for_a_time_stops_its_table(
    session: Session, url: str, tmp_path: Path, column: str
) -> None:
    session.execute(TABLE)
    session.execute("CREATE TABLE other (id int PRIMARY KEY)")
    declare(tmp_path, {"public.t": "id", "public.other": "id"})
    land(tmp_path)

    session.execute(NAMES[column])
    session.execute("INSERT INTO other VALUES (1)")
    [(name, error)] = stopped(tmp_path).items()

    assert (name, error.code) == ("t", "FZ709")
    assert f"column {column} had another name for a time" in error.message
    assert is_level(tmp_path, url, "public.other")
    session.execute(NAMES[column].replace("= 2", "= 4").encode())  # before it is read again: its rows have that
    assert found_again(session, url, tmp_path)


@pytest.mark.parametrize("change", IDENTITIES)
def test_changes_without_the_old_key_stop_their_table(
    session: Session, url: str, tmp_path: Path, change: LiteralString
) -> None:
    """A delete would have no key, and a changed key would leave its old row."""
    session.execute(TABLE)
    declare(tmp_path, {"public.t": "id"})
    land(tmp_path)

    session.execute(change)
    [error] = stopped(tmp_path).values()

    assert error.code == "FZ709"
    assert "its replica identity lacked key 'id' for a time" in error.message
    assert found_again(session, url, tmp_path)


def test_an_identity_of_more_columns_for_a_time_loses_nothing(session: Session, url: str, tmp_path: Path) -> None:
    session.execute(TABLE)
    declare(tmp_path, {"public.t": "id"})
    land(tmp_path)

    session.execute("ALTER TABLE t REPLICA IDENTITY FULL; UPDATE t SET id = 100 WHERE id = 2")
    session.execute("ALTER TABLE t REPLICA IDENTITY NOTHING; INSERT INTO t VALUES (9, 'i', 9)")
    session.execute("ALTER TABLE t REPLICA IDENTITY DEFAULT; DELETE FROM t WHERE id = 3")

    assert stopped(tmp_path) == {}
    assert is_level(tmp_path, url, "public.t")


@pytest.mark.parametrize("how", PUBLICATIONS)
def test_a_publication_that_was_altered_and_altered_back_stops_its_tables(
    session: Session, url: str, tmp_path: Path, how: tuple[LiteralString, LiteralString, LiteralString]
) -> None:
    made, there, back = how
    session.execute(TABLE)
    session.execute(f"CREATE PUBLICATION frazil {made}")
    declare(tmp_path, {"public.t": "id"})
    land(tmp_path)
    session.execute("CREATE TABLE other (id int PRIMARY KEY); CREATE PUBLICATION others FOR TABLE other")
    assert stopped(tmp_path) == {}

    session.execute(f"ALTER PUBLICATION frazil {there}")
    session.execute("UPDATE t SET v = 'new'; DELETE FROM t WHERE id = 2")
    session.execute(f"ALTER PUBLICATION frazil {back}")
    [error] = stopped(tmp_path).values()

    assert (error.code, "was undone" in error.message) == ("FZ709", True)
    api.reload(tmp_path, ["t"])
    assert stopped(tmp_path) == {}
    assert is_level(tmp_path, url, "public.t")


def test_a_table_that_frazil_published_is_watched_from_its_first_capture(session: Session, tmp_path: Path) -> None:
    session.execute(TABLE)
    declare(tmp_path, {"public.t": "id"})
    land(tmp_path)

    session.execute("ALTER PUBLICATION frazil DROP TABLE t; UPDATE t SET v = 'new'")
    session.execute("ALTER PUBLICATION frazil ADD TABLE t")

    assert {error.code for error in stopped(tmp_path).values()} == {"FZ709"}


def test_a_row_that_enters_the_row_filter_without_its_long_value_stops_its_table(
    session: Session, url: str, tmp_path: Path
) -> None:
    session.execute("CREATE TABLE t (id int, place text, doc text, v text, PRIMARY KEY (id, place))")
    session.execute("ALTER TABLE t ALTER doc SET STORAGE EXTERNAL")
    session.execute("INSERT INTO t SELECT g, 'us', repeat('long ', 1000) FROM generate_series(1, 3) g")
    session.execute("CREATE PUBLICATION frazil FOR TABLE t WHERE (place = 'eu')")
    declare(tmp_path, {"public.t": "id, place"})
    land(tmp_path)

    session.execute("UPDATE t SET place = 'eu' WHERE id = 1")
    [error] = stopped(tmp_path).values()
    assert (error.code, "did not send its long doc" in error.message) == ("FZ709", True)
    assert error.hint
    assert error.hint.startswith("ALTER TABLE public.t REPLICA IDENTITY FULL; then read the tables again")

    session.execute("ALTER TABLE public.t REPLICA IDENTITY FULL")
    api.reload(tmp_path, ["t"])
    session.execute("UPDATE t SET place = 'eu' WHERE id = 2")
    assert stopped(tmp_path) == {}
    session.execute("DELETE FROM t WHERE place = 'us'")
    assert is_level(tmp_path, url, "public.t", ("id", "place"))
