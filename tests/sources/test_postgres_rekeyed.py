"""IDENTITY, LOUD: altered keys, types of several fields, columns that return, and rows that a role does not see."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
import pytest
from tests.sources.replay import declare, land
from tests.sources.test_postgres_known import is_level, rows, stopped

from frazil import api

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.server

Session = psycopg.Connection[Any]

KEYS: dict[str, tuple[LiteralString, LiteralString]] = {
    "char(5)": ("'ab', 'cd'", "ALTER TABLE t ALTER k TYPE varchar(5)"),
    "int": ("1, 2", "ALTER TABLE t ALTER k TYPE int USING k + 1"),
    "smallint": ("1, 2", "ALTER TABLE t ALTER k TYPE bigint"),
    "numeric": ("1.5, 2", "ALTER TABLE t ALTER k TYPE numeric(10, 2)"),
    "mood": ("'happy', 'sad'", "ALTER TYPE mood RENAME VALUE 'happy' TO 'glad'"),
}


@pytest.mark.parametrize("kind", KEYS)
def test_rows_with_other_keys_after_an_alteration_leave_no_old_ones(
    session: Session, url: str, tmp_path: Path, kind: str
) -> None:
    """KEY-CHANGE: PostgreSQL sends nothing, so the old rows go with a truncate before the rows that are read again."""
    values, alteration = KEYS[kind]
    session.execute("CREATE TYPE mood AS ENUM ('happy', 'sad')")
    session.execute(f"CREATE TABLE t (k {kind} PRIMARY KEY, v text)".encode())
    session.execute(f"INSERT INTO t SELECT k, k::text FROM unnest(ARRAY[{values}]::{kind}[]) k".encode())
    declare(tmp_path, {"public.t": "k"})
    land(tmp_path)

    session.execute("UPDATE t SET v = 'before'")
    session.execute(alteration)
    session.execute("DELETE FROM t WHERE k = (SELECT max(k) FROM t)")

    assert stopped(tmp_path) == {}
    assert is_level(tmp_path, url, "public.t", ["k"])
    assert len(rows(tmp_path, "public.t", ["k"])) == 1


def test_altered_keys_stop_a_table_whose_deleted_rows_have_no_order(session: Session, tmp_path: Path) -> None:
    session.execute("CREATE TABLE t (k int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 1)")
    declare(tmp_path, {"public.t": "k"})
    file = tmp_path / "frazil.yml"
    file.write_text(file.read_text(encoding="utf-8").replace("keys: [k]", "keys: [k]\n    sequence_by: [v]"))
    land(tmp_path)

    session.execute("ALTER TABLE t ALTER k TYPE int USING k + 1")
    [error] = stopped(tmp_path).values()

    assert error.code == "FZ709"
    assert "it is a part of the key, and rows that are gone have no v" in error.message
    assert "frazil drop --select t" in (error.hint or "")


def test_a_key_that_no_longer_names_a_row_stops_its_table(session: Session, url: str, tmp_path: Path) -> None:
    session.execute("CREATE TABLE t (id int PRIMARY KEY, place text NOT NULL DEFAULT 'eu'); INSERT INTO t VALUES (1)")
    declare(tmp_path, {"public.t": "id"})
    land(tmp_path)

    session.execute("ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, place)")
    session.execute("INSERT INTO t VALUES (1, 'us')")
    [error] = stopped(tmp_path).values()
    assert error.code == "FZ211"
    assert "no unique index of only id any more" in error.message
    assert "declare keys: [id, place]" in (error.hint or "")

    # The delete of one of two rows would delete the other one too.
    session.execute("DELETE FROM t WHERE place = 'us'; CREATE UNIQUE INDEX ON t (id)")
    assert {error.code for error in stopped(tmp_path).values()} == {"FZ705"}
    api.reload(tmp_path, ["t"])
    assert stopped(tmp_path) == {}
    assert is_level(tmp_path, url, "public.t")


def test_a_column_that_returns_has_none_of_the_values_of_the_earlier_one(
    session: Session, url: str, tmp_path: Path
) -> None:
    session.execute("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    declare(tmp_path, {"public.t": "id"})
    land(tmp_path)
    session.execute("ALTER TABLE t DROP COLUMN v; INSERT INTO t VALUES (3)")
    land(tmp_path)
    land(tmp_path)

    session.execute("ALTER TABLE t ADD COLUMN v text; UPDATE t SET v = 'new' WHERE id = 1")
    land(tmp_path)

    assert is_level(tmp_path, url, "public.t")


COMPOSITES: tuple[LiteralString, ...] = (
    "ALTER TYPE pair ADD ATTRIBUTE c int",
    "ALTER TYPE pair DROP ATTRIBUTE b",
    "ALTER TYPE mood RENAME VALUE 'sad' TO 'so so'",
    "ALTER TABLE other ADD COLUMN c int",
)


@pytest.mark.parametrize("alteration", COMPOSITES)
def test_values_of_types_with_fields_are_those_of_the_source_after_the_type_was_altered(
    session: Session, url: str, tmp_path: Path, alteration: LiteralString
) -> None:
    session.execute("CREATE TYPE mood AS ENUM ('happy', 'sad'); CREATE TYPE pair AS (a mood, b text)")
    session.execute("CREATE DOMAIN pairs AS pair[]; CREATE TABLE other (a int, b text)")
    session.execute("CREATE TABLE t (id int PRIMARY KEY, p pairs, o other)")
    session.execute("INSERT INTO t VALUES (1, ARRAY[('sad', 'x')::pair], (1, 'y'))")
    declare(tmp_path, {"public.t": "id"})
    land(tmp_path)

    session.execute(alteration)
    assert stopped(tmp_path) == {}

    assert is_level(tmp_path, url, "public.t")


def test_rows_that_a_policy_hides_are_not_left_out_unseen(
    session: Session, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes come of all rows, so the initial rows must be all rows."""
    session.execute("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    session.execute("ALTER TABLE t ENABLE ROW LEVEL SECURITY; CREATE POLICY only_a ON t USING (v = 'a')")
    session.execute("CREATE TABLE other (id int PRIMARY KEY); CREATE PUBLICATION frazil FOR TABLE t, other")
    session.execute("CREATE ROLE reader LOGIN REPLICATION PASSWORD 'reads'; GRANT SELECT ON t, other TO reader")
    declare(tmp_path, {"public.t": "id", "public.other": "id"})
    monkeypatch.setenv("TEST_DB", re.sub("//[^@]*@", "//reader:reads@", url))
    try:
        [(name, error)] = stopped(tmp_path).items()
        assert (name, error.code, error.hint) == (
            "t",
            "FZ211",
            "ALTER ROLE reader BYPASSRLS, as a superuser of the server",
        )

        session.execute("ALTER ROLE reader BYPASSRLS")
        assert stopped(tmp_path) == {}
        assert is_level(tmp_path, url, "public.t")

        session.execute("ALTER ROLE reader NOBYPASSRLS; ALTER TABLE t ADD COLUMN c int DEFAULT 7")
        with pytest.raises(Exception, match="row-level security"):  # the rows that are read again would be a part
            land(tmp_path)
    finally:
        session.execute("DROP OWNED BY reader; DROP ROLE reader")
