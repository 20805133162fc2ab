"""Write tables of a PostgreSQL database as a declaration, with comments that say what was found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import yaml

from frazil.sources.postgres.errors import require_driver, translate_server_errors
from frazil.spec import History
from frazil.spec.amount import counted
from frazil.spec.contract import added_columns
from frazil.spec.secrets import REFERENCE, redacted, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from frazil.sources.capture import Looked
    from frazil.sources.postgres.database.discover import FoundTable
    from frazil.spec import Pipeline

_SCHEMES: Final = ("postgresql://", "postgres://")
_LANDING: Final = "./landing/postgres"


def is_server(source: str) -> bool:
    """Return whether a text is the address of a PostgreSQL database, or a reference to one."""
    return source.startswith(_SCHEMES) or REFERENCE.fullmatch(source) is not None


def server_tables(source: str, folder: Path, wanted: Sequence[str] = ()) -> list[FoundTable]:
    """Return the tables of a database that can be captured.

    Args:
        source: address of the database, or a reference such as ``${env:SHOP_DB}``.
        folder: where relative paths of a reference start.
        wanted: names or patterns of tables; empty for all.

    Raises:
        DriverError: the PostgreSQL driver is not installed.
        ServerError: the server does not answer.
        UnknownTableError: a name or pattern means no table.
    """
    require_driver()
    from frazil.sources.postgres.database.discover import find_tables  # noqa: PLC0415 - needs the driver

    with translate_server_errors(redacted(source)):
        return find_tables(resolve(source, setting="--from", folder=folder), wanted)


def examined(source: str, pipeline: Pipeline) -> tuple[Looked, ...]:
    """Return what the server still lacks for a pipeline with tables of one slot, each with a command."""
    from frazil.sources.postgres.database.examine import examine_server  # noqa: PLC0415 - needs the driver
    from frazil.sources.postgres.landed.landing import Landing  # noqa: PLC0415

    first = pipeline.tables[0].source
    landing = Landing(pipeline.folder / first.landing, first.slot)
    with translate_server_errors(redacted(source)):
        url = resolve(source, setting="--from", folder=pipeline.folder)
        return tuple(one for one in examine_server(url, pipeline.tables, landing, "") if one.ok is not True)


def variable_of(source: str) -> str | None:
    """Return the environment variable for an address with a password; None for one that may be written as it is."""
    if not source.startswith(_SCHEMES):
        return None
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415 - an extra

    given = conninfo_to_dict(source)
    if not {"password", "sslpassword"} & {*given}:
        return None
    return f"{re.sub('[^A-Z0-9]+', '_', str(given.get('dbname') or 'source').upper()).strip('_')}_DB"


def postgres_declaration(name: str, source: str, tables: Sequence[FoundTable]) -> str:
    """Write a declaration for tables of a database.

    Args:
        name: name of the pipeline.
        source: address of the database, or a reference to it. An address with a password is written as a reference.
        tables: tables to declare; at least one.

    Returns:
        YAML that ``spec.parse.parse`` accepts if each table has a key. Comments say what was found.
    """
    variable = variable_of(source)
    url = f"${{env:{variable}}}" if variable else source
    lines = [
        "# Read from the database: see what the comments say before the first run.",
        f"pipeline: {_flow(name)}",
        "lake: {warehouse: ./lake}",
        "tables:",
    ]
    for table, own in zip(tables, _names(tables), strict=True):
        lines += _table(own, url, table)
    return "\n".join(lines) + "\n"


def _table(name: str, url: str, table: FoundTable) -> Iterator[str]:
    rows = "never counted by the server" if table.rows is None else f"about {counted(table.rows, 'row')}"
    yield f"  # {_comment(table.full_name)}: {rows}, replica identity {table.identity}"
    yield f"  # {_comment(', '.join(f'{column} {kind}' for column, kind, _ in table.columns))}"
    for doubt in table.doubts:
        yield f"  # {_comment(doubt)}"
    yield f"  - name: {_flow(name)}"
    yield f"    source: {{kind: postgres, url: {_quoted(url)}, table: {_quoted(table.full_name)}, landing: {_LANDING}}}"
    yield f"    keys: {_flow([*table.keys])}  # {_comment(table.keys_from) or 'NO KEY WAS FOUND: name the columns'}"
    yield "    marts:"
    yield "      - {kind: current}"
    if own := {column.lower() for column, *_ in table.columns} & {*added_columns(History())}:
        yield f"      # no history: it would add a column {min(own)} of its own; rename the source's"
    else:
        yield "      - {kind: history}"


def _names(tables: Sequence[FoundTable]) -> Iterator[str]:
    """Yield a free name for each table: its own, with the schema if two have the same."""
    taken: set[str] = set()
    clean = [re.sub(r"[^a-z0-9_]", "_", table.name.lower()) for table in tables]
    for table, own in zip(tables, clean, strict=True):
        wide = f"{re.sub(r'[^a-z0-9_]', '_', table.schema.lower())}_{own}"
        candidates = [
            *([own] if clean.count(own) == 1 else []),
            wide,
            *(f"{wide}_{n}" for n in range(2, len(clean) + 2)),
        ]
        name = next(one for one in candidates if not {one, f"{one}_history"} & taken)
        taken |= {name, f"{name}_history"}
        yield name


def _flow(value: str | list[str]) -> str:
    """Write a value as YAML on one line, in quotes if YAML would read it as another type."""
    listed = value if isinstance(value, list) else [value]
    text = yaml.safe_dump(listed, default_flow_style=True, allow_unicode=True, width=1_000_000).strip()
    return text if isinstance(value, list) else text[1:-1]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _comment(text: str) -> str:
    """Return text for a comment, on one line."""
    return "".join(character if character.isprintable() else "�" for character in text)
