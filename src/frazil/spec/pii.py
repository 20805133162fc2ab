"""Columns of personal data: their fields at the source, the values stored instead, and their rules."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import DeclarationError
from frazil.spec.contract import REST, event_time, final_names
from frazil.spec.load.problem import Problem
from frazil.spec.model.column import COLUMN_RULES
from frazil.spec.secrets import is_reference, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from frazil.spec.load.problem import Path
    from frazil.spec.model.column import Column
    from frazil.spec.model.pipeline import Pipeline, Table


DROP, MASK, HMAC = "drop", "mask", "hmac"
MASKED: Final = "***"
TREATED: Final = "treated"
"""Key of bronze's bookmark: field -> treatment, for each treated field."""
TREATING: Final = "treating"
"""Key of bronze's bookmark: an unfinished replacement of values that the lake held before."""

_KEY_BYTES: Final = 16
_CHECK: Final = b"frazil: which key"
_HASHED: Final = re.compile(r"[0-9a-f]{64}")


class PiiKeyError(DeclarationError):
    """The key of hmac columns is too short, or differs from the key of the lake's values."""

    code = "FZ113"


def pii_fields(table: Table) -> dict[str, str]:
    """Return lower-case field name -> treatment (drop, mask or hmac), including fields with values before a change.

    Fields that contain whole rows as text, such as the JSON of an audit log, are dropped. The result is empty if no
    column declares ``pii``.
    """
    return _fields_of(table, {column.name: column.pii for column in table.columns or () if column.pii is not None})


def _fields_of(table: Table, said: Mapping[str, str]) -> dict[str, str]:
    """Return :func:`pii_fields` for given treatments of columns: column -> treatment."""
    ways = {name.lower(): way for name, way in said.items()}
    if not ways:
        return {}
    finals = final_names(table)
    found = ways | {old: ways[new.lower()] for old, new in finals.items() if new.lower() in ways}
    if prefix := table.source.before_prefix:
        found |= {f"{prefix}{name}".lower(): way for name, way in found.items()}
    return {**found, **{name.lower(): DROP for name in table.source.row_texts}}


def declared_pii(table: Table) -> dict[str, list[str]]:
    """Return the ``pii`` settings of columns, for the settings that records depend on; empty without any."""
    said = [f"{column.name}: {column.pii}" for column in table.columns or () if column.pii is not None]
    return {"pii": said} if said else {}


def treated_fields(table: Table, fields: Iterable[str]) -> dict[str, str]:
    """Return field -> treatment for the treated ones of some fields; bronze's bookmark keeps this."""
    ways = pii_fields(table)
    return {name: ways[name.lower()] for name in fields if name.lower() in ways}


def kept_ways(table: Table, bronze: Mapping[str, Any]) -> dict[str, str]:
    """Return field -> treatment at the time when bronze's files were read.

    Args:
        table: the declaration.
        bronze: bronze's bookmark. Bookmarks of older versions name the columns with ``pii`` instead of fields.
    """
    if TREATED in bronze:
        return dict(bronze[TREATED])
    said = (text.rpartition(": ") for text in bronze.get("reading", {}).get("pii", ()))
    ways = _fields_of(table, {name: way for name, _, way in said})
    return {name: ways[name.lower()] for name in bronze.get("fields", {}) if name.lower() in ways}


def clear_fields(table: Table, bronze: Mapping[str, Any]) -> dict[str, str]:
    """Return field -> treatment for fields whose values are still in plain text in bronze.

    Args:
        table: the declaration.
        bronze: bronze's bookmark.
    """
    kept = kept_ways(table, bronze)
    return {name: way for name, way in treated_fields(table, bronze.get("fields", {})).items() if name not in kept}


def pii_key(pipeline: Pipeline) -> bytes:
    """Return the key of hmac columns.

    Raises:
        DeclarationError: the reference cannot be resolved.
        PiiKeyError: the key is too short.
    """
    key = resolve(pipeline.pii_key or "", setting="pii_key", folder=pipeline.folder).encode()
    if len(key) < _KEY_BYTES:
        raise PiiKeyError(
            f"pii_key: the key has {len(key)} bytes, and fewer than {_KEY_BYTES} can be guessed",
            hint="make one: openssl rand -hex 32",
        )
    return key


def key_check(key: bytes) -> str:
    """Return a fingerprint of a key, which does not reveal it."""
    return hmac.digest(key, _CHECK, "sha256").hex()[:16]


def hashed(key: bytes, text: str) -> str:
    """Return the stored value of a text: its HMAC-SHA256 as 64 hexadecimal digits."""
    return hmac.digest(key, text.encode(), hashlib.sha256).hex()


def stored_keys(pipeline: Pipeline, table: Table, keys: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return given keys in the form that the lake stores: values of hmac columns are hashed.

    Args:
        pipeline: the declaration, with the key of hmac columns.
        table: one of its tables.
        keys: values in the order of ``table.keys``. A value in the form of a hash, as ``frazil query`` shows it, is
            used as the hash.

    Raises:
        DeclarationError, PiiKeyError: as for :func:`pii_key`.
    """
    ways = pii_fields(table)
    secret = [ways.get(name.lower()) == HMAC for name in table.keys]
    if not any(secret):
        return [tuple(key) for key in keys]
    key = pii_key(pipeline)
    return [
        tuple(
            hashed(key, text) if is_secret and not is_hashed(text) else text
            for text, is_secret in zip(texts, secret, strict=True)
        )
        for texts in keys
    ]


def is_hashed(text: str) -> bool:
    """Return whether a text has the form of a value of an hmac column."""
    return _HASHED.fullmatch(text) is not None


def pii_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Yield problems of ``pii`` in columns and of the key."""
    key = pipeline.pii_key
    hashes = False
    for i, table in enumerate(pipeline.tables):
        for j, column in enumerate(table.columns or ()):
            if column.pii is not None:
                yield from _column(table, column, ("tables", i, "columns", j))
                hashes = hashes or column.pii == HMAC
    if hashes and key is None:
        yield Problem(
            ("pii_key",), "a column says pii: hmac, and pii_key is missing", 'write pii_key: "${env:PII_KEY}"'
        )
    elif key is not None and not is_reference(key):
        # The text itself never goes into a message.
        yield Problem(("pii_key",), "'pii_key' is a secret in plain text", "write ${env:PII_KEY} or ${file:path}")


def _column(table: Table, column: Column, at: Path) -> Iterator[Problem]:
    whose, here = f"column '{column.name}' of table '{table.name}'", (*at, "pii")
    if column.name == REST:
        yield Problem(here, "'*' in the columns takes no pii", "name the columns")
        return
    if column.expr is not None:
        hint = "declare the fields that the expr reads, with pii; it then reads what is stored of them"
        yield Problem(here, f"{whose} is made by an expr: pii is for fields of the source", hint)
    if column.pii != DROP and column.type != "string":
        hint = "declare it as string, or write pii: drop"
        yield Problem(here, f"pii: {column.pii} makes texts, and the type of {whose} is {column.type}", hint)
    if column.pii != HMAC and column.name in table.keys:
        yield Problem(here, f"{whose} is a key, and pii: {column.pii} makes all keys one", "write pii: hmac")
    if column.name in table.sequence_by or column.name == event_time(table):
        yield Problem(here, f"{whose} orders the changes; pii would take the order away", "order by another column")
    for name in COLUMN_RULES:
        if getattr(column, name, None) is not None:
            yield Problem((*at, name), f"{name} of {whose} would look at the stored value, not at the source's")
    if column.pii == DROP and not column.nullable:
        yield Problem((*at, "nullable"), f"{whose} says pii: drop, so its values are NULL", "leave out nullable")
