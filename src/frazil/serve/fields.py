"""The fields that the sources of a declaration are known to have, without reading their files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.errors import FrazilError
from frazil.serve.tables import read_snapshot, tables
from frazil.silver.contract import MissingFieldError, settle
from frazil.silver.evolution import evolved
from frazil.silver.renames import renamed_bookmark, renamed_fields
from frazil.sources.kinds import source_of
from frazil.spec import EmbeddedCatalog
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    from frazil.lake.catalogs import Located
    from frazil.silver.contract import Contract
    from frazil.spec import Pipeline, Table

MOST_FILES: Final = 200
"""Of a source with more files the fields are not looked up: only a look at all of them could say what is missing."""


def source_contracts(pipeline: Pipeline) -> dict[str, Contract]:
    """Settle the contract of every table, with the fields in the headers of its source's files and in the lake.

    Returns:
        Table -> contract, without the tables of which not all fields can be known (whose files are many or cannot be
        read, and all tables of a lake whose catalog is a service, which is not asked), and those of which a declared
        column is no field.

    Cost: the header of each file; never more than ``MOST_FILES`` a table.
    """
    if not isinstance(pipeline.lake.catalog, EmbeddedCatalog):
        return {}
    try:
        located = tables(pipeline)
    except FrazilError:
        located = {}
    found = {table.name: _contract(pipeline, table, located) for table in pipeline.tables}
    return {name: contract for name, contract in found.items() if contract is not None}


def _contract(pipeline: Pipeline, table: Table, located: Located) -> Contract | None:
    source, made = source_of(table), source_tables(pipeline, table)
    try:
        bronze, silver = (read_snapshot(located.get(one.key)).bookmark for one in (made.bronze, made.changes))
        listed = source.list(pipeline.folder).files
    except FrazilError:
        return None
    if len(listed) > MOST_FILES:
        return None
    named = [source.named_fields(file) for file in listed]
    files = [fields for fields in named if fields is not None]
    fields = source.known_fields(bronze.get("fields", {}), files) if len(files) == len(named) else {}
    try:
        called = renamed_fields(table, fields)
        now = evolved(table, renamed_bookmark(table, bronze), silver, called)
        return settle(table, called, now) if called else None
    except MissingFieldError:
        return None
