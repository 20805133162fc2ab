"""Whether the first record of a CSV file names its fields, where the declaration does not say that it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.errors import SourceError
from frazil.sources.dms.guess import looks_like_names, type_of
from frazil.spec.contract import declared, layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.spec import Table


class HeaderError(SourceError):
    """The first record of a file is the names of its fields, and the declaration does not say so; or the reverse."""

    code = "FZ205"
    retryable = False


def verify_no_header(table: Table, path: str, first: Sequence[str | None]) -> None:
    """Refuse a CSV file that is read as one without header, and seems to have one.

    Args:
        table: the declaration; of files with ``header: true`` nobody asks.
        path: of the file, for people.
        first: the fields of its first record.

    Raises:
        HeaderError: all of the fields are names that the declaration knows; or, where it does not say ``header``, most
            of them are, or all of them look like names and some are no values of their columns.
    """
    if not first:
        return
    names = [(text or "").strip().lower() for text in first]
    hits = _known_names(table, names)
    is_said = "header" in table.source.model_fields_set
    if hits == len(names) > 1 or (not is_said and 2 * hits > len(names) > 1):
        message, hint = "names its fields", "set header: true in its source"
    elif not is_said and looks_like_names(first) and _contradict(table, first):
        message, hint = "may name its fields", "say in its source: header: true if it does, header: false if not"
    else:
        return
    shown = ", ".join(text or "NULL" for text in first)
    raise HeaderError(f"table {table.name!r}: the first record of {path} {message}: {shown[:200]}", hint=hint)


def verify_header(table: Table, path: str, first: Sequence[str | None]) -> None:
    """Refuse a CSV file that is read as one with a header, and seems to begin with a record.

    Raises:
        HeaderError: none of the fields is a name that the declaration knows, and they do not look like names.
    """
    if len(first) < 2 or looks_like_names(first) or _known_names(table, first):  # noqa: PLR2004 - one field may be any
        return
    shown = ", ".join(text or "NULL" for text in first)
    raise HeaderError(
        f"table {table.name!r}: the first record of {path} names no field that the declaration knows, and looks like "
        f"values: {shown[:200]}",
        hint="if no file has a header, set header: false in its source; if this one lacks it, deliver it with one "
        "under a new name",
    )


def _known_names(table: Table, first: Sequence[str | None]) -> int:
    """Count the fields of a first record that are names which the declaration knows."""
    columns = [name for name, column in declared(table).items() if column.expr is None]
    known = {name.lower() for name in (*table.keys, *table.sequence_by, *columns, *table.renames, table.source.op)}
    return sum((text or "").strip().lower() in known for text in first)


def _contradict(table: Table, first: Sequence[str | None]) -> bool:
    """Return whether some field of a record is no value of the column that it would go to; texts fit any."""
    kinds = {column.name: column.type for column in table.columns or ()}
    fields = layout(table) or ()
    values = first[len(first) - len(fields) :] if len(first) - len(fields) in {0, 1} else ()
    pairs = zip(fields, values, strict=False)
    return any(kinds.get(name, "string") not in {"string", type_of({value or ""})} for name, value in pairs)
