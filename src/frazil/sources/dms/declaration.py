"""Write discovered tables as a declaration, with comments that explain each guess."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from frazil.errors import SourceError
from frazil.spec import History
from frazil.spec.amount import counted
from frazil.spec.contract import added_columns
from frazil.spec.model.stores import is_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frazil.sources.dms.discover import Discovered
    from frazil.spec import Column

_WHY_NO_ORDER: Final = {
    "unseen": "files and records order the changes. Write sequence_by: [{time}] only if deletes move it too",
    "still": "some deletes do not move {time}, so files and records order the changes",
    "load": "the full load has later times than changes of its rows, so files and records order the changes",
}


class NothingFoundError(SourceError):
    """A landing folder has no files that Frazil knows."""

    code = "FZ203"
    retryable = False


def dms_declaration(name: str, folder: Path, discovered: Sequence[Discovered]) -> str:
    """Write a declaration for discovered tables.

    Args:
        name: name of the pipeline.
        folder: folder of the new declaration. Local paths are written relative to it if they share more than the root;
            addresses are written in full.
        discovered: discovered tables; at least one.

    Returns:
        YAML that ``spec.parse.parse`` accepts. A comment explains every guess.

    Raises:
        NothingFoundError: ``discovered`` is empty.
    """
    if not discovered:
        raise NothingFoundError(
            "no files of Amazon DMS were found",
            hint="full load files are called LOAD00000001.csv, change files 20240131-101500123.csv. Files that each "
            "hold all rows of a table, such as orders_2026-10-01.csv, are dumps: declare the folder of each table with "
            "source: {kind: snapshot, path: ./orders}",
        )
    lines = [
        "# Guessed from the files: read what the comments say before the first run.",
        f"pipeline: {_text(name)}",
        f"lake: {{warehouse: {_text(_warehouse(discovered, folder))}}}",
        "tables:",
    ]
    for table in discovered:
        lines += _table(table, folder)
    return "\n".join(lines) + "\n"


def _warehouse(discovered: Sequence[Discovered], folder: Path) -> str:
    """Choose a folder for the lake: next to the declaration, but not inside a folder that is read as a source."""
    own = [Path(table.path) for table in discovered if not is_store(table.path)]
    above = [path for path in own if (folder.absolute() / "lake").is_relative_to(path)]
    if not above:
        return "./lake"
    top = min(above, key=lambda path: len(path.parts))
    return _relative(f"{top.with_name(f'{top.name}_lake')}", folder)


def _table(table: Discovered, folder: Path) -> list[str]:
    files = f"{counted(table.load_files, 'load file')}, {counted(table.change_files, 'change file')}"
    return [
        f"  # {files}; every type fits all of {counted(table.records, 'record')} looked at",
        f"  - name: {_text(table.name)}",
        f"    source: {_source(table, folder)}",
        *_keys_and_order(table),
        *_columns(table),
        *_marts(table),
    ]


def _source(table: Discovered, folder: Path) -> str:
    settings = [f"kind: dms, path: {_text(_relative(table.path, folder))}, format: {table.format}"]
    if table.format == "csv":
        settings.append(f"header: {str(table.header).lower()}")
        if table.delimiter != ",":
            settings.append(f"csv_delimiter: {json.dumps(table.delimiter)}")
        if table.include_op_for_full_load and not table.header:
            settings.append("include_op_for_full_load: true")
    if table.op and table.op != "op":
        settings.append(f"op: {_text(table.op)}")
    if table.change_seq:
        settings.append(f"change_seq: {_text(table.change_seq)}")
    return f"{{{', '.join(settings)}}}"


def _relative(path: str, folder: Path) -> str:
    start = folder.absolute()
    if is_store(path) or os.path.commonpath([path, start]) == Path(path).anchor:
        return path
    relative = os.path.relpath(path, start).replace(os.sep, "/")
    return relative if relative.startswith(".") else f"./{relative}"


def _keys_and_order(table: Discovered) -> list[str]:
    lines = []
    if table.op is None:
        lines.append("    # no op column (I, U, D) was found in the change files: name it with op")
    if table.keys_seen:
        unique = "unique" if len(table.keys) == 1 else "unique together"
        note = f"guessed: {unique} and never NULL in {counted(table.rows, 'row')}"
    else:
        note = "GUESSED BY ITS NAME OR PLACE ONLY: name the columns that are unique"
    lines.append(f"    keys: {_list(table.keys)}  # {note}")
    if table.sequence_by:
        lines.append(f"    sequence_by: {_list(table.sequence_by)}  # guessed: a timestamp that deletes move")
        if table.stamp:
            lines.append("    # if DMS adds it (TimestampColumnName), changes made during a full load lose to it:")
            lines.append("    # then write effective_at for sequence_by, and files and records order the changes")
    elif table.effective_at:
        time = _text(table.effective_at)
        lines.append(f"    effective_at: {time}  # guessed: the time of a change, by its name")
        lines.append(f"    # no sequence_by: {_WHY_NO_ORDER[table.unproven or 'unseen'].format(time=time)}")
    else:
        lines.append(
            "    # no sequence_by: nothing looks like a time of change, so files and records order the changes"
        )
    return lines


def _columns(table: Discovered) -> list[str]:
    lines, outliers = ["    columns:"], dict(table.outliers)
    if table.format == "csv" and not table.header:
        lines.append("      # the files do not name their fields: rename c1, c2, ... here and above")
    if any(column.on_violation == "warn" for column in table.columns):
        kept = f"all of {counted(table.records, 'record')} looked at keep them"
        lines.append(f"      # the rules that warn are proposed: {kept}. See what frazil test says, then choose")
    for column in table.columns:
        note = f"  # {outliers[column.name]}" if column.name in outliers else ""
        lines.append(f"      - {{{', '.join(_column(column))}}}{note}")
    return lines


def _column(column: Column) -> Iterator[str]:
    yield f"name: {_text(column.name)}"
    yield f"type: {_text(column.type)}"
    if not column.nullable:
        yield "nullable: false"
    if column.accepted_values is not None:
        yield f"accepted_values: [{', '.join(map(_value, column.accepted_values))}]"
    if column.min is not None:
        yield f"min: {column.min}"
    if column.on_violation != "quarantine":
        yield f"on_violation: {column.on_violation}"


def _marts(table: Discovered) -> list[str]:
    lines = ["    marts:", "      - {kind: current, deletes: hard}"]
    own = {column.name.lower() for column in table.columns} & set(added_columns(History()))
    if own:
        lines.append(f"      # no history: it would add a column {min(own)} of its own; rename the source's")
    elif table.sequence_by or table.effective_at:
        lines.append("      - {kind: history, deletes: close}")
    return lines


def _list(names: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, names))}]"


def _value(text: str) -> str:
    """Write a value as YAML, in quotes unless it is a plain word."""
    return _text(text) if re.fullmatch(r"[A-Za-z_]+", text) else json.dumps(text, ensure_ascii=False)


def _text(text: str) -> str:
    """Write text as YAML, in quotes if YAML would read it as another type."""
    plain = re.fullmatch(r"[A-Za-z_./][A-Za-z0-9_./-]*", text)
    reads_as_value = text.lower() in {"null", "true", "false", "yes", "no", "on", "off", "y", "n"} or text == "."
    return text if plain and not reads_as_value else json.dumps(text, ensure_ascii=False)
