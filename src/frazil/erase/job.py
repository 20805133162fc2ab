"""State and statements of one erase on the tables of one source table."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.erase.keys import parse_key
from frazil.erase.subjects import PARTS, SUBJECT, bad_places, given_subjects, matching_subjects, with_moves
from frazil.failpoints import failpoint
from frazil.gold import tables_of
from frazil.lake.file_writer import FILE_PATH, LIVING, POS
from frazil.lake.tables import ensure
from frazil.older_spark import to_arrow
from frazil.plan.layout import TableLayout
from frazil.runner.batch.erased import (
    COLUMNS,
    KEY,
    KEY_PARTS,
    OLD_KEY,
    OLD_KEY_PARTS,
    ErasedKeys,
    contract_over,
    find_erased,
    key_parts,
    keyed_records,
)
from frazil.runner.steps.gold import refresh_gold
from frazil.silver.baseline import BASELINE
from frazil.silver.old_keys import key_text
from frazil.spark.gateway import hold
from frazil.spec.pii import stored_keys
from frazil.spec.sql.names import literal, quote
from frazil.spec.sql.sql import gold_in_order, marts_of
from frazil.spec.tables import ERASE_SALT, ERASE_UNFINISHED, ERASED, erased_table, gold_table, source_tables
from frazil.steps import RefreshGold

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from frazil.erase.report import Wanted
    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.spec import Gold
    from frazil.spec.tables import LakeTable

PLACES: Final = "frazil_erase_places"
_SUBJECTS: Final = "frazil_erase_subjects"
_LINES: Final = "frazil_erase_lines"
_RECORDS: Final = f"{r.KIND} IN ({literal(r.RECORD)}, {literal(r.BAD)}, {literal(r.CORRECTED)})"
_GOES: Final = f"{r.KIND} IN ({', '.join(map(literal, (r.RECORD, r.BAD, r.CORRECTED, r.PART)))})"
_SALT_BYTES: Final = 32
_KEPT: Final = (r.FILE, r.ROW, r.POSITION, r.BATCH, r.ARRIVED_AT)
"""Columns that an erased record keeps: its place."""
_COMPARED: Final = "_cdc_compared"
_PLAIN_TYPES: Final = frozenset({"string", "boolean", "tinyint", "smallint", "int", "bigint", "decimal", "date"})
"""Types whose values are equal exactly if their texts are equal."""
_MOST_PLACES: Final = 1_000_000
"""Above this, rows are deleted by condition: the file names of their places would need a gigabyte of memory."""


class EraseJob:
    """One erase.

    Attributes:
        subjects: text of each key, and the texts of its columns; None until :meth:`load_subjects` ran.
        rows: number of deleted rows by table name.
    """

    def __init__(self, context: TableRun) -> None:
        self.context, self.spark = context, context.spark
        self.contract: Contract = contract_over(context, context.head(context.bronze).bookmark)
        self.subjects: DataFrame | None = None
        self.rows: dict[str, int | None] = {}
        self._is_subject: Callable[[str, str], str] = self._is_given

    def load_subjects(self, wanted: Wanted) -> int:
        """Find the subjects and the places of their records; return the number of subjects."""
        frames = []
        if wanted.keys:
            keys = [parse_key(self.context.table, key) for key in wanted.keys]
            stored = stored_keys(self.context.pipeline, self.context.table, keys)
            frames.append(given_subjects(self.context, self.contract, stored))
        if wanted.where is not None:
            frames.append(matching_subjects(self.context, self.contract, wanted.where))
        first = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
        found = hold(with_moves(self.context, self.contract, first.dropDuplicates([SUBJECT])))
        parts = f"{PARTS}[0]" if len(self.contract.keys) == 1 else PARTS
        found.selectExpr(SUBJECT, f"{parts} AS {_COMPARED}").createOrReplaceTempView(_SUBJECTS)
        self.subjects = found
        self._see_places()
        return found.count()

    def _is_given(self, text: str, parts: str) -> str:
        """Return SQL that is true if a key, given as text and as parts, is one of the subjects."""
        types = {column.name: column.type for column in self.contract.columns}
        if all(types[key].partition("(")[0] in _PLAIN_TYPES for key in self.contract.keys):
            return f"{parts} IN (SELECT {_COMPARED} FROM {_SUBJECTS})"
        return f"{text} IN (SELECT {SUBJECT} FROM {_SUBJECTS})"

    def records(self) -> DataFrame:
        """Return file and row of the subjects' records in bronze, bad ones too if their key can be read."""
        bronze = self.spark.table(quote(*self.context.bronze)).where(_RECORDS)
        keyed = keyed_records(self.context, bronze, self.context.head(self.context.bronze).bookmark)
        own = keyed.where(f"{self._is_subject(KEY, KEY_PARTS)} OR {self._is_subject(OLD_KEY, OLD_KEY_PARTS)}")
        return own.select(f"_cdc_whole.{r.FILE}", f"_cdc_whole.{r.ROW}")

    def _see_places(self) -> None:
        """Find file and row of the subjects' records, including bad records that name a key."""
        places = self.records()
        if self.subjects is not None:
            bronze = self.spark.table(quote(*self.context.bronze))
            places = places.unionByName(bad_places(bronze.where(f"{r.KIND} = {literal(r.BAD)}"), self.subjects))
        hold(places.distinct()).createOrReplaceTempView(PLACES)

    def block(self, erase_id: str) -> tuple[ErasedKeys, str, bool]:
        """Store the hashes of the subjects; the next erase finishes a killed one by them.

        Args:
            erase_id: name of this erase; an unfinished erase keeps its own.

        Returns:
            The erased keys, the name of the erase, and whether it resumes a killed one.
        """
        context, erased = self.context, find_erased(self.context)
        if erased is None:
            path = erased_table(context.pipeline, context.table).path
            made = ErasedKeys(path=path, salt=secrets.token_bytes(_SALT_BYTES))
            properties = {ERASE_SALT: made.salt.hex(), ERASE_UNFINISHED: erase_id}
            ensure(self.spark, TableLayout(path=path, columns=COLUMNS, properties=properties))
            # Another host may have made the table at this moment, with a salt of its own.
            found = find_erased(context)
            erased = made if found is None or found.salt == made.salt else found
        elif erased.unfinished is None:
            name, mark = quote(*erased.path), f"{literal(ERASE_UNFINISHED)} = {literal(erase_id)}"
            self.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({mark})")
        erase_id = erased.unfinished or erase_id
        known = self.spark.table(quote(*erased.path)).select("key_hash")
        new = self.hashes(erased).join(known, "key_hash", "left_anti")
        named = new.select(
            "key_hash", F.lit(erase_id).alias("erase_id"), F.lit(context.now).cast("timestamp").alias("erased_at")
        )
        named.coalesce(1).writeTo(quote(*erased.path)).append()
        if erased.unfinished is not None:
            # Only the hashes of the killed erase's subjects are known.
            self._is_subject = lambda text, _: erased.is_erased(text)
            self._see_places()
        return erased, erase_id, erased.unfinished is not None

    def end(self, erased: ErasedKeys, erase_id: str, done: DataFrame) -> None:
        """Let the erase count as ended, unless another host works on it under this name, or under its own.

        Args:
            erased: the erased keys.
            erase_id: name of the erase.
            done: hashes of the keys that are erased, as ``key_hash``.
        """
        now = find_erased(self.context)
        kept = self.spark.table(quote(*erased.path)).where(f"erase_id = {literal(erase_id)}")
        if now is None or now.unfinished != erase_id or not kept.join(done, "key_hash", "left_anti").isEmpty():
            return
        self.spark.sql(f"ALTER TABLE {quote(*erased.path)} UNSET TBLPROPERTIES IF EXISTS ({literal(ERASE_UNFINISHED)})")

    def include_unfinished(self) -> tuple[str | None, int]:
        """Include the keys of an unfinished erase, as :meth:`block` does, without changing anything.

        Returns:
            Name of the unfinished erase, or None; and the number of its keys that are not among the subjects.
        """
        erased = find_erased(self.context)
        if erased is None or erased.unfinished is None:
            return None, 0
        self._is_subject = lambda text, parts: f"({self._is_given(text, parts)} OR {erased.is_erased(text)})"
        self._see_places()
        return erased.unfinished, self.other_hashes(erased, erased.unfinished).count()

    def hashes(self, erased: ErasedKeys) -> DataFrame:
        """Return the hashes of the subjects, as ``key_hash``."""
        return self.spark.sql(f"SELECT {erased.hash_of(SUBJECT)} AS key_hash FROM {_SUBJECTS}")

    def other_hashes(self, erased: ErasedKeys, erase_id: str) -> DataFrame:
        """Return the hashes of other keys that a killed erase of this name stored, as ``key_hash``."""
        kept = self.spark.table(quote(*erased.path)).where(f"erase_id = {literal(erase_id)}")
        return kept.select("key_hash").join(self.hashes(erased), "key_hash", "left_anti").distinct()

    def files(self, erase_id: str | None) -> list[str]:
        """Return the files with records of the subjects, and the files that an erase of this name has emptied.

        Call it before :meth:`delete`, which removes the records.
        """
        is_emptied = f"{r.KIND} = {literal(r.ERASED)} AND {r.REASON} = {literal(erase_id or '')}"
        emptied = f"SELECT {r.FILE} FROM {quote(*self.context.bronze)} WHERE {is_emptied}"
        return self._with_copies(f"SELECT {r.FILE} FROM {PLACES} UNION {emptied}")

    def folded_files(self) -> list[str]:
        """Return the files with folded records; bronze no longer knows the keys of these records."""
        if BASELINE not in self.context.head(self.context.bronze).bookmark:
            return []
        is_folded = f"{r.KIND} = {literal(r.FOLDED)}"
        return self._with_copies(f"SELECT {r.FILE} FROM {quote(*self.context.bronze)} WHERE {is_folded}")

    def _with_copies(self, files: str) -> list[str]:
        """Return the files that a query selects, and their copies under other names."""
        is_line, same = f"{r.KIND} = {literal(r.LEDGER_ROW)}", f"{r.LEDGER}.same_as"
        copies = (
            f"SELECT {r.FILE} FROM {quote(*self.context.bronze)} WHERE {is_line} AND {same} IN (TABLE frazil_holding)"
        )
        found = self.spark.sql(f"WITH frazil_holding AS ({files}) TABLE frazil_holding UNION {copies} ORDER BY 1")
        return [row[0] for row in found.toLocalIterator()]

    @property
    def gold(self) -> list[Gold]:
        """The aggregates over marts of the source table, each after the aggregates it reads."""
        pipeline = self.context.pipeline
        return [one for one in gold_in_order(pipeline) if self.context.table.name in tables_of(pipeline, one)]

    @property
    def tables(self) -> list[LakeTable]:
        """The existing tables of the source table, then the existing aggregates over its marts."""
        tables = self.context.tables
        made = [
            tables.bronze,
            *tables.computed,
            *(gold_table(self.context.pipeline, one) for one in self.gold),
        ]
        return [one for one in made if self.spark.catalog.tableExists(quote(*one.path))]

    def count(self, made: LakeTable) -> int | None:
        """Count the rows of a table to delete; None for an aggregate."""
        if made.role == "gold":
            return None
        rows = self.spark.sql(f"SELECT count(*) AS n FROM {quote(*made.path)} AS t WHERE {self._goes(made)}")
        return int(rows.collect()[0]["n"])

    def _goes(self, made: LakeTable) -> str:
        """Return an SQL condition over the alias ``t`` for the rows of a table to delete."""
        if made.role not in ("bronze", "quarantine"):
            return self._is_subject(key_text(self.contract.keys), key_parts(self.contract.keys))
        same = f"p.{r.FILE} = t.{r.FILE} AND p.{r.ROW} = t.{r.ROW}"
        is_there = f"EXISTS (SELECT 1 FROM {PLACES} p WHERE {same})"
        return f"{_GOES} AND {is_there}" if made.role == "bronze" else is_there

    def delete(self, erase_id: str, lines: DataFrame | None = None) -> None:
        """Delete the subjects' rows from bronze, silver, quarantine and marts, a commit each, in the order of the data.

        Bronze keeps the place of each deleted record.

        Args:
            erase_id: name of the erase; bronze stores it in place of the records.
            lines: new ledger rows of bronze; they replace the ledger rows of the same files.
        """
        bronze, *others = (made for made in self.tables if made.role != "gold")
        self._delete(bronze, erase_id, lines)
        failpoint("erase.after_bronze")
        # The remaining places in bronze include those that a killed erase has found.
        stubs = self.spark.table(quote(*bronze.path)).where(f"{r.KIND} = {literal(r.ERASED)}")
        hold(stubs.select(r.FILE, r.ROW).distinct()).createOrReplaceTempView(PLACES)
        for made in others:
            self._delete(made, erase_id)
            failpoint("erase.after_marts" if made.role == "mart" else "erase.after_silver")

    def _delete(self, made: LakeTable, erase_id: str, lines: DataFrame | None = None) -> None:
        path, base, is_bronze = made.path, self.context.head(made.path, rebuilt=True), made.role == "bronze"
        if base.snapshot_id is None:
            self.rows[made.full_name] = 0
            return
        going = [self._goes(made)]
        if lines is not None:
            lines = hold(lines)
            lines.select(r.FILE).createOrReplaceTempView(_LINES)
            going.append(f"{r.KIND} = {literal(r.LEDGER_ROW)} AND {r.FILE} IN (SELECT {r.FILE} FROM {_LINES})")
        found = self._found(made, going)
        rest = self.spark.sql(f"SELECT * FROM {quote(*path)} WHERE false")
        if is_bronze:
            whole = found.where(f"{r.KIND} IN ({literal(r.RECORD)}, {literal(r.BAD)})")
            rest = whole.selectExpr(*_KEPT, f"{literal(r.ERASED)} AS {r.KIND}", f"{literal(erase_id)} AS {r.REASON}")
        if lines is not None:
            rest = lines.unionByName(rest, allowMissingColumns=True)
        all_found = found.count()
        self.rows[made.full_name] = count = all_found - (0 if lines is None else lines.count())
        if not (all_found or (is_bronze and not base.bookmark.get(ERASED))):
            return
        bookmark = dict(base.bookmark) | ({ERASED: True} if is_bronze else {})
        with self.context.transaction(path, bookmark) as batch:
            batch.note(strategy="erase", erased=count)
            if not all_found:
                batch.append(rest)
            elif batch.takes_places and all_found <= _MOST_PLACES:
                places = to_arrow(found.drop(*_KEPT))
                batch.row_delta(to_arrow(rest) if is_bronze else places.slice(length=0), places)
            elif batch.takes_deletes:
                for condition in going:
                    batch.delete(condition)
                batch.append(rest)
            else:
                stays = " AND ".join(f"NOT coalesce({condition}, false)" for condition in going)
                kept = self.spark.sql(f"SELECT * FROM {quote(*path)} AS t WHERE {stays}")
                batch.replace(kept.unionByName(rest, allowMissingColumns=True))
            failpoint("erase.before_publish")
            batch.publish()

    def _found(self, made: LakeTable, going: Sequence[str]) -> DataFrame:
        """Find the rows that fulfil one of some conditions: their places, and for bronze the columns to keep.

        Cost: one scan of the columns that each condition reads.
        """
        there = self.spark.table(quote(*made.path)).columns
        parted = [quote(name) for name in (LIVING, r.CLASS, r.KIND) if name in there]
        kept = _KEPT if made.role == "bronze" else ()
        columns = ", ".join([f"_file AS {FILE_PATH}", f"_pos AS {POS}", *parted, *kept])
        found = (f"SELECT {columns} FROM {quote(*made.path)} AS t WHERE {condition}" for condition in going)
        return hold(self.spark.sql(" UNION ALL ".join(found)))

    def refresh_gold(self) -> None:
        """Compute the aggregates again."""
        pipeline = self.context.pipeline
        marts = [mart for table in pipeline.tables for mart in source_tables(pipeline, table).marts]
        made_gold = {made.name for made in self.tables if made.role == "gold"}
        for gold in self.gold:
            if gold.name in made_gold:
                read = set(marts_of(pipeline, gold))
                inputs = tuple(sorted((mart.name, self._batch(mart)) for mart in marts if mart.name in read))
                step = RefreshGold(name=gold.name, inputs=inputs)
                refresh_gold(self.spark, pipeline, step, run_id=self.context.run_id)

    def _batch(self, made: LakeTable) -> int:
        return self.context.head(made.path).batch
