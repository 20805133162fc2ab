"""Reasons why rows of a mart differ from the source: for each key, the change that explains the difference."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from frazil.bronze import record as r
from frazil.bronze.read import Batch, records
from frazil.duck import duck_literal, identifier
from frazil.errors import HistoryChangedError
from frazil.host import spill_folder
from frazil.serve.check.dump import bucket_of, digest_of, for_people, row_text_sql, typed_sql
from frazil.serve.check.erased import erased_among
from frazil.serve.check.finding import Difference
from frazil.serve.check.fold import mart_columns_sql, ties, wanted, with_values
from frazil.serve.check.marts import living_rows_sql
from frazil.serve.state import scan_ledger
from frazil.silver.contract import LAWS, declared_mart
from frazil.sources.comparison import BUCKET_DIGITS
from frazil.sources.kinds import source_of
from frazil.sources.ledger import Ledger
from frazil.spec import Current
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import duckdb

    from frazil.serve.layers import Layer, Layers
    from frazil.sources.base import NewFile, Source
    from frazil.sources.comparison import Compared, SourceRows
    from frazil.spec import History, Pipeline

    Mart = tuple[Current | History, Layer]

FOREIGN: Final = "written by somebody else"
IN_FLIGHT: Final = "in flight"
QUARANTINED: Final = "quarantined"
LOST: Final = "lost"
UNKNOWN: Final = "unknown"
ERASED: Final = "erased here"
_GRAVEST_FIRST: Final = (FOREIGN, LOST, QUARANTINED, UNKNOWN, IN_FLIGHT, ERASED)

_AT_ONCE: Final = 10_000
_SHOWN: Final = 20
"""Number of keys shown for each reason."""

_ALL_BUCKETS: Final = 16**BUCKET_DIGITS
_KEYS_AND_HASHES: Final = "key VARCHAR, digest BIGINT"


class Explanation:
    """The keys that differ, in DuckDB tables, each with its reason."""

    def __init__(
        self, pipeline: Pipeline, here: Layers, pair: Mart, rows: SourceRows, duck: duckdb.DuckDBPyConnection
    ) -> None:
        self._pipeline, self._here, self._rows, self._duck = pipeline, here, rows, duck
        self._mart, self._layer = pair
        self._keys: Sequence[Compared] = ()
        self._columns: Sequence[Compared] = ()
        self._unseen: str | None = None

    def load(self, keys: Sequence[Compared], columns: Sequence[Compared], buckets: Sequence[str]) -> None:
        """Find the keys whose rows differ, in the given buckets."""
        self._keys, self._columns = keys, columns
        key, digest = row_text_sql(keys), digest_of(row_text_sql(columns))
        chosen = "true"
        if len(buckets) < _ALL_BUCKETS:
            chosen = f"{bucket_of(key)} IN ({', '.join(map(duck_literal, buckets))})"
        self._duck.execute(f"CREATE TEMP TABLE there ({_KEYS_AND_HASHES})")
        for some in self._rows.digests(keys, columns, buckets):
            self._insert("there", ("key", "digest"), list(zip(*some, strict=True)))
        self._duck.execute(
            f"CREATE TEMP TABLE here AS SELECT {key} AS key, {digest} AS digest "
            f"FROM {living_rows_sql(self._mart, self._layer)} AND {chosen}"
        )
        self._duck.execute(
            f"CREATE TEMP TABLE differing AS SELECT *, NULL::VARCHAR AS why, NULL::VARCHAR AS detail "
            f"FROM ({_differing('here', 'there')})"
        )

    def explain(self, progressed: Callable[[str], None]) -> dict[str, int]:
        """Find the reason for each key; return the number of keys for each reason, the gravest reason first."""
        self._find_erased()
        progressed("fold the changes of keys that differ")
        self._find_foreign()
        progressed("look for their changes")
        with tempfile.TemporaryDirectory(prefix="compare-", dir=spill_folder()) as folder:
            self._find_in_flight(Path(folder))
        self._find_quarantined()
        rest = duck_literal(LOST if self._unseen is None else UNKNOWN)
        self._duck.execute(f"UPDATE differing SET why = {rest} WHERE why IS NULL")
        found = dict(self._duck.execute("SELECT why, count(*) FROM differing GROUP BY 1").fetchall())
        return {why: found[why] for why in _GRAVEST_FIRST if why in found}

    def differences(self) -> tuple[Difference, ...]:
        """Return the first keys for each reason, with the values that differ."""
        chosen = self._duck.execute(
            "SELECT key, why, detail FROM differing "
            f"QUALIFY row_number() OVER (PARTITION BY why ORDER BY length(key), key) <= {_SHOWN}"
        ).fetchall()
        chosen.sort(key=lambda one: (_GRAVEST_FIRST.index(one[1]), len(one[0]), one[0]))
        texts = [key for key, _, _ in chosen]
        theirs = self._rows.values(self._keys, self._columns, texts)
        ours = self._values(texts)
        return tuple(
            Difference(
                key=self._shown_key(theirs.get(key) or ours.get(key) or ()),
                why=why,
                detail=" · ".join(filter(None, (detail, self._said(ours.get(key), theirs.get(key))))),
            )
            for key, why, detail in chosen
        )

    def _shown_key(self, values: Sequence[str | None]) -> str:
        # Keys are the first of the columns.
        return ", ".join(f"{column.name}={value}" for column, value in zip(self._keys, values, strict=False))

    def _said(self, ours: Sequence[str | None] | None, theirs: Sequence[str | None] | None) -> str:
        """Describe how two rows differ."""
        if ours is None or theirs is None:
            return "not at the source" if theirs is None else "not here"
        differing = [
            f"{column.name} is {_short(mine)} here, {_short(other)} there"
            for column, mine, other in zip(self._columns, ours, theirs, strict=True)
            if mine != other
        ]
        return ", ".join(differing) or "more rows of the key on one side than on the other"

    def _values(self, texts: Sequence[str]) -> dict[str, tuple[str | None, ...]]:
        values = ", ".join(map(for_people, self._columns))
        found = self._duck.execute(
            f"SELECT {row_text_sql(self._keys)}, {values} FROM {living_rows_sql(self._mart, self._layer)} "
            f"AND list_contains(?, {row_text_sql(self._keys)})",
            [list(texts)],
        ).fetchall()
        return {key: tuple(row) for key, *row in found}

    def _insert(self, table: str, names: Sequence[str], columns: Sequence[object]) -> None:
        rows = pa.table([*columns], names=[*names])
        self._duck.register("rows_to_insert", rows)
        self._duck.execute(f"INSERT INTO {table} BY NAME FROM rows_to_insert")
        self._duck.unregister("rows_to_insert")

    def _mark(self, why: str, found: str) -> None:
        """Set the reason of keys that have no reason yet; ``found`` selects ``key`` and ``detail``."""
        self._duck.execute(
            f"UPDATE differing SET why = {duck_literal(why)}, detail = found.detail "
            f"FROM (SELECT key, min(detail) AS detail FROM ({found}) GROUP BY key) AS found "
            "WHERE differing.key = found.key AND why IS NULL"
        )

    @property
    def _is_differing(self) -> str:
        return f"{row_text_sql(self._keys)} IN (SELECT key FROM differing WHERE why IS NULL)"

    def _find_erased(self) -> None:
        """Find the keys that were erased here, and that the source still has."""
        found = [*erased_among(self._here, self._duck, self._keys, self._missing())]
        if found:
            self._duck.execute("CREATE TEMP TABLE erased (key VARCHAR)")
            self._insert("erased", ("key",), [found])
            self._mark(ERASED, "SELECT key, NULL AS detail FROM erased")

    def _missing(self) -> Iterator[str]:
        """Yield the keys that only the source has."""
        last = ""
        missing = "SELECT key FROM differing WHERE there AND NOT here AND key > ? ORDER BY key LIMIT ?"
        while some := self._duck.execute(missing, [last, _AT_ONCE]).fetchall():
            yield from (key for (key,) in some)
            (last,) = some[-1]

    def _find_foreign(self) -> None:
        """Find the keys whose row in the mart is not the result of its changes."""
        here, mart, layer = self._here, self._mart, self._layer
        is_older = here.changes.snapshot.bookmark.get("laws", 0) < LAWS
        if is_older or layer.snapshot.bookmark.get("declared") != declared_mart(here.table, mart):
            return  # the next run rebuilds it
        columns = here.columns_in(layer)
        tracked = () if isinstance(mart, Current) else tuple(name for name in here.tracked(mart) if name in columns)
        changes = with_values(here, layer.snapshot.batch, columns, self._is_differing)
        folded = f"SELECT * FROM ({wanted(changes, mart, tracked)}) AS folded({mart_columns_sql(columns, mart)})"
        alive = living_rows_sql(mart, layer).partition(" WHERE ")[2]
        self._duck.execute(
            f"CREATE TEMP TABLE folded AS SELECT {row_text_sql(self._keys)} AS key, "
            f"{digest_of(row_text_sql(self._columns))} AS digest FROM ({folded}) WHERE {alive}"
        )
        self._duck.execute("DELETE FROM here WHERE key NOT IN (SELECT key FROM differing)")
        foreign = _differing("here", "folded")
        (count,) = self._duck.execute(f"SELECT count(*) FROM ({foreign})").fetchall()[0]
        if not count:
            return
        # Only Spark's content hash orders these changes, and DuckDB cannot compute it.
        tied = f"SELECT {row_text_sql(self._keys)} FROM ({ties(here)})"
        detail = "CASE WHEN here THEN 'its changes give another row' ELSE 'its changes give a row' END"
        self._mark(FOREIGN, f"SELECT key, {detail} AS detail FROM ({foreign}) WHERE key NOT IN ({tied})")

    def _find_in_flight(self, folder: Path) -> None:
        """Find the keys with pending changes: in silver, in bronze, in landing files, or not captured yet."""
        here = self._here
        # A change that is captured between two of these steps is in the next one.
        if here.changes.exists:
            behind = f"{r.BATCH} > {self._layer.snapshot.batch}"
            detail = f"concat('change of batch ', {r.BATCH}, ' is not applied')"
            self._mark(
                IN_FLIGHT,
                f"SELECT {row_text_sql(self._keys)} AS key, {detail} AS detail FROM {here.changes.rows} "
                f"WHERE {behind} AND {self._is_differing}",
            )
        behind = f"SELECT * FROM {here.bronze.rows} WHERE {r.KIND} IN ('{r.RECORD}', '{r.CORRECTED}') AND {r.BATCH} > "
        self._of_records(f"{behind} {here.changes.snapshot.batch}", "is not typed yet", {*here.fields.values()})
        self._unseen = self._rows.uncaptured(folder)
        source = source_of(here.table)
        ledger = scan_ledger(self._duck, here.bronze.location) if here.bronze.location else Ledger()
        with suppress(HistoryChangedError):  # a run refuses the files: what waits in them is as good as lost
            self._of_files(source, source.find_new(self._pipeline.folder, ledger).files, "is not taken yet")
        elsewhere = here.table.source.landed_in(f"{folder}")
        if elsewhere is not None and self._unseen is None:
            other = source_of(here.table.model_copy(update={"source": elsewhere}))
            self._of_files(other, other.find_new(folder, Ledger()).files, "")

    def _of_files(self, source: Source, files: Iterable[NewFile], said: str) -> None:
        """Search the records of files that bronze does not have."""
        for file in files:
            columns = source.columns([file], ())
            batch = Batch(source=source, columns=columns, number=0, arrived_at=datetime.now(UTC))
            for some in records(file, batch):
                self._duck.register("records_of_file", pa.Table.from_batches([some]))
                self._of_records(f"SELECT * FROM records_of_file WHERE {r.KIND} = '{r.RECORD}'", said, {*columns})
                self._duck.unregister("records_of_file")

    def _of_records(self, rows: str, said: str, names: set[str]) -> None:
        """Search raw records; a record without a key is a truncate, or bad."""
        place = f"concat({r.FILE}, ' row ', {r.ROW}, ' {said}')" if said else "'not captured yet'"
        fields = self._fields(names)
        for some in self._key_fields(names):
            self._mark(IN_FLIGHT, f"SELECT key, {place} AS detail FROM ({self._with_key(rows, some)})")
        if fields and self._here.table.source.truncates:
            shard = self._here.table.source.shard_column
            no_key = " AND ".join(f"{identifier(name)} IS NULL" for name in fields if name != shard)
            if shard is not None:
                # As row_text_sql writes it, between the other parts of the key.
                of_shard = f"concat('|', length({identifier(shard)}), ':', {identifier(shard)}, '|')"
                no_key += f" AND contains(concat('|', differing.key, '|'), {of_shard})"
            what = duck_literal(f"a truncate {said or 'is not captured yet'}")
            self._duck.execute(
                f"UPDATE differing SET why = {duck_literal(IN_FLIGHT)}, detail = {what} "
                f"WHERE why IS NULL AND NOT there AND EXISTS (SELECT 1 FROM ({rows}) WHERE {no_key})"
            )

    def _fields(self, names: set[str]) -> list[str] | None:
        """Return the fields with the key; None if one is missing."""
        here = {name.lower(): name for name in names}
        found = [here.get(column.name.lower()) for column in self._keys]
        return None if None in found else [name for name in found if name]

    def _key_fields(self, names: set[str]) -> list[list[str]]:
        """Return the fields of a record's key, and those of its key before the change if the record has them."""
        fields = self._fields(names)
        if fields is None:
            return []
        old = source_of(self._here.table).meaning({name.lower(): name for name in names}, "''").old_keys
        quoted = {quote(name): name for name in names}
        before = [quoted.get(old.get(column.name, "")) for column in self._keys]
        return [fields, [name for name in before if name]] if all(before) else [fields]

    def _with_key(self, rows: str, fields: Sequence[str]) -> str:
        """Return the SELECT of each record's key as text, and of its place, given the key's fields."""
        values = [
            f"{typed_sql(column, f'raw.{identifier(name)}')} AS {identifier(column.name)}"
            for column, name in zip(self._keys, fields, strict=True)
        ]
        places = f"{r.FILE}, {r.ROW}, {r.POSITION}"
        return (
            f"SELECT {row_text_sql(self._keys)} AS key, {places} "
            f"FROM (SELECT {', '.join(values)}, {places} FROM ({rows}) AS raw)"
        )

    def _find_quarantined(self) -> None:
        """Find the keys whose newest record is in quarantine."""
        here = self._here
        fields = self._fields({*here.fields.values()})
        if not fields or not here.quarantine.snapshot.records:
            return
        newest = (
            f"SELECT {row_text_sql(self._keys)} AS key, max(({r.POSITION}, {r.ROW})) AS place FROM {here.changes.rows} "
            f"WHERE {self._is_differing} GROUP BY 1"
        )
        bad = (
            f"SELECT * FROM {here.bronze.rows} WHERE {r.KIND} = '{r.RECORD}' AND ({r.FILE}, {r.ROW}) IN "
            f"(SELECT ({r.FILE}, {r.ROW}) FROM {here.quarantine.rows})"
        )
        raw = self._with_key(bad, fields)
        self._mark(
            QUARANTINED,
            f"SELECT raw.key, concat(raw.{r.FILE}, ' row ', raw.{r.ROW}, ': ', bad.rule, ': ', bad.reason) AS detail "
            f"FROM ({raw}) AS raw JOIN {here.quarantine.rows} AS bad USING ({r.FILE}, {r.ROW}) "
            f"LEFT JOIN ({newest}) AS newest ON raw.key = newest.key "
            f"WHERE newest.place IS NULL OR (raw.{r.POSITION}, raw.{r.ROW}) > newest.place",
        )


def _differing(one: str, other: str) -> str:
    """Return the SELECT of the keys whose rows differ in two tables of keys and hashes."""
    sides = f"SELECT key, digest, 1 AS n, 0 AS m FROM {one} UNION ALL SELECT key, digest, 0, 1 FROM {other}"
    by_row = f"SELECT key, digest, sum(n) AS n, sum(m) AS m FROM ({sides}) GROUP BY ALL"
    return f"SELECT key, sum(n) > 0 AS here, sum(m) > 0 AS there FROM ({by_row}) GROUP BY key HAVING bool_or(n <> m)"


def _short(value: str | None) -> str:
    text = "NULL" if value is None else value
    return text if len(text) <= _LONG else f"{text[:_LONG]}… ({len(text)} signs)"


_LONG: Final = 60
