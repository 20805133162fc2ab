"""The fields that the sources of a declaration are known to have, without reading their files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.errors import FrazilError
from frazil.serve.tables import read_snapshot, tables
from frazil.sources.kinds import source_of
from frazil.spec import EmbeddedCatalog
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    from frazil.lake.catalogs import Located
    from frazil.spec import Pipeline, Table

MOST_FILES: Final = 200
"""Of a source with more files the fields are not looked up: only a look at all of them could say what is missing."""


def source_fields(pipeline: Pipeline) -> dict[str, dict[str, str]]:
    """Look up the fields of every source, in the headers of its files and in the lake.

    Returns:
        Table -> field -> type, without the tables of which not all fields can be known: whose files are many or cannot
        be read, and all tables of a lake whose catalog is a service, which is not asked.

    Cost: the header of each file; never more than ``MOST_FILES`` a table.
    """
    if not isinstance(pipeline.lake.catalog, EmbeddedCatalog):
        return {}
    try:
        located = tables(pipeline)
    except FrazilError:
        located = {}
    found = {table.name: _fields(pipeline, table, located) for table in pipeline.tables}
    return {name: fields for name, fields in found.items() if fields}


def _fields(pipeline: Pipeline, table: Table, located: Located) -> dict[str, str]:
    source = source_of(table)
    try:
        bookmark = read_snapshot(located.get(source_tables(pipeline, table).bronze.key)).bookmark
        listed = source.list(pipeline.folder).files
    except FrazilError:
        return {}
    if len(listed) > MOST_FILES:
        return {}
    named = [source.named_fields(file) for file in listed]
    files = [fields for fields in named if fields is not None]
    return source.known_fields(bookmark.get("fields", {}), files) if len(files) == len(named) else {}
