"""What a flat row does: its op in the words of many tools, its before image, and fields that mark it as deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil.formats.json.text import NoObjectError, text_of
from frazil.sources.before_images import BEFORE_IMAGE, said_by
from frazil.spec.sql.sql import fields_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from frazil.spec import Table

_TRUE_IF_DELETED: Final = ("_fivetran_deleted", "_hoodie_is_deleted")
_TIME_IF_DELETED: Final = ("_ab_cdc_deleted_at", "_sdc_deleted_at")
_MARKS: Final = frozenset({*_TRUE_IF_DELETED, *_TIME_IF_DELETED})
"""Fields by which Fivetran, Hudi, Airbyte and Singer mark a deleted row."""

_OPERATIONS: Final = frozenset({"__op", "__$operation", "_change_type", "header__change_oper", "metadata$action"})
"""Fields that say what a record does, and nothing else."""

_GOLDEN_GATE: Final = frozenset({"table", "op_type", "op_ts"})
_PLACE: Final = (
    *("lsn", "sequence", "file", "pos", "row", "commit_lsn", "change_lsn", "scn", "commit_scn"),
    *("db", "schema", "table"),
)
_HALF_OF_UPDATE: Final = (
    "half_of_update: the DELETE of an update in a stream of Snowflake may stand before or behind its INSERT; export "
    "rows where metadata$action = 'INSERT' or not metadata$isupdate"
)


def operation_of(whole: Mapping[str, Any], table: Table) -> str | None:
    """Return what a flat row does; ``BEFORE_IMAGE`` for the row before an update.

    Args:
        whole: lower-case name -> field of the record.
        table: declared table. Of the fields that its columns read, none is a mark of a deleted row.

    Raises:
        NoObjectError: the record is one half of an update, and its order is not known.
    """
    if _is_true(whole.get("__deleted")) or ((marks := _MARKS & whole.keys()) and _is_marked(whole, marks, table)):
        return "d"
    field: str | None = table.source.op
    if field is None:
        _check_upsert(whole, table)
        return "upsert"
    if field.lower() not in whole:
        return "u" if "__deleted" in whole else None
    said = text_of(whole[field.lower()])
    if field.lower() == "metadata$action" and said == "DELETE" and _is_true(whole.get("metadata$isupdate")):
        raise NoObjectError(_HALF_OF_UPDATE)
    return None if said is None else said_by(field, said)


def _fields_read(table: Table) -> set[str]:
    """Return the fields that columns are made of, in lower case."""
    columns = table.columns or ()
    made = (name for one in columns for name in ((one.name,) if one.expr is None else fields_of(one.expr)))
    return {name.lower() for name in (*table.keys, *made)}


def _check_upsert(whole: Mapping[str, Any], table: Table) -> None:
    """Refuse a record that says in an unread field that it is another operation than an upsert."""
    for name in _OPERATIONS & whole.keys():
        meaning = said_by(name, str(text_of(whole[name]))).lower()
        if meaning in {"d", "delete", "t", "truncate", BEFORE_IMAGE} and name not in _fields_read(table):
            shown = f"{name} is {text_of(whole[name])}"
            raise NoObjectError(
                f"op_unread: {shown}, and op: null takes every record for an upsert; declare op: {name}"
            )


def _is_marked(whole: Mapping[str, Any], marks: frozenset[str], table: Table) -> bool:
    values = {name: whole[name] for name in marks - _fields_read(table)}
    return any(_is_true(value) if name in _TRUE_IF_DELETED else value is not None for name, value in values.items())


def _is_true(value: Any) -> bool:
    return str(text_of(value)).lower() == "true"


def with_key(image: dict[str, str | None], keys: Collection[str]) -> dict[str, str | None]:
    """Return a before image.

    Raises:
        NoObjectError: it lacks a key, or a key is no field: a change of key could not be seen.
    """
    if missing := [name for name in keys if image.get(name) is None]:
        raise NoObjectError(
            f"before_image: {missing[0]} is not a field of the row before an update; use a field as key"
        )
    return image


def source_block(whole: Mapping[str, Any]) -> dict[str, Any]:
    """Return the source block of a flat row, from fields such as ``__lsn`` and ``__source_ts_ms``.

    Oracle GoldenGate names the table in ``table``, beside ``op_type`` and ``op_ts``.
    """
    found = {name: whole[f"__{name}"] for name in _PLACE if f"__{name}" in whole}
    if whole.keys() >= _GOLDEN_GATE:
        found["table"] = whole["table"]
    return found | {name.removeprefix("__source_"): value for name, value in whole.items() if name[:9] == "__source_"}
