"""Rules of whole marts, judged on the driver: of a row delta, whose rows are in its memory.

DuckDB looks their values up in the mart's files. That takes a fraction of what a Spark job does, whose plan and code
cost more than to read the columns. What it cannot compare exactly as Spark does is left to Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.errors import FrazilError
from frazil.lake.catalogs import catalog_reader
from frazil.lake.duck_sql import identifier, scan
from frazil.lake.metadata import read_metadata
from frazil.lake.snapshot import metadata_snapshot
from frazil.lake.store_conf import lake_address
from frazil.spec.references import mart_named, referenced_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from frazil.engine.apply.left_rows import LeftInMemory
    from frazil.engine.table_run import TableRun
    from frazil.lake.catalogs import Located
    from frazil.spec import References, Rule

Count = tuple[int, str | None]
"""What counts for a rule, and where the first row that breaks it comes from."""

_NEW, _REPLACED = "frazil_new", "frazil_replaced"
_PLACE: Final = f"{r.POSITION} || ' row ' || {r.ROW}"
_SETTINGS: Final = {"memory_limit": "1GB"}
_FAMILIES: Final = {
    "TINYINT": "integer",
    "SMALLINT": "integer",
    "INTEGER": "integer",
    "BIGINT": "integer",
    "VARCHAR": "text",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "local time",
    "TIMESTAMP WITH TIME ZONE": "time",
}
"""Types that DuckDB and Spark compare alike, by what they may be compared with."""
_OF_LIVING: Final = {"is_current": "{}", "is_deleted": "NOT {}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scan:
    """A mart as DuckDB reads it.

    Attributes:
        sql: its living rows, what stands after FROM; it ends in a condition.
        types: lower-case name of a column -> type.
    """

    sql: str
    types: Mapping[str, str]


def counts_on_driver(
    context: TableRun, path: tuple[str, str], rules: Sequence[tuple[Rule, Sequence[str]]], left: LeftInMemory
) -> list[Count] | None:
    """Return what counts for each rule of what a row delta leaves; None where Spark has to tell.

    Args:
        context: the table's part of the run.
        path: namespace and name of the mart, as it is before the batch.
        rules: the rules, and the columns of each as the table writes them.
        left: what the batch leaves.

    Cost: for each rule a scan of its columns and of the keys, in one process; marts above ``driver_scan_bytes`` are
    left to Spark.
    """
    import duckdb  # noqa: PLC0415 - only tables with such rules need it

    from frazil.lake.duck import cursor  # noqa: PLC0415

    try:
        located = _located(context, path, rules)
        if located is None:
            return None
        with cursor(located, _SETTINGS) as duck:
            duck.register(_NEW, left.new)
            duck.register(_REPLACED, left.replaced)
            judge = _Judge(duck=duck, context=context, located=located, left=left, mart=path)
            counts = [judge.count(rule, columns) for rule, columns in rules]
    except (duckdb.Error, FrazilError, OSError, ValueError, LookupError):  # the last two of damaged metadata
        return None  # Spark reads the same files, and says what is wrong with them
    known = [count for count in counts if count is not None]
    return known if len(known) == len(counts) else None


def _located(context: TableRun, path: tuple[str, str], rules: Sequence[tuple[Rule, Sequence[str]]]) -> Located | None:
    """Find the marts that rules read; None where one is not there yet, or too large."""
    spaces = context.pipeline.lake.namespaces
    wanted = {path, *((spaces.marts, rule.references.to) for rule, _ in rules if rule.references is not None)}
    found = catalog_reader(context.pipeline).tables()
    located: Located = {}
    for one in wanted:
        if one not in found:
            return None
        location = lake_address(context.pipeline, found[one])
        snapshot = metadata_snapshot(read_metadata(location), location)
        if int(snapshot.summary.get("total-files-size", 0)) > context.policy.driver_scan_bytes:
            return None
        located[one] = location
    return located


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    duck: DuckDBPyConnection
    context: TableRun
    located: Located
    left: LeftInMemory
    mart: tuple[str, str]
    scans: dict[tuple[str, str], _Scan] = field(default_factory=dict)

    def count(self, rule: Rule, columns: Sequence[str]) -> Count | None:
        """Return what counts for a rule; None where DuckDB compares otherwise than Spark."""
        here = self._scan(self.mart, self.left.columns)
        if rule.unique is not None:
            return self._shared(here, columns)
        if rule.references is not None:
            return self._dangling(here, columns, rule.references)
        return self._one(f"SELECT count(*), NULL FROM {here.sql}")

    def _shared(self, here: _Scan, columns: Sequence[str]) -> Count | None:
        """Count the new rows whose values another row has: a new one, or one that stays."""
        keys = self.left.keys
        if not self._comparable(here, zip((*columns, *keys), (*columns, *keys), strict=True)):
            return None
        names, replaced = _names(columns), _same(keys, keys, "t", "g")
        return self._one(
            f"""
            WITH n AS (
                SELECT {names}, {_PLACE} AS _cdc_place, row_number() OVER () AS _cdc_number
                FROM {_NEW} WHERE {_known(columns)}
            ), hits AS (
                SELECT {_names(keys, "t")}, n._cdc_number
                FROM (SELECT {_names(dict.fromkeys((*keys, *columns)))} FROM {here.sql}) AS t
                JOIN n ON {_same(columns, columns, "t", "n")}
            )
            SELECT count(*), min(_cdc_place) FROM n
            WHERE _cdc_number IN (SELECT _cdc_number FROM hits AS t ANTI JOIN {_REPLACED} AS g ON {replaced})
            OR ({names}) IN (SELECT ({names}) FROM n GROUP BY {names} HAVING count(*) > 1)"""
        )

    def _dangling(self, here: _Scan, columns: Sequence[str], reference: References) -> Count | None:
        """Count the new rows whose values no row of another mart has, or of this one as the batch leaves it."""
        found = mart_named(self.context.pipeline, reference.to)
        if found is None:
            return None
        table, _ = found
        fields = referenced_fields(reference, table)
        there = self._scan((self.mart[0], reference.to), [column.name for column in table.columns or ()])
        if not self._comparable(there, zip(columns, fields, strict=True)):
            return None
        others = f"SELECT {_names(fields)} FROM {there.sql}"
        if table.name == self.context.table.name:
            keys = self.left.keys
            if reference.to != self.mart[1] or not self._comparable(here, zip(keys, keys, strict=True)):
                return None
            kept = f"SELECT {_names((*keys, *fields))} FROM {here.sql}"
            others = (
                f"SELECT {_names(fields, 't')} FROM ({kept}) AS t ANTI JOIN {_REPLACED} AS g "
                f"ON {_same(keys, keys, 't', 'g')} UNION ALL SELECT {_names(fields)} FROM {_NEW}"
            )
        return self._one(
            f"""
            SELECT count(*), min({_PLACE}) FROM {_NEW} AS n
            WHERE {_known(columns)}
            AND NOT EXISTS (SELECT 1 FROM ({others}) AS o WHERE {_same(columns, fields, "n", "o")})"""
        )

    def _comparable(self, there: _Scan, pairs: Iterable[tuple[str, str]]) -> bool:
        """Return whether columns of the new rows and of a mart have types that are compared alike."""
        new = {name.lower(): kind for name, kind in self._types(_NEW).items()}
        return all(
            (family := _family(new.get(name.lower(), ""))) is not None
            and family == _family(there.types.get(field.lower(), ""))
            for name, field in pairs
        )

    def _scan(self, path: tuple[str, str], declared: Iterable[str]) -> _Scan:
        if path not in self.scans:
            self.scans[path] = self._look(path, declared)
        return self.scans[path]

    def _look(self, path: tuple[str, str], declared: Iterable[str]) -> _Scan:
        table = scan(self.located[path])
        types = {name.lower(): kind for name, kind in self._types(table).items()}
        own = {name.lower() for name in declared}
        # As frazil.marts.counts.living_rows: a source may have a column of its own with such a name.
        flags = [
            f"({name} IS NULL OR {holds.format(name)})"
            for name, holds in _OF_LIVING.items()
            if types.get(name) == "BOOLEAN" and name not in own
        ]
        return _Scan(sql=f"{table} WHERE {' AND '.join(flags) or 'true'}", types=types)

    def _types(self, table: str) -> dict[str, str]:
        rows = self.duck.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()
        return {row[0]: row[1] for row in rows}

    def _one(self, sql: str) -> Count:
        [(count, first)] = self.duck.execute(sql).fetchall()
        return int(count), first


def _family(kind: str) -> str | None:
    return "decimal" if kind.startswith("DECIMAL") else _FAMILIES.get(kind)


def _names(columns: Iterable[str], alias: str = "") -> str:
    return ", ".join(identifier(alias, name) if alias else identifier(name) for name in columns)


def _same(columns: Iterable[str], others: Iterable[str], one: str, other: str) -> str:
    pairs = zip(columns, others, strict=True)
    return " AND ".join(f"{identifier(one, name)} = {identifier(other, field)}" for name, field in pairs)


def _known(columns: Iterable[str]) -> str:
    return " AND ".join(f"{identifier(name)} IS NOT NULL" for name in columns)
