"""``check --source``: differences of a mart to the table itself, and to a dump."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.hostile.situation import command
from tests.sources.compared import TYPES, found, literal, run
from tests.sources.replay import declare, land
from tests.sources.writers import KEYS, TABLES, Writers

from frazil import api
from frazil.serve.check.compare import NothingToCompareError
from frazil.sources.comparison import Compared
from frazil.sources.kinds import rows_at_source
from frazil.spark.session import spark_session
from frazil.storage.base import MissingFolderError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.hostile.situation import Said

    from frazil.sources.comparison import SourceRows
    from frazil.spec import Pipeline


def test_values_of_every_type_are_the_same_on_both_sides_until_one_is_changed(here: Path, database: str) -> None:
    """Then one value of each type is changed, in a row of its own: each must be seen."""
    draw = random.Random(7)
    columns = ", ".join(f'"{name}" {kind}' for name, (kind, _) in TYPES.items())
    names = ", ".join(f'"{name}"' for name in TYPES)
    declare(here, {"public.orders": "id"})
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("SET timezone = 'UTC'")
        session.execute(f"CREATE TABLE orders (id int PRIMARY KEY, {columns})".encode())
        for number in range(60):
            values = [_drawn(draw, kind, texts) for kind, texts in TYPES.values()]
            session.execute(f"INSERT INTO orders (id, {names}) VALUES ({number}, {', '.join(values)})".encode())
        pipeline = run(here)

        same = found(pipeline)
        assert same.ok is True, same
        assert "60 rows here, 60 in public.orders of ${env:TEST_DB} at " in same.detail
        assert "not compared" not in same.detail

        for number, (name, (kind, texts)) in enumerate(TYPES.items()):
            for text in (*texts, None):
                value = "NULL" if text is None else literal(kind, text)
                other = f'"{name}"::text IS DISTINCT FROM ({value}::{kind})::text'
                if session.execute(f"SELECT 1 FROM orders WHERE id = {number} AND {other}".encode()).fetchall():
                    break
            session.execute(f'UPDATE orders SET "{name}" = {value} WHERE id = {number}'.encode())
    changed = found(pipeline)
    assert changed.ok is None
    assert f"; {len(TYPES)} keys differ: {len(TYPES)} in flight" in changed.detail
    said = {one.key: one.detail for one in changed.differences}
    assert {one.why for one in changed.differences} == {"in flight"}
    for number, name in [*enumerate(TYPES)][:20]:
        assert f"not captured yet · {name} is " in said[f"id={number}"], said
    run(here)
    assert found(pipeline).ok is True


def _drawn(draw: random.Random, kind: str, texts: tuple[str, ...]) -> str:
    return "NULL" if draw.random() < 0.15 else literal(kind, draw.choice(texts))


def test_while_others_write_nothing_looks_lost_and_at_rest_all_is_the_same(here: Path, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as session:
        session.execute(TABLES)
        # Else a changed key comes without its long value: docs/checking.md.
        session.execute("ALTER TABLE pair REPLICA IDENTITY FULL")
    declare(here, {table: ", ".join(keys) for table, keys in KEYS.items()})
    pipeline = run(here)
    with Writers(database, seed=5):
        for number in range(3):
            if number % 2:
                land(here)
            if number == 1:
                run(here)
            for finding in api.check_source(pipeline):
                assert finding.ok is not False, finding
    run(here)
    for finding in api.check_source(pipeline):
        assert finding.ok is True, finding


def test_a_table_is_not_emptied_while_it_is_compared(here: Path, database: str) -> None:
    """A TRUNCATE removes rows from older snapshots too, so it has to wait."""
    declare(here, {"public.orders": "id"})
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        session.execute("INSERT INTO orders SELECT generate_series(1, 5)")
        session.execute("SET lock_timeout = '100ms'")
        pipeline = run(here)
        with source_of_table(pipeline) as rows:
            with pytest.raises(psycopg.errors.LockNotAvailable):
                session.execute("TRUNCATE orders")
            key = [Compared(name="id", type="int", form="number")]
            assert sum(count for count, _ in rows.sums(key, key).values()) == 5
        session.execute("TRUNCATE orders")


def source_of_table(pipeline: Pipeline) -> AbstractContextManager[SourceRows]:
    opener = rows_at_source(pipeline.tables[0])
    assert opener is not None
    return opener(pipeline, pipeline.tables[0])


def test_a_mart_is_compared_with_a_dump(here: Path, database: str) -> None:
    declare(here, {"public.orders": "id"})
    columns = ", ".join(f'"{name}" {kind}' for name, (kind, _) in TYPES.items() if name != "padded")
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("SET timezone = 'UTC'; SET intervalstyle = 'iso_8601'")
        session.execute(f"CREATE TABLE orders (id int PRIMARY KEY, {columns})".encode())
        for number in range(8):
            texts = [
                literal(kind, texts[number % len(texts)]) for name, (kind, texts) in TYPES.items() if name != "padded"
            ]
            session.execute(f"INSERT INTO orders VALUES ({number}, {', '.join(texts)})".encode())
        session.execute("INSERT INTO orders (id) VALUES (8)")
        pipeline = run(here)
        with session.cursor().copy("COPY orders TO STDOUT (FORMAT csv, HEADER)") as copy:
            dump = b"".join(map(bytes, copy))
    (here / "dump.csv").write_bytes(dump)
    same = found(pipeline, against=here / "dump.csv")
    assert same.ok is True, same
    assert "not compared" not in same.detail

    (here / "other.csv").write_bytes(dump.replace(b"-0.50", b"-0.501").replace(b"\n8,", b"\n9,"))
    finding = found(pipeline, against=here / "other.csv")
    assert {one.key: one.detail for one in finding.differences} == {
        "id=1": "price is -0.5 here, -0.501 there",
        "id=6": "price is -0.5 here, -0.501 there",
        "id=8": "not at the source",
        "id=9": "not here",
    }
    with pytest.raises(MissingFolderError):
        found(pipeline, against=here / "none")


DUMPS = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - {{name: orders, source: {{kind: dms, path: ./files, header: true}}, keys: [id], columns: [{{name: id, type: int}}]}}
  {more}
"""


def test_sources_without_rows_are_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    more = "- {name: more, source: {kind: dms, path: ./files}, keys: [id], columns: [{name: id, type: int}]}"
    (tmp_path / "frazil.yml").write_text(DUMPS.format(more=more))

    with pytest.raises(NothingToCompareError) as error:
        api.check_source(tmp_path)
    assert "a source of kind dms has changes only" in error.value.message
    assert error.value.hint is not None
    assert "--against DUMP" in error.value.hint
    with pytest.raises(NothingToCompareError, match="2 tables are selected"):
        api.check_source(tmp_path, against=tmp_path)


def test_the_command_shows_the_keys_and_ends_with_9(here: Path, database: str) -> None:
    declare(here, {"public.orders": "id"})
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("CREATE TABLE orders (id int PRIMARY KEY, total int)")
        session.execute("INSERT INTO orders SELECT g, g FROM generate_series(1, 30) g")
        pipeline = run(here)
        same = asked(here)
        assert same.code == 0
        assert "30 rows here, 30 in public.orders of ${env:TEST_DB} at " in same.stdout

        session.execute("UPDATE orders SET total = 0 WHERE id = 3")
        behind = asked(here)
        assert behind.code == 0
        assert "id=3: in flight: not captured yet · total is 3 here, 0 there" in behind.stdout

        spark_session(pipeline).sql("UPDATE lake.marts.orders SET total = 0 WHERE id = 4")
        wrong = asked(here)
        assert wrong.code == 9
        assert "2 keys differ: 1 written by somebody else, 1 in flight" in wrong.stdout
        assert "id=4: written by somebody else: its changes give another row · total is 0 here, 4 there" in wrong.stdout
        assert database not in wrong.text


def asked(folder: Path) -> Said:
    return command("check", "--source", f"{folder}")
