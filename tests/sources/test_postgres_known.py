"""IDENTITY: a table of PostgreSQL is known by its number, and what no message tells of it is landed or refused."""

from __future__ import annotations

import json
import re
from random import Random
from threading import Event
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.sources.replay import declare, land, records, selected

import frazil
from frazil import api
from frazil.errors import FrazilError
from frazil.sources.comparison import Compared
from frazil.sources.kinds import captures_of
from frazil.sources.postgres.capture import postgres_rows
from frazil.sources.postgres.errors import ColumnRenamedError, TableReplacedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.server

Session = psycopg.Connection[Any]


def rows(folder: Path, table: str, keys: Sequence[str]) -> dict[Any, dict[str, Any]]:
    """Play the landed records of a table back; rows that were read again are upserts."""
    found: dict[Any, dict[str, Any]] = {}
    for record in records(folder, table):
        values = {name: value for name, value in record.items() if not name.startswith("__")}
        for name in json.loads(record["__unchanged"] or "[]"):
            del values[name]
        old, key = (tuple(record.get(f"{before}{key}") for key in keys) for before in ("__old_", ""))
        match record["__op"]:
            case "t":
                found.clear()
            case "d":
                found.pop(key, None)
            case "u" if None not in old:
                found[key] = found.pop(old, {}) | values
            case _:
                found[key] = found.get(key, {}) | values
    return found


def is_level(folder: Path, url: str, table: str, keys: Sequence[str] = ("id",), *, now: str | None = None) -> bool:
    """Whether the landed records end in the rows of the source, by the columns that it has."""
    there, landed = selected(url, now or table, keys), rows(folder, table, keys)
    names = {name for row in there.values() for name in row}
    return {key: {name: row.get(name) for name in names} for key, row in landed.items()} == there


def stopped(folder: Path) -> dict[str, FrazilError]:
    """The tables that one turn of the capture stops."""
    return dict(land(folder).failed)


def refused(folder: Path) -> list[FrazilError]:
    """What the tables stop for, where none can go on."""
    with pytest.raises(FrazilError) as caught:
        land(folder)
    return [caught.value]


def test_a_column_that_leaves_the_publication_stops_its_table(session: Session, url: str, tmp_path: Path) -> None:
    """Its values would stay as they are, and new rows would have none."""
    session.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b text); INSERT INTO t VALUES (1, 'a', 'b')")
    session.execute("CREATE PUBLICATION frazil FOR TABLE t")
    declare(tmp_path, {"public.t": "id"})
    land(tmp_path)

    session.execute("ALTER PUBLICATION frazil SET TABLE t (id, a)")
    session.execute("INSERT INTO t VALUES (2, 'a2', 'b2'); UPDATE t SET b = 'B' WHERE id = 1")
    error = stopped(tmp_path)["t"]
    assert isinstance(error, TableReplacedError)
    assert "column b is no longer published" in error.message
    assert "add it to the column list of publication frazil" in (error.hint or "")

    session.execute("ALTER PUBLICATION frazil SET TABLE t")
    api.reload(tmp_path, ["t"])
    land(tmp_path)
    assert is_level(tmp_path, url, "public.t")
    session.execute("ALTER TABLE t DROP COLUMN a; INSERT INTO t VALUES (3, 'b3')")
    land(tmp_path)
    assert is_level(tmp_path, url, "public.t"), "a column that the table no longer has is another matter"


@pytest.mark.parametrize("there", ["SET TABLE t (id, a), u", "SET TABLE t WHERE (id > 1), u", "DROP TABLE t"])
def test_a_list_that_was_changed_and_changed_back_stops_its_table(
    session: Session, url: str, tmp_path: Path, there: str
) -> None:
    """Nothing shows it but the number of its entry; the changes in between came without values, or not at all."""
    session.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b text); INSERT INTO t VALUES (1, 'a', 'b')")
    session.execute("CREATE TABLE u (id int PRIMARY KEY); CREATE PUBLICATION frazil FOR TABLE t, u")
    declare(tmp_path, {"public.t": "id", "public.u": "id"})
    land(tmp_path)
    session.execute("ALTER PUBLICATION frazil SET TABLE t, u")
    assert stopped(tmp_path) == {}, "it was that already"

    session.execute(f"ALTER PUBLICATION frazil {there}".encode())
    session.execute("UPDATE t SET a = 'A', b = 'B'")
    session.execute("ALTER PUBLICATION frazil SET TABLE t, u")
    assert {name: error.code for name, error in stopped(tmp_path).items()} == {"t": "FZ709"}

    api.reload(tmp_path, ["t"])
    assert stopped(tmp_path) == {}
    assert is_level(tmp_path, url, "public.t")


def test_a_renamed_table_is_followed_by_its_number(session: Session, url: str, tmp_path: Path) -> None:
    session.execute("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    declare(tmp_path, {"public.t": "id"})
    land(tmp_path)

    session.execute("ALTER TABLE t RENAME TO away; UPDATE away SET v = 'A' WHERE id = 1; DELETE FROM away WHERE id = 2")
    assert stopped(tmp_path) == {}
    assert is_level(tmp_path, url, "public.t", now="away")
    session.execute("INSERT INTO away VALUES (3, 'c'); ALTER TABLE away RENAME TO t; INSERT INTO t VALUES (4, 'd')")
    assert stopped(tmp_path) == {}

    assert is_level(tmp_path, url, "public.t")


@pytest.mark.parametrize("everything", [True, False])
def test_a_table_that_was_swapped_or_dropped_stops_alone(
    session: Session, url: str, tmp_path: Path, *, everything: bool
) -> None:
    if everything:
        session.execute("CREATE PUBLICATION frazil FOR ALL TABLES")
    session.execute("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    session.execute("CREATE TABLE other (id int PRIMARY KEY); CREATE TABLE gone (id int PRIMARY KEY)")
    declare(tmp_path, {"public.t": "id", "public.other": "id", "public.gone": "id"})
    land(tmp_path)

    session.execute(
        "CREATE TABLE new (id bigint PRIMARY KEY, v text); INSERT INTO new VALUES (1, 'A!'), (2, 'b'), (3, 'c')"
    )
    session.execute("BEGIN; ALTER TABLE t RENAME TO old; ALTER TABLE new RENAME TO t; COMMIT")
    session.execute("INSERT INTO t VALUES (4, 'd'); INSERT INTO other VALUES (1); DROP TABLE gone")
    failed = stopped(tmp_path)

    assert {name: type(error) for name, error in failed.items()} == {
        "t": TableReplacedError,
        "gone": TableReplacedError,
    }
    assert "another table than the one that was captured, which is called public.old now" in failed["t"].message
    assert "--reload t; frazil run" in (failed["t"].hint or "")
    assert "public.gone was dropped" in failed["gone"].message
    plan = api.plan(tmp_path)
    assert {name: error.code for name, error in plan.failed.items()} == {"t": "FZ709", "gone": "FZ709"}
    assert (plan.exit_code, [*plan.waiting.values()]) == (8, [{"other": 0}])
    assert is_level(tmp_path, url, "public.other"), "the slot goes on without them"
    stop, told = Event(), list[str]()

    def tell(_: str, text: str) -> None:
        told.extend(name for name in ("public.t ", "public.gone ") if name in text)
        stop.set()

    assert api.capture(tmp_path, stop, options=api.CaptureOptions(tell=tell)) == 8, "and so does frazil capture"
    assert told == ["public.t ", "public.gone "]

    session.execute("INSERT INTO t VALUES (5, 'e')")
    api.reload(tmp_path, ["t"])
    assert {*stopped(tmp_path)} == {"gone"}
    session.execute("UPDATE t SET v = 'after' WHERE id = 4")
    land(tmp_path)
    assert is_level(tmp_path, url, "public.t")


def test_a_table_without_a_usable_key_stops_alone_and_loses_nothing(session: Session, url: str, tmp_path: Path) -> None:
    session.execute("CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, v int UNIQUE NOT NULL)")
    session.execute("CREATE TABLE other (id int PRIMARY KEY); INSERT INTO t VALUES (1, 1), (2, 2)")
    declare(tmp_path, {"public.t": "id", "public.other": "id"})

    def outcome() -> str:
        session.execute("INSERT INTO other SELECT count(*) FROM other")
        failed = stopped(tmp_path)
        assert is_level(tmp_path, url, "public.other")
        return " ".join(f"{name} {error.code}" for name, error in failed.items())

    assert outcome() == "t FZ211"
    session.execute("UPDATE t SET v = 3 WHERE id = 1; ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id)")
    assert outcome() == ""

    session.execute("ALTER TABLE t DROP CONSTRAINT t_pkey; INSERT INTO t VALUES (3, 4)")
    assert outcome() == "t FZ211"
    session.execute("ALTER TABLE t ADD PRIMARY KEY (id)")
    assert outcome() == "", "its changes were landed meanwhile"
    assert is_level(tmp_path, url, "public.t")

    session.execute("ALTER TABLE t REPLICA IDENTITY USING INDEX t_v_key; DELETE FROM t WHERE id = 1")
    assert outcome() == "t FZ211"
    session.execute("DELETE FROM t WHERE id = 2; ALTER TABLE t REPLICA IDENTITY DEFAULT; INSERT INTO t VALUES (5, 6)")
    assert [outcome(), outcome()] == ["t FZ705"] * 2, "a delete named no key: the rows are to be read again"
    api.reload(tmp_path, ["t"])
    assert outcome() == ""
    assert is_level(tmp_path, url, "public.t")

    declare(tmp_path, {"public.t": "Nr", "public.other": "id"})
    session.execute("UPDATE t SET id = 9, v = 9 WHERE id = 5")
    assert outcome() == "t FZ211"
    declare(tmp_path, {"public.t": "id", "public.other": "id"})
    assert outcome() == "", "a slip of the declaration costs nothing"
    assert is_level(tmp_path, url, "public.t")


def test_tables_that_inherit_are_tables_of_their_own(session: Session, url: str, tmp_path: Path) -> None:
    session.execute("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE child (PRIMARY KEY (id)) INHERITS (t)")
    session.execute("CREATE TABLE bare () INHERITS (child)")
    session.execute("INSERT INTO t VALUES (1, 1); INSERT INTO child VALUES (2, 2); INSERT INTO bare VALUES (3, 3)")
    declare(tmp_path, {"public.t": "id"})

    [error] = refused(tmp_path)
    assert "has children (INHERITS) that are not declared: public.child" in error.message
    declare(tmp_path, {"public.t": "id", "public.child": "id"})
    assert [*stopped(tmp_path)] == ["child"]
    assert session.execute("SELECT tablename FROM pg_publication_tables").fetchall() == [("t",)]
    session.execute("UPDATE bare SET v = 4; UPDATE t SET v = v + 1; ALTER TABLE bare NO INHERIT child")
    assert stopped(tmp_path) == {}
    session.execute("UPDATE t SET v = v + 1; CREATE TABLE late () INHERITS (t); INSERT INTO late VALUES (5, 5)")
    assert [*stopped(tmp_path)] == ["t"]

    assert {*rows(tmp_path, "public.t", ["id"])} == {("1",)}
    assert is_level(tmp_path, url, "public.child")
    key = [Compared(name="id", type="int", form="number")]
    with postgres_rows(pipeline := frazil.load(tmp_path), pipeline.tables[0]) as source:
        assert sum(count for count, _ in source.sums(key, key).values()) == 1


def test_partitions_that_come_are_read_and_those_that_go_stop_the_table(
    session: Session, url: str, tmp_path: Path
) -> None:
    session.execute("CREATE TABLE p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)")
    session.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10); INSERT INTO p VALUES (1, 'a')")
    session.execute("CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20); INSERT INTO p VALUES (11, 'b')")
    session.execute("CREATE TABLE p3 (v text, id int PRIMARY KEY); INSERT INTO p3 VALUES ('before', 21), ('gone', 22)")
    session.execute("CREATE TABLE p4 (id int PRIMARY KEY, v text); INSERT INTO p4 VALUES (31, 'before')")
    declare(tmp_path, {"public.p": "id"})
    land(tmp_path)

    session.execute("ALTER TABLE p ATTACH PARTITION p3 FOR VALUES FROM (20) TO (30); DELETE FROM p WHERE id = 22")
    session.execute(
        "ALTER TABLE p ATTACH PARTITION p4 FOR VALUES FROM (30) TO (40); INSERT INTO p VALUES (32, 'after')"
    )
    session.execute("CREATE TABLE p5 PARTITION OF p FOR VALUES FROM (40) TO (50); INSERT INTO p VALUES (41, 'e')")
    assert stopped(tmp_path) == {}
    assert is_level(tmp_path, url, "public.p")
    assert stopped(tmp_path) == {}

    session.execute("ALTER TABLE p DETACH PARTITION p2; UPDATE p2 SET v = 'missed'")
    session.execute("ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20)")
    for _ in range(2):
        [error] = stopped(tmp_path).values()
        assert isinstance(error, TableReplacedError)
        assert "a partition was detached or dropped" in error.message
    api.reload(tmp_path, ["p"])
    assert stopped(tmp_path) == {}
    assert is_level(tmp_path, url, "public.p")


def test_a_renamed_column_is_followed_where_that_is_declared(session: Session, url: str, tmp_path: Path) -> None:
    session.execute("CREATE TABLE t (id int PRIMARY KEY, a text); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    declare(tmp_path, {"public.t": "id"})
    file = tmp_path / "frazil.yml"
    text = file.read_text(encoding="utf-8").replace("./landing}", "./landing, on_rename: follow}")
    file.write_text(text, encoding="utf-8")
    land(tmp_path)
    session.execute("UPDATE t SET a = 'c' WHERE id = 1; ALTER TABLE t RENAME a TO aa; INSERT INTO t VALUES (3, 'd')")

    assert stopped(tmp_path) == {}
    assert is_level(tmp_path, url, "public.t")
    assert land(tmp_path).files == 0
    session.execute("ALTER TABLE t RENAME id TO nr")
    [error] = stopped(tmp_path).values()
    assert "it is a column of the key, which cannot be renamed" in (error.hint or "")


REFILLS = (
    "ALTER TABLE {t} ADD COLUMN n int NOT NULL DEFAULT 7",
    "ALTER TABLE {t} ADD COLUMN n int DEFAULT 7; ALTER TABLE {t} ALTER COLUMN n DROP DEFAULT; VACUUM FULL {t}",
    "ALTER TABLE {t} ADD COLUMN n float8 DEFAULT random()",
    "ALTER TABLE {t} ADD COLUMN n int GENERATED ALWAYS AS IDENTITY",
    "ALTER TABLE {t} DROP COLUMN w; ALTER TABLE {t} ADD COLUMN w int",
    "ALTER TABLE {t} ALTER COLUMN w TYPE text USING 'w' || w",
    "ALTER TABLE {t} ALTER COLUMN w TYPE bigint USING w * 10",
    "ALTER TABLE {t} ALTER COLUMN w TYPE int USING w + 1",
    "ALTER TYPE mood_{t} RENAME VALUE 'sad' TO 'blue'",
)


def test_values_that_older_rows_have_now_are_landed(session: Session, url: str, tmp_path: Path) -> None:
    names = [f"t{number}" for number in range(len(REFILLS))]
    for name in names:
        session.execute(f"CREATE TYPE mood_{name} AS ENUM ('ok', 'sad')".encode())
        session.execute(f"CREATE DOMAIN feels_{name} AS mood_{name}[]".encode())
        session.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, w int, m mood_{name}, f feels_{name})".encode())
        session.execute(f"INSERT INTO {name} VALUES (1, 10, 'ok', '{{sad}}'), (2, 20, 'sad', NULL)".encode())
    declare(tmp_path, {f"public.{name}": "id" for name in names})
    land(tmp_path)

    for name, change in zip(names, REFILLS, strict=True):
        for part in change.format(t=name).split("; "):
            session.execute(part.encode())
        session.execute(f"INSERT INTO {name} (id, m) VALUES (3, 'ok')".encode())
    assert land(tmp_path).records == 4 * len(names)
    for name, change in zip(names, REFILLS, strict=True):
        assert is_level(tmp_path, url, f"public.{name}"), change

    session.execute("ALTER TABLE t0 ALTER COLUMN w SET DEFAULT 5; ALTER TABLE t1 ADD COLUMN nothing text")
    session.execute("VACUUM FULL t4")
    session.execute("ALTER TYPE mood_t2 ADD VALUE 'new'; ALTER TABLE t3 DROP COLUMN w")
    for name in names:
        session.execute(f"UPDATE {name} SET m = 'ok' WHERE id = 1".encode())
    assert land(tmp_path).records == len(names), "what the changes alone tell is not read again"
    for name in names:
        assert is_level(tmp_path, url, f"public.{name}")


def test_a_renamed_column_stops_its_table_until_it_is_declared(session: Session, url: str, tmp_path: Path) -> None:
    session.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b text); INSERT INTO t VALUES (1, 'a', 'b')")
    declare(tmp_path, {"public.t": "id"})
    land(tmp_path)
    session.execute("UPDATE t SET a = 'before'; ALTER TABLE t RENAME COLUMN a TO aa; UPDATE t SET aa = 'after'")

    for failed in (stopped(tmp_path), api.plan(tmp_path).failed):
        [error] = failed.values()
        assert isinstance(error, ColumnRenamedError)
        assert (error.exit_code, "renames: {a: aa}" in (error.hint or "")) == (6, True)
    file = tmp_path / "frazil.yml"
    file.write_text(file.read_text(encoding="utf-8").replace("keys:", "renames: {a: aa}\n    keys:"), encoding="utf-8")
    assert stopped(tmp_path) == {}
    assert {"before", "after"} <= {record.get("a") or record.get("aa") for record in records(tmp_path, "public.t")}

    session.execute("ALTER TABLE t RENAME aa TO c; ALTER TABLE t RENAME b TO aa; ALTER TABLE t RENAME c TO b")
    [error] = stopped(tmp_path).values()
    assert isinstance(error, TableReplacedError)
    api.reload(tmp_path, ["t"])
    assert stopped(tmp_path) == {}
    assert is_level(tmp_path, url, "public.t")


def test_keys_that_do_not_name_a_row_are_refused_before_anything_is_loaded(session: Session, tmp_path: Path) -> None:
    session.execute("CREATE TABLE pair (id int, day date, v text, PRIMARY KEY (id, day))")
    session.execute("INSERT INTO pair SELECT g / 2, '2026-01-01'::date + g, '' FROM generate_series(1, 9) g")
    session.execute("CREATE TABLE good (id int PRIMARY KEY, net int, gross int GENERATED ALWAYS AS (net * 2) STORED)")
    declare(tmp_path, {"public.pair": "id", "public.good": "id"})

    for said in (stopped(tmp_path)["pair"], wrong(tmp_path)):
        assert "id of table 'pair' does not name a row of public.pair: 4 of 5 values have several" in said.message
        assert said.hint == "declare keys: [id, day]"
    assert session.execute("SELECT count(*) FROM pg_publication_tables").fetchone() == (1,)
    declare(tmp_path, {"public.pair": "id, day", "public.good": "id"})
    assert stopped(tmp_path) == {}
    declare(tmp_path, {"public.pair": "id, day", "public.good": "Nr"})
    assert "key 'Nr' of table 'good' is not a column of public.good" in wrong(tmp_path).message


def wrong(folder: Path) -> FrazilError:
    """The only thing that doctor finds wrong with the slot."""
    [capture] = captures_of(pipeline := frazil.load(folder), ["good"])
    [found] = [one for one in capture.examine(pipeline.folder) if not one.ok]
    return FrazilError(found.detail, hint=found.hint)


def test_pending_changes_are_counted_and_uncaptured_tables_reported(session: Session, tmp_path: Path) -> None:
    session.execute("CREATE TABLE t (id int PRIMARY KEY, net int, gross int GENERATED ALWAYS AS (net * 2) STORED)")
    declare(tmp_path, {"public.t": "id"})
    assert [*api.plan(tmp_path).waiting.values()] == [{"t": None}]
    session.execute("INSERT INTO t VALUES (1, 1)")
    land(tmp_path)
    session.execute("UPDATE t SET net = 2; INSERT INTO t VALUES (2, 2); TRUNCATE t")

    plan = api.plan(tmp_path)
    [found] = captures_of(plan.pipeline, ["t"])[0].examine(plan.pipeline.folder)

    assert plan.waiting == {"slot frazil of ${env:TEST_DB}": {"t": 3}}
    assert plan.warnings["t"] == ["generated columns are not captured: PostgreSQL does not send them (gross)"]
    assert found.detail.endswith("1 table, without generated columns (public.t: gross)")


DDL = (
    "ALTER TABLE {t} RENAME TO away_{n}; UPDATE away_{n} SET v = 'away'; ALTER TABLE away_{n} RENAME TO {t}",
    (
        "CREATE TABLE new_{n} AS SELECT id, 'n' AS v, m FROM {t}; ALTER TABLE new_{n} ADD PRIMARY KEY (id); "
        "ALTER TABLE {t} RENAME TO old_{n}; ALTER TABLE new_{n} RENAME TO {t}"
    ),
    "DROP TABLE {t}; CREATE TABLE {t} (id int PRIMARY KEY, v text, m mood)",
    "ALTER TABLE {t} ADD COLUMN c{n} int DEFAULT {n}",
    "ALTER TABLE {t} ADD COLUMN c{n} text",
    "ALTER TABLE {t} ALTER COLUMN v TYPE text USING 'w' || {n}",
    "ALTER TABLE {t} DROP COLUMN v; ALTER TABLE {t} ADD COLUMN v text",
    "ALTER TYPE mood RENAME VALUE '{mood}' TO 'mood_{n}'",
    "ALTER TABLE {t} RENAME v TO x; UPDATE {t} SET x = 'x{n}' WHERE id < {i}; ALTER TABLE {t} RENAME x TO v",
    "ALTER TABLE {t} ALTER COLUMN id TYPE int USING id + 1",
    "ALTER TABLE {t} ADD COLUMN IF NOT EXISTS w text; UPDATE {t} SET w = 'w{n}' WHERE id < {i}",
    "ALTER TABLE {t} DROP COLUMN IF EXISTS w",
    "ALTER TABLE {t} REPLICA IDENTITY FULL; DELETE FROM {t} WHERE id = {i}; ALTER TABLE {t} REPLICA IDENTITY DEFAULT",
    "TRUNCATE {t}",
)
DML = (
    "INSERT INTO {t} (id, v) VALUES ({i}, 'i{n}') ON CONFLICT (id) DO UPDATE SET v = 'u{n}'",
    "DELETE FROM {t} WHERE id = {i}",
    "UPDATE {t} SET id = 100 + {n} WHERE id = {i}",
    "UPDATE {t} SET m = '{mood}' WHERE id < {i}",
)


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.laws) for seed in range(3, 60))])
def test_tables_that_are_altered_at_random_are_those_of_the_source(
    seed: int, session: Session, url: str, tmp_path: Path
) -> None:
    random = Random(seed)
    if random.random() < 0.5:
        session.execute("CREATE PUBLICATION frazil FOR ALL TABLES")
    session.execute("CREATE TYPE mood AS ENUM ('ok', 'sad')")
    names = ("a", "b")
    for name in names:
        session.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, v text, m mood)".encode())
    declare(tmp_path, {f"public.{name}": "id" for name in names})
    (tmp_path / "frazil.yml").write_text(
        (tmp_path / "frazil.yml")
        .read_text(encoding="utf-8")
        .replace("./landing}", "./landing, max_delete_fraction: 1}"),
        encoding="utf-8",
    )
    land(tmp_path)
    for number in range(60):
        [mood] = random.choice(session.execute("SELECT enumlabel FROM pg_enum").fetchall())
        text = random.choice(DDL) if random.random() < 0.15 else random.choice(DML)
        filled = text.format(t=random.choice(names), n=number, i=random.randrange(9), mood=mood)
        with session.transaction():
            for part in re.split("; ", filled):
                session.execute(part.encode())
        if random.random() < 0.2 and (failed := stopped(tmp_path)):
            assert {type(error) for error in failed.values()} == {TableReplacedError}
            api.reload(tmp_path, [*failed])
    if failed := stopped(tmp_path):
        api.reload(tmp_path, [*failed])
    assert stopped(tmp_path) == {}

    for name in names:
        assert is_level(tmp_path, url, f"public.{name}")
