"""What other engines do to a table: each act is done by each engine that has words for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pyiceberg.types import LongType, StringType

if TYPE_CHECKING:
    from random import Random

    from tests.end_to_end.engines import Engines

TEXTS: Final = ("name", "note")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A table to alter.

    Attributes:
        engines: by which.
        lot: draws the details.
        name: ``namespace.table``.
        key: its first column.
        where: a condition on some of its rows, in SQL.
        number: a number that no act had before.
    """

    engines: Engines
    lot: Random
    name: str
    key: str
    where: str
    number: int

    @property
    def column(self) -> str:
        """Return the column that the act is about."""
        return TEXTS[self.number % 2]

    @property
    def path(self) -> str:
        """Return its name with the catalog."""
        return f"lake.{self.name}"

    def snapshots(self) -> list[int]:
        """Return the snapshots of its main branch, the newest first."""
        table = self.engines.table(self.name)
        known = {one.snapshot_id: one.parent_snapshot_id for one in table.snapshots()}
        found, at = [], table.metadata.current_snapshot_id
        while at in known:
            found.append(at)
            at = known[at]
        return found


Act = Callable[[Target], None]


def _sql(engine: str, *statements: str) -> Act:
    def act(at: Target) -> None:
        words = {"t": at.path, "n": at.number, "where": at.where, "col": at.column, "name": at.name, "key": at.key}
        told = [statement.format(**words) for statement in statements]
        _tell(at, engine, *told)

    return act


def _tell(at: Target, engine: str, *statements: str) -> None:
    (at.engines.trino if engine == "trino" else at.engines.by_spark)(*statements)


def _both(*statements: str) -> dict[str, Act]:
    """Return an act that Trino and Spark have the same words for."""
    return {"trino": _sql("trino", *statements), "spark": _sql("spark", *statements)}


def _rename(at: Target) -> None:
    with at.engines.table(at.name).update_schema(allow_incompatible_changes=True) as schema:
        schema.rename_column(at.column, f"other_{at.number}")


def _drop(at: Target) -> None:
    with at.engines.table(at.name).update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column(at.column)


def _swap(at: Target) -> None:
    one, other = TEXTS
    for before, after in ((one, "between_them"), (other, one), ("between_them", other)):
        with at.engines.table(at.name).update_schema() as schema:
            schema.rename_column(before, after)


def _make_anew(at: Target) -> None:
    name = at.column
    with at.engines.table(at.name).update_schema(allow_incompatible_changes=True) as schema:
        schema.delete_column(name)
    with at.engines.table(at.name).update_schema() as schema:
        schema.add_column(name, StringType())


def _add(at: Target) -> None:
    with at.engines.table(at.name).update_schema() as schema:
        schema.add_column(f"more_{at.number}", StringType())


def _widen(at: Target) -> None:
    with at.engines.table(at.name).update_schema() as schema:
        schema.update_column("qty", LongType())


def _expire(at: Target) -> None:
    table = at.engines.table(at.name)
    table.maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(minutes=1)).commit()


def _tag(at: Target) -> None:
    table = at.engines.table(at.name)
    if newest := table.current_snapshot():
        table.manage_snapshots().create_tag(newest.snapshot_id, f"t{at.number}").commit()


def _roll_back(engine: str) -> Act:
    def act(at: Target) -> None:
        older = at.snapshots()[1:4]
        if not older:
            return
        to = at.lot.choice(older)
        if engine == "pyiceberg":
            at.engines.table(at.name).manage_snapshots().rollback_to_snapshot(to).commit()
        elif engine == "trino":
            _tell(at, engine, f"ALTER TABLE {at.path} EXECUTE rollback_to_snapshot({to})")
        else:
            _tell(at, engine, f"CALL lake.system.rollback_to_snapshot('{at.name}', {to})")

    return act


def _delete(at: Target) -> None:
    at.engines.table(at.name).delete(at.where)


def _append(at: Target) -> None:
    table = at.engines.table(at.name)
    table.append(table.scan(row_filter=at.where).to_arrow())


def _set(at: Target) -> None:
    with at.engines.table(at.name).transaction() as change:
        change.set_properties({"write.parquet.compression-codec": "gzip", "write.metadata.previous-versions-max": "1"})


def _orphans(at: Target) -> None:
    older = f"{datetime.now(UTC) - timedelta(days=3):%Y-%m-%d %H:%M:%S}"
    _tell(
        at,
        "spark",
        f"CALL lake.system.remove_orphan_files(table => '{at.name}', older_than => TIMESTAMP '{older}')",
    )


def _expire_by_spark(at: Target) -> None:
    soon = f"{datetime.now(UTC) + timedelta(minutes=1):%Y-%m-%d %H:%M:%S}"
    _tell(
        at,
        "spark",
        f"CALL lake.system.expire_snapshots(table => '{at.name}', older_than => TIMESTAMP '{soon}', retain_last => 1)",
    )


def _both_acts(first: Act, then: Act) -> Act:
    def act(at: Target) -> None:
        first(at)
        then(at)

    return act


_TRINO_OPTIMIZE = _sql("trino", "ALTER TABLE {t} EXECUTE optimize")
_TRINO_EXPIRE = _sql("trino", "ALTER TABLE {t} EXECUTE expire_snapshots(retention_threshold => '0s')")
_SPARK_REWRITE = _sql(
    "spark", "CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
)

ACTS: Final[dict[str, dict[str, Act]]] = {
    "rename a column": {**_both("ALTER TABLE {t} RENAME COLUMN {col} TO other_{n}"), "pyiceberg": _rename},
    "drop a column": {**_both("ALTER TABLE {t} DROP COLUMN {col}"), "pyiceberg": _drop},
    "swap two columns": {
        **_both(
            "ALTER TABLE {t} RENAME COLUMN name TO between_them",
            "ALTER TABLE {t} RENAME COLUMN note TO name",
            "ALTER TABLE {t} RENAME COLUMN between_them TO note",
        ),
        "pyiceberg": _swap,
    },
    "drop a column and add it again": {
        "trino": _sql("trino", "ALTER TABLE {t} DROP COLUMN {col}", "ALTER TABLE {t} ADD COLUMN {col} varchar"),
        "spark": _sql("spark", "ALTER TABLE {t} DROP COLUMN {col}", "ALTER TABLE {t} ADD COLUMN {col} string"),
        "pyiceberg": _make_anew,
    },
    "add a column": {
        "trino": _sql("trino", "ALTER TABLE {t} ADD COLUMN more_{n} varchar"),
        "spark": _sql("spark", "ALTER TABLE {t} ADD COLUMN more_{n} string"),
        "pyiceberg": _add,
    },
    "widen a type": {
        "trino": _sql("trino", "ALTER TABLE {t} ALTER COLUMN qty SET DATA TYPE bigint"),
        "spark": _sql("spark", "ALTER TABLE {t} ALTER COLUMN qty TYPE bigint"),
        "pyiceberg": _widen,
    },
    "compact": {
        "trino": _TRINO_OPTIMIZE,
        "spark": _both_acts(_SPARK_REWRITE, _sql("spark", "CALL lake.system.rewrite_manifests('{name}')")),
    },
    "expire": {"trino": _TRINO_EXPIRE, "spark": _expire_by_spark, "pyiceberg": _expire},
    "compact and expire": {
        "trino": _both_acts(_TRINO_OPTIMIZE, _TRINO_EXPIRE),
        "spark": _both_acts(_SPARK_REWRITE, _expire_by_spark),
    },
    "remove orphans": {
        "trino": _sql("trino", "ALTER TABLE {t} EXECUTE remove_orphan_files(retention_threshold => '3d')"),
        "spark": _orphans,
    },
    "branch": {
        "spark": _sql(
            "spark",
            "ALTER TABLE {t} CREATE BRANCH b{n}",
            "DELETE FROM {t}.branch_b{n} WHERE {where}",
        ),
        "pyiceberg": _tag,
    },
    "roll back": {engine: _roll_back(engine) for engine in ("trino", "spark", "pyiceberg")},
    "update rows": _both("UPDATE {t} SET {col} = 'by somebody else {n}' WHERE {where}"),
    "delete rows": {**_both("DELETE FROM {t} WHERE {where}"), "pyiceberg": _delete},
    "insert rows": {**_both("INSERT INTO {t} SELECT * FROM {t} WHERE {where}"), "pyiceberg": _append},
    "replace": _both("CREATE OR REPLACE TABLE {t} AS SELECT * FROM {t}"),
    "replace by nothing": _both("CREATE OR REPLACE TABLE {t} AS SELECT * FROM {t} WHERE 1 = 0"),
    "drop": {
        "trino": _sql("trino", "DROP TABLE {t}"),
        "spark": _sql("spark", "DROP TABLE {t}"),
        "pyiceberg": lambda at: at.engines.catalog().drop_table(at.name),
    },
    "set properties": {
        "trino": _sql("trino", "ALTER TABLE {t} SET PROPERTIES partitioning = ARRAY['bucket({key}, 3)']"),
        "spark": _sql(
            "spark",
            "ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write')",
            "ALTER TABLE {t} WRITE ORDERED BY {key}",
        ),
        "pyiceberg": _set,
    },
    "upgrade": {"spark": _sql("spark", "ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")},
    "comment": _both("COMMENT ON TABLE {t} IS 'of others'"),
}
"""Act -> engine -> how it is done."""
