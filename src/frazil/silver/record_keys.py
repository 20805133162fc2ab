"""Which key each record of bronze has, and the keyed hash of a key."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.silver.cast import exact
from frazil.silver.old_keys import key_text
from frazil.spec.names import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from frazil.silver.changes import Expressions
    from frazil.silver.contract import Contract
    from frazil.sources.base import Source

KEY: Final = "_cdc_key"
OLD_KEY: Final = "_cdc_old_key"

_VIEW, _MADE, _OWN, _OLD = "frazil_records", "_cdc_made_", "_cdc_own_", "_cdc_old_"
_BLOCK_BYTES: Final = 64


def with_keys(records: DataFrame, contract: Contract, source: Source, expressions: Expressions) -> DataFrame:
    """Add ``KEY`` and ``OLD_KEY``, the texts of a record's key and of the one before it.

    Args:
        records: n rows of bronze, of any kind, in any order, with the names that fields have now.
        contract: the settled columns.
        source: says what records mean.
        expressions: those of the contract.

    Returns:
        The n rows. A text is as :func:`frazil.silver.changes.key_text` writes it; NULL where a record has no such key
        or where it cannot be read.

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
    records.select("*", *made).createOrReplaceTempView(_VIEW)
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
        own.append(f"{exact(text, column.type)} AS {quote(_OWN + name)}")
        if name in meaning.old_keys:
            old.append(f"{exact(meaning.old_keys[name], column.type)} AS {quote(_OLD + name)}")
    rest = [quote(name) for name in records.columns]
    typed = f"SELECT {', '.join([*rest, *own, *old])} FROM (SELECT *, {meaning.operation} AS _cdc_op FROM {_VIEW})"
    before = _text(contract.keys, _OLD) if old else "CAST(NULL AS string)"
    return records.sparkSession.sql(
        f"SELECT {', '.join(rest)}, {_text(contract.keys, _OWN)} AS {KEY}, {before} AS {OLD_KEY} FROM ({typed})"
    )


def _text(keys: Iterable[str], prefix: str) -> str:
    names = list(keys)
    whole = " AND ".join(f"{quote(prefix + name)} IS NOT NULL" for name in names)
    return f"CASE WHEN {whole} THEN {key_text(names, prefix)} END"


def key_hash_sql(salt: bytes, text: str) -> str:
    """Write HMAC-SHA256 of a text, a SQL expression, as hexadecimal digits; NULL for NULL."""
    key = (hashlib.sha256(salt).digest() if len(salt) > _BLOCK_BYTES else salt).ljust(_BLOCK_BYTES, b"\0")
    inner, outer = bytes(byte ^ 0x36 for byte in key).hex(), bytes(byte ^ 0x5C for byte in key).hex()
    return f"sha2(concat(X'{outer}', unhex(sha2(concat(X'{inner}', encode({text}, 'UTF-8')), 256))), 256)"
