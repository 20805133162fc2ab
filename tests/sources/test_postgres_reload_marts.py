"""HANDOVER: the history of a reloaded table has only versions that existed.

What is the same stays one version, what differs gets one.
"""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import sql
from tests.failing import run_fails_with
from tests.hostile.situation import command
from tests.sources.reloads import ALL, NAMES, allow
from tests.sources.replay import declare, land
from tests.sources.writers import KEYS, TABLES, Writers

import frazil
from frazil import api
from frazil.serve.check.check import check
from frazil.serve.query.query import query
from frazil.sources.postgres.errors import SlotLostError, TableReplacedError
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from pyspark.sql import SparkSession

    from frazil.spec import Pipeline

pytestmark = pytest.mark.server
VERSIONS = "SELECT id, v, extra, is_current, is_deleted FROM marts.t_history ORDER BY id, valid_from"


def taken(pipeline: Pipeline) -> None:
    frazil.run(pipeline, spark=spark_session(pipeline))
    assert [finding for finding in check(pipeline) if finding.ok is False] == []


def obey(folder: Path, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Type what an error says, in the folder of the declaration."""
    monkeypatch.chdir(folder)
    typed = re.findall(r"frazil ([^;]+)", hint)
    assert typed
    for line in typed:
        said = command(*line.split())
        assert said.code == 0, said.text


@pytest.mark.spark
def test_rows_that_differ_get_a_version_and_the_others_none(
    session: psycopg.Connection[Any], spark: SparkSession, tmp_path: Path
) -> None:
    del spark  # only there so that Java runs
    declare(tmp_path, {"public.t": "id"})
    pipeline = frazil.load(tmp_path)
    session.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    session.execute("INSERT INTO t SELECT g, repeat('v', 3000) FROM generate_series(1, 4) g")
    taken(pipeline)
    session.execute("UPDATE t SET v = 'new' WHERE id = 2")
    session.execute("ALTER TABLE t ADD COLUMN extra int")
    session.execute("UPDATE t SET extra = NULL WHERE id IN (3, 4)")
    taken(pipeline)
    # Rows are changed there, and PostgreSQL sends nothing of it: the table stops until it is read again.
    [(publication,)] = session.execute("SELECT pubname FROM pg_publication_tables WHERE tablename = 't'").fetchall()
    publish = sql.SQL("ALTER PUBLICATION {} SET (publish = {})")
    session.execute(publish.format(sql.Identifier(publication), "insert"))
    session.execute("UPDATE t SET extra = 7 WHERE id <= 2")
    session.execute(publish.format(sql.Identifier(publication), "insert, update, delete, truncate"))
    with run_fails_with(TableReplacedError):
        taken(pipeline)
    before = query(pipeline, VERSIONS).rows
    assert {row[2] for row in before} == {None}

    [(_, landed)] = api.reload(pipeline, ["t"])
    taken(pipeline)

    assert landed.records == 4
    after = query(pipeline, VERSIONS).rows
    # 1 and 2 have another value now, 3 and 4 are as they were.
    assert [row for row in after if row[0] > 2] == [row for row in before if row[0] > 2]
    assert [(row[0], row[2], row[3]) for row in after if row[0] <= 2] == [
        (1, None, False),
        (1, 7, True),
        (2, None, False),
        (2, None, False),
        (2, 7, True),
    ]
    rows = "SELECT id, v, extra FROM {} ORDER BY id"
    assert query(pipeline, rows.format("marts.t")).rows == session.execute(rows.format("t").encode()).fetchall()

    api.reload(pipeline, ["t"])
    taken(pipeline)
    assert query(pipeline, VERSIONS).rows == after, "nothing differs any more"


@pytest.mark.laws
@pytest.mark.spark
def test_an_earlier_change_that_is_applied_later_keeps_its_time(
    session: psycopg.Connection[Any], spark: SparkSession, tmp_path: Path
) -> None:
    del spark  # only there so that Java runs
    declare(tmp_path, {"public.t": "id"})
    pipeline = frazil.load(tmp_path)
    session.execute("CREATE TABLE t (id int PRIMARY KEY, v text, extra int); INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    taken(pipeline)
    session.execute("UPDATE t SET v = 'late' WHERE id = 1; DELETE FROM t WHERE id = 2")
    land(tmp_path)
    [(moment,)] = session.execute("SELECT now()").fetchall()
    [file] = (tmp_path / "landing" / "public.t").glob("*.parquet")
    file.rename(tmp_path / file.name)
    api.reload(pipeline, ["t"])
    taken(pipeline)
    assert query(pipeline, "SELECT id, v FROM marts.t").rows == [(1, "late")]

    (tmp_path / file.name).rename(file)
    taken(pipeline)

    held = query(pipeline, VERSIONS).rows
    assert held == [(1, "a", None, False, False), (1, "late", None, True, False), (2, "a", None, False, True)]
    times = "SELECT max(coalesce(valid_to, valid_from)) FROM marts.t_history"
    assert query(pipeline, times).rows[0][0] < moment
    frazil.run(pipeline, spark=spark_session(pipeline), rebuild=True)
    assert query(pipeline, VERSIONS).rows == held


@pytest.mark.spark
def test_a_lost_slot_is_restarted_as_the_error_says(
    session: psycopg.Connection[Any], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del spark  # only there so that Java runs
    declare(tmp_path, {"public.t": "id", "public.other": "id"})
    pipeline = frazil.load(tmp_path)
    session.execute("CREATE TABLE t (id int PRIMARY KEY, v text, extra int); CREATE TABLE other (id int PRIMARY KEY)")
    session.execute("INSERT INTO t SELECT g, 'a', 0 FROM generate_series(1, 5) g; INSERT INTO other VALUES (1)")
    taken(pipeline)
    session.execute("SELECT pg_drop_replication_slot('frazil')")
    session.execute("UPDATE t SET v = 'b' WHERE id = 1; UPDATE t SET v = 'c' WHERE id = 1; DELETE FROM t WHERE id = 2")
    session.execute("INSERT INTO t VALUES (6, 'new', 0); DELETE FROM other; INSERT INTO other VALUES (2)")
    with pytest.raises(SlotLostError) as caught:
        land(tmp_path)

    obey(tmp_path, caught.value.hint or "", monkeypatch)

    assert [finding for finding in check(pipeline) if finding.ok is False] == []
    expected = [
        *[(1, "a", 0, False, False), (1, "c", 0, True, False), (2, "a", 0, False, True)],
        *[(number, "a", 0, True, False) for number in (3, 4, 5)],
        (6, "new", 0, True, False),
    ]
    assert query(pipeline, VERSIONS).rows == expected
    assert query(pipeline, "SELECT id FROM marts.other").rows == [(2,)]

    session.execute("UPDATE t SET v = 'z' WHERE id = 3")
    taken(pipeline)
    assert query(pipeline, "SELECT v FROM marts.t WHERE id = 3").rows == [("z",)]
    held = query(pipeline, VERSIONS).rows
    frazil.run(pipeline, spark=spark_session(pipeline), rebuild=True)
    assert query(pipeline, VERSIONS).rows == held


@pytest.mark.spark
def test_a_lost_landing_folder_is_seen_and_the_rows_are_read_again(
    session: psycopg.Connection[Any], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Landed changes that no run took, with a delete, were lost with the folder; the server no longer has them."""
    del spark  # only there so that Java runs
    declare(tmp_path, {"public.t": "id"})
    pipeline = frazil.load(tmp_path)
    session.execute("CREATE TABLE t (id int PRIMARY KEY, v text, extra int)")
    session.execute("INSERT INTO t SELECT g, 'a', 0 FROM generate_series(1, 3) g")
    taken(pipeline)
    session.execute("UPDATE t SET v = 'b' WHERE id = 1; DELETE FROM t WHERE id = 2")
    land(tmp_path)
    (tmp_path / "landing").rename(tmp_path / "lost")

    for _ in range(2):
        with pytest.raises(frazil.RunFailedError) as caught:
            frazil.run(pipeline, spark=spark_session(pipeline))
    [error] = caught.value.errors
    assert (error.code, caught.value.exit_code) == ("FZ705", 8)
    obey(tmp_path, (error.hint or "").partition("; or ")[2], monkeypatch)
    taken(pipeline)

    expected = [(1, "a", 0, False, False), (1, "b", 0, True, False), (2, "a", 0, False, True), (3, "a", 0, True, False)]
    assert query(pipeline, VERSIONS).rows == expected
    session.execute("DELETE FROM t WHERE id = 3")
    taken(pipeline)
    assert query(pipeline, "SELECT id FROM marts.t ORDER BY 1").rows == [(1,)]

    # Once more: what the new folder has comes after all that the lake has, of whichever folder.
    session.execute("DELETE FROM t; INSERT INTO t VALUES (4, 'd', 0)")
    (tmp_path / "landing").rename(tmp_path / "lost again")
    allow(tmp_path)
    pipeline = frazil.load(tmp_path)
    api.reload(pipeline, ["t"])
    taken(pipeline)
    assert query(pipeline, "SELECT id FROM marts.t ORDER BY 1").rows == [(4,)]


@pytest.mark.laws
@pytest.mark.spark
@pytest.mark.parametrize("seed", range(2, 5))
def test_marts_of_tables_that_are_read_again_equal_the_source(
    seed: int, session: psycopg.Connection[Any], url: str, spark: SparkSession, tmp_path: Path
) -> None:
    """Files arrive in any order, and the proofs of ``check`` and a rebuild agree."""
    del spark  # only there so that Java runs
    random = Random(seed)
    session.execute(TABLES)
    declare(tmp_path, ALL)
    allow(tmp_path)
    pipeline = frazil.load(tmp_path)
    aside: list[tuple[Path, Path]] = []
    with Writers(url, seed):
        taken(pipeline)
        for number in range(6):
            land(tmp_path)
            changes = sorted((tmp_path / "landing").glob("*/*-*-*.parquet"))
            if changes and random.random() < 0.5:
                file = random.choice(changes)
                aside.append((file.rename(tmp_path / f"{number}-{file.name}"), file))
            if random.random() < 0.3:
                session.execute("SELECT pg_drop_replication_slot('frazil')")
                api.reload(pipeline, NAMES)
            elif random.random() < 0.7:
                api.reload(pipeline, random.sample(NAMES, random.randrange(1, 4)))
            taken(pipeline)
            if aside and random.random() < 0.5:
                hidden, file = aside.pop()
                hidden.rename(file)
    for hidden, file in aside:
        hidden.rename(file)
    taken(pipeline)

    session.execute("SET timezone = 'UTC'")
    held = {}
    for table, keys in KEYS.items():
        name, order = table.rpartition(".")[2], ", ".join(keys)
        cursor = session.execute(f"SELECT * FROM {table} ORDER BY {order}".encode())
        columns = ", ".join(f'"{column.name}"' for column in cursor.description or ())
        assert query(pipeline, f"SELECT {columns} FROM marts.{name} ORDER BY {order}").rows == cursor.fetchall()
        history = f"SELECT * FROM marts.{name}_history ORDER BY ALL"
        held[history] = query(pipeline, history).rows
    frazil.run(pipeline, spark=spark_session(pipeline), rebuild=True)
    for text, found in held.items():
        assert query(pipeline, text).rows == found
