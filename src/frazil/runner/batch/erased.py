"""Erased keys of a source table: keys of its records, their keyed hashes, and how later records are emptied."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.lake.refs import is_missing
from frazil.silver.cast import exact
from frazil.silver.contract import settle
from frazil.silver.evolution import evolved, renamed_bookmark, renamed_records
from frazil.silver.old_keys import key_text
from frazil.sources.kinds import source_of
from frazil.spark.expressions import expressions_of
from frazil.spark.gateway import java_table
from frazil.spec.sql.names import quote
from frazil.spec.tables import ERASE_SALT, ERASE_UNFINISHED, ERASED, erased_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from frazil.runner.table_run import TableRun
    from frazil.silver.changes import Expressions
    from frazil.silver.contract import Contract
    from frazil.sources.base import Source

COLUMNS: Final = {"key_hash": "string", "erase_id": "string", "erased_at": "timestamp"}
_WHOLE, _HIT, _HASH = "_cdc_whole", "_cdc_hit", "_cdc_key_hash"
_KEPT: Final = (r.FILE, r.ROW, r.POSITION, r.BATCH, r.ARRIVED_AT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedKeys:
    """The hashes of a table's erased keys.

    Attributes:
        path: path of their table.
        salt: key of the hash.
        unfinished: name of a killed erase; None without one.
    """

    path: tuple[str, ...]
    salt: bytes
    unfinished: str | None = None

    def hash_of(self, text: str) -> str:
        """Return SQL for the hash of a key's text, itself an SQL expression."""
        return key_hash_sql(self.salt, text)

    def is_erased(self, text: str) -> str:
        """Return SQL that is true if a key's text, itself an SQL expression, is of an erased key."""
        return f"{self.hash_of(text)} IN (SELECT key_hash FROM {quote(*self.path)})"


def erased_keys(context: TableRun) -> ErasedKeys | None:
    """Return the erased keys of a table; None if no key was ever erased.

    Cost: free if bronze's bookmark excludes erased keys; else it reads the metadata of their table. A bronze without
    commits excludes none: an erase may have run before the table was dropped.
    """
    base = context.head(context.bronze)
    return find_erased(context) if base.snapshot_id is None or base.bookmark.get(ERASED) else None


def find_erased(context: TableRun) -> ErasedKeys | None:
    """Return the erased keys of a table regardless of bronze's bookmark; None if their table does not exist."""
    path = erased_table(context.pipeline, context.table).path
    try:
        table = java_table(context.spark, quote(*path))
    except Exception as error:
        if is_missing(error):
            return None
        raise
    properties = table.properties()
    return ErasedKeys(
        path=path, salt=bytes.fromhex(properties.get(ERASE_SALT)), unfinished=properties.get(ERASE_UNFINISHED)
    )


def contract_over(context: TableRun, bookmark: Mapping[str, Any]) -> Contract:
    """Return the table's contract over the fields in a bookmark of bronze."""
    known = renamed_bookmark(context.table, bookmark)
    return settle(
        context.table,
        known.get("fields", {}),
        evolved(context.table, known, context.head(context.changes).bookmark),
    )


def keyed_records(context: TableRun, rows: DataFrame, bookmark: Mapping[str, Any]) -> DataFrame:
    """Return rows of bronze as one struct ``_cdc_whole``, each with the columns of :func:`with_keys`.

    Args:
        context: the table's part of the run.
        rows: rows of bronze.
        bookmark: bookmark of bronze.
    """
    contract = contract_over(context, bookmark)
    whole = rows.select("*", F.struct(*map(quote, rows.columns)).alias(_WHOLE))
    named = renamed_records(whole, context.table, bookmark)
    keyed = with_keys(named, contract, source_of(context.table), expressions_of(context.spark, contract))
    return keyed.select(_WHOLE, KEY, OLD_KEY, KEY_PARTS, OLD_KEY_PARTS)


def without_erased(context: TableRun, rows: DataFrame, bookmark: Mapping[str, Any], erased: ErasedKeys) -> DataFrame:
    """Empty the records of erased keys; each keeps its place, as a row of kind ``erased``.

    Args:
        context: the table's part of the run.
        rows: n rows for bronze.
        bookmark: bookmark of bronze after their commit.
        erased: the erased keys.

    Returns:
        n rows of the same columns. Bad records are unchanged, because their key is unknown.

    Cost: two broadcast joins with the hashes; no shuffle of the rows.
    """
    hashes = context.spark.table(quote(*erased.path)).select(F.col("key_hash").alias(_HASH)).distinct()
    keyed = keyed_records(context, rows, bookmark)
    for name in (KEY, OLD_KEY):
        hit = F.broadcast(hashes.withColumn(_HIT + name, F.lit(True)))
        keyed = keyed.join(hit, F.expr(erased.hash_of(name)) == F.col(_HASH), "left").drop(_HASH)
    is_erased = F.coalesce(F.col(_HIT + KEY), F.col(_HIT + OLD_KEY), F.lit(False))
    return keyed.select(*(_emptied(name, is_erased) for name in rows.columns))


def _emptied(name: str, is_erased: Any) -> Any:
    value = F.col(f"{_WHOLE}.{quote(name)}")
    if name == r.KIND:
        value = F.when(is_erased, r.ERASED).otherwise(value)
    elif name not in _KEPT:
        value = F.when(~is_erased, value)
    return value.alias(name)


KEY: Final = "_cdc_key"
OLD_KEY: Final = "_cdc_old_key"
KEY_PARTS: Final = "_cdc_key_parts"
OLD_KEY_PARTS: Final = "_cdc_old_key_parts"

_VIEW, _MADE, _OWN, _OLD = "frazil_records", "_cdc_made_", "_cdc_own_", "_cdc_old_"
_BLOCK_BYTES: Final = 64


def with_keys(records: DataFrame, contract: Contract, source: Source, expressions: Expressions) -> DataFrame:
    """Add ``KEY`` and ``OLD_KEY``, the texts of a record's key and previous key, and the :func:`key_parts` of both.

    Args:
        records: n rows of bronze, of any kind, in any order, with current field names.
        contract: the settled columns.
        source: the source, which defines the meaning of records.
        expressions: expressions of the contract.

    Returns:
        The n rows. Texts have the form of :func:`frazil.silver.old_keys.key_text`. Texts and parts are NULL if a
        record has no such key or cannot be read.

    Cost: narrow, no shuffle, no UDF.
    """
    fields = {name.lower(): name for name, _ in contract.fields}
    meaning = source.meaning(fields, r.POSITION)
    columns = {column.name: column for column in contract.columns}
    made = [
        expressions.made[name].getField("value").alias(_MADE + name)
        for name in contract.keys
        if columns[name].expr is not None
    ]
    old_made, old_keys = expressions.old_keys(meaning)
    records.select("*", *made, *old_made).createOrReplaceTempView(_VIEW)
    own, old = [], []
    for name in contract.keys:
        column = columns[name]
        text = "CAST(NULL AS string)"
        if column.expr is not None:
            text = quote(_MADE + name)
        elif name.lower() in meaning.made:
            text = meaning.made[name.lower()]
        elif name.lower() in fields:
            text = quote(fields[name.lower()])
        own.append(f"{exact(text, column.type, contract.beyond)} AS {quote(_OWN + name)}")
        if name in old_keys:
            before = exact(old_keys[name], column.type, contract.beyond)
            old.append(f"{before} AS {quote(_OLD + name)}")
    rest = [quote(name) for name in records.columns]
    typed = f"SELECT {', '.join([*rest, *own, *old])} FROM (SELECT *, {meaning.operation} AS _cdc_op FROM {_VIEW})"
    texts = [
        *_texts(contract.keys, _OWN, KEY, KEY_PARTS),
        *_texts(contract.keys, _OLD if old else None, OLD_KEY, OLD_KEY_PARTS),
    ]
    return records.sparkSession.sql(f"SELECT {', '.join([*rest, *texts])} FROM ({typed})")


def key_parts(keys: Sequence[str], prefix: str = "") -> str:
    """Write the text of a key column, or an array of texts for several; ``prefix`` precedes the column names.

    Comparing parts is cheaper than comparing :func:`frazil.silver.old_keys.key_text`, which writes JSON.
    """
    texts = [f"CAST({quote(prefix + key)} AS string)" for key in keys]
    return texts[0] if len(texts) == 1 else f"array({', '.join(texts)})"


def _texts(keys: Sequence[str], prefix: str | None, text: str, parts: str) -> tuple[str, str]:
    if prefix is None:
        none = "string" if len(keys) == 1 else "array<string>"
        return f"CAST(NULL AS string) AS {text}", f"CAST(NULL AS {none}) AS {parts}"
    whole = " AND ".join(f"{quote(prefix + name)} IS NOT NULL" for name in keys)
    made = ((key_text(keys, prefix), text), (key_parts(keys, prefix), parts))
    first, second = (f"CASE WHEN {whole} THEN {sql} END AS {name}" for sql, name in made)
    return first, second


def key_hash_sql(salt: bytes, text: str) -> str:
    """Write the HMAC-SHA256 of a text as hexadecimal digits; ``text`` is SQL, and NULL stays NULL."""
    key = (hashlib.sha256(salt).digest() if len(salt) > _BLOCK_BYTES else salt).ljust(_BLOCK_BYTES, b"\0")
    inner, outer = bytes(byte ^ 0x36 for byte in key).hex(), bytes(byte ^ 0x5C for byte in key).hex()
    return f"sha2(concat(X'{outer}', unhex(sha2(concat(X'{inner}', encode({text}, 'UTF-8')), 256))), 256)"
