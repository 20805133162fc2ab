"""Check that bronze was read with the settings of the present declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil.errors import SchemaError
from frazil.sources.kinds import source_of
from frazil.sources.mixed_tables import ALL, NAMES, known_names
from frazil.spec.pii import clear_fields, kept_ways, treated_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.sources.base import SourceDelta
    from frazil.spec import Table

_WORDS: Final = {
    "by_place": "whether files alone order the changes (neither sequence_by nor change_seq)",
    "fields": "the list of fields of files without header",
}


class SourceChangedError(SchemaError):
    """The declaration reads the source with other settings than bronze was read with."""

    code = "FZ504"


def check_reading(table: Table, bronze: Mapping[str, Any], taken: SourceDelta) -> None:
    """Raise if bronze was read with other settings, so that a fresh lake would have other records.

    Args:
        table: the declaration.
        bronze: bronze's bookmark; may be empty.
        taken: the new files of the source.

    Raises:
        SourceChangedError: a setting or the treatment of a field has changed.
        SecondTableError: the records belong to several tables, and the declaration names none.
    """
    known_names(table, bronze, taken.files)
    before: Mapping[str, Any] | None = bronze.get("reading")
    if before is None:
        return
    check_kept(table, bronze)
    if clear := clear_fields(table, bronze):
        raise SourceChangedError(
            f"table {table.name!r}: pii of its columns: bronze holds the values of {', '.join(clear)} as they came",
            hint=f"replace them in all of the lake: frazil erase --select {table.name} --pii; or take pii away again",
        )
    now = source_of(table).reading()
    for setting in sorted((before.keys() | now.keys()) - {"pii"}):
        old, new = before.get(setting), now.get(setting)
        if old == new or (setting == "fields" and old and list(new or ())[: len(old)] == list(old)):
            continue
        if setting == "table" and old is None:
            fits = new == ALL or [new] == bronze.get(NAMES, {}).get("")
        elif setting == "other_fields":
            fits = _keeps_lists(before, now)
        elif setting == "path":
            fits = taken.known or not taken.files or set(old or ()) <= set(new or ())
        else:
            fits = setting == "by_place" and not taken.again
        if not fits:
            found = "" if setting != "path" else ", and none of the files there is known"
            raise SourceChangedError(
                f"table {table.name!r}: {_WORDS.get(setting, f'source.{setting}')} was {_shown(old)} when its files "
                f"were read and is {_shown(new)} now{found}",
                hint=f"set it back; or {_again(table)}",
            )


def _keeps_lists(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return True if files without header that were read by a list of fields are still read by the same list.

    The first record of a file chooses the list by its length. So a list of a new length changes no file that was read.
    """
    lists = {len(names): [*names] for names in (now["fields"], *now.get("other_fields", ()))}
    fields, others = [*before["fields"]], [[*names] for names in before.get("other_fields", ())]
    return lists.get(len(fields), fields) == fields and all(lists.get(len(names)) == names for names in others)


def check_kept(table: Table, bronze: Mapping[str, Any]) -> None:
    """Raise if the treatment of a field changed: its original values are lost.

    Args:
        table: the declaration.
        bronze: bronze's bookmark.

    Raises:
        SourceChangedError: the treatment of a field differs from that of its read records.
    """
    now = treated_fields(table, bronze.get("fields", {}))
    for name, way in kept_ways(table, bronze).items():
        if now.get(name) != way:
            raise SourceChangedError(
                f"table {table.name!r}: pii of its columns was {way} for {name} when its files were read and is "
                f"{_shown(now.get(name))} now; values that were replaced cannot be brought back",
                hint=f"set it back; or {_again(table)}",
            )


def _again(table: Table) -> str:
    return (
        f"drop what was read and read it again: frazil drop --select {table.name}, then frazil run "
        "(the files must still be at the source)"
    )


def _shown(value: object) -> str:
    if value is None:
        return "not set"
    return ", ".join(map(str, value)) if isinstance(value, list) else repr(value)
