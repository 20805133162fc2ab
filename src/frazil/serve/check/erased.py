"""Erased keys in a comparison with a source, which may still have their rows."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Final

from frazil.duck import scan
from frazil.iceberg.metadata import metadata_of
from frazil.sources.comparison import SEPARATOR
from frazil.spec.tables import ERASE_SALT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import duckdb

    from frazil.serve.layers import Layers
    from frazil.sources.comparison import Compared

_WHOLE: Final = re.compile(r"-?[0-9]+")
# Spark's JSON has hexadecimal digits as capitals, Python's has not.
_ESCAPED: Final = str.maketrans(
    {chr(sign): f"\\u{sign:04X}" for sign in range(32)}
    | {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}
)
_INTEGERS: Final = ("tinyint", "smallint", "int", "integer", "bigint")


def erased_among(
    here: Layers, duck: duckdb.DuckDBPyConnection, keys: Sequence[Compared], texts: Iterable[str]
) -> Iterator[str]:
    """Yield the keys of a table that were erased.

    Args:
        here: the tables of the source table.
        duck: a connection that can read them.
        keys: the compared key columns. Only texts and whole numbers can be told; others yield nothing.
        texts: keys, each as canonical texts of its columns.

    Cost: reads the hashes of all erased keys, and computes a hash for each text.
    """
    if here.erased is None or not all(one.form == "text" or one.type in _INTEGERS for one in keys):
        return
    found = duck.execute(f"SELECT DISTINCT key_hash FROM {scan(here.erased)}").fetchall()
    hashes = {row[0] for row in found}
    salt = bytes.fromhex(metadata_of(here.erased).get("properties", {})[ERASE_SALT])
    for text in texts if hashes else ():
        if hmac.new(salt, key_text(keys, text).encode(), hashlib.sha256).hexdigest() in hashes:
            yield text


def key_text(keys: Sequence[Compared], text: str) -> str:
    """Return a key as :func:`frazil.silver.old_keys.key_text` writes it.

    Args:
        keys: the key columns: texts and whole numbers.
        text: their values as canonical texts, see :mod:`frazil.sources.comparison`.
    """
    said: list[str] = []
    at = 0
    for key in keys:
        if key.form == "text":
            length, _, _ = text[at:].partition(":")
            begin = at + len(length) + 1
            end = begin + int(length)
            value = _quoted(text[begin:end])
        else:
            number = _WHOLE.match(text, at)
            end = at if number is None else number.end()
            value = text[at:end]
        said.append(f"{_quoted(key.name)}:{value}")
        at = end + len(SEPARATOR)
    return f"{{{','.join(said)}}}"


def _quoted(text: str) -> str:
    return f'"{text.translate(_ESCAPED)}"'
