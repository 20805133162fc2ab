"""Keys of bronze records, and the keyed hash of a key."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.silver.cast import exact
from frazil.silver.old_keys import key_text
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from frazil.silver.changes import Expressions
    from frazil.silver.contract import Contract
    from frazil.sources.base import Source

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
        own.append(f"{exact(text, column.type, contract.beyond)} AS {quote(_OWN + name)}")
        if name in meaning.old_keys:
            before = exact(meaning.old_keys[name], column.type, contract.beyond)
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
