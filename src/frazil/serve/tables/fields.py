"""The fields that the sources of a declaration are known to have, without reading their files."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from frazil.errors import FrazilError, SchemaError, SourceError
from frazil.serve.tables.tables import read_snapshot, tables
from frazil.silver.contract import MissingFieldError, settle
from frazil.silver.evolution import evolved, later_fields
from frazil.silver.renames import renamed_bookmark, renamed_fields
from frazil.sources.kinds import source_of
from frazil.spec import EmbeddedCatalog
from frazil.spec.load.problem import Problem
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    from frazil.catalog.catalogs import Located
    from frazil.silver.contract import Contract
    from frazil.spec import Pipeline, Table

MOST_FILES: Final = 200
"""Of a source with more files the fields are not looked up: only a look at all of them could say what is missing."""


def source_contracts(pipeline: Pipeline) -> dict[str, Contract]:
    """Return the contracts of :func:`known_sources`, whatever is wrong with other tables."""
    return known_sources(pipeline)[0]


def known_sources(pipeline: Pipeline) -> tuple[dict[str, Contract], list[Problem]]:
    """Settle the contract of every table, with the fields in the headers of its source's files and in the lake.

    Returns:
        Table -> contract, without the tables of which not all fields can be known (whose files are many or cannot be
        read, and all tables of a lake whose catalog is a service, which is not asked). And what is wrong: a place that
        is not there, files that are written otherwise than declared, a declared column that is no field.

    Cost: the header of each file; never more than ``MOST_FILES`` a table.
    """
    is_read, located = isinstance(pipeline.lake.catalog, EmbeddedCatalog), {}
    if is_read:
        with suppress(FrazilError):
            located = tables(pipeline)
    contracts: dict[str, Contract] = {}
    problems = []
    for index, table in enumerate(pipeline.tables):
        try:
            contract = _contract(pipeline, table, located if is_read else None)
        except (SourceError, SchemaError) as error:
            place = "columns" if isinstance(error, SchemaError) else "source"
            problems.append(Problem(("tables", index, place), error.message, error.hint))
        except FrazilError:
            continue  # a store or a catalog that does not answer says nothing of the declaration
        else:
            contracts |= {} if contract is None else {table.name: contract}
    return contracts, problems


def _contract(pipeline: Pipeline, table: Table, located: Located | None) -> Contract | None:
    source, made = source_of(table), source_tables(pipeline, table)
    listed = source.list(pipeline.folder).files
    named = [source.named_fields(file) for file in listed[:MOST_FILES]]
    if located is None or len(listed) > MOST_FILES or None in named:
        return None
    bronze, silver = (read_snapshot(located.get(one.key)).bookmark for one in (made.bronze, made.changes))
    files = [fields for fields in named if fields is not None]
    called = renamed_fields(table, source.known_fields(bronze.get("fields", {}), files))
    if not called:
        return None
    known = bronze if bronze.get("fields") else {**bronze, "later": later_fields(files)}
    now = evolved(table, renamed_bookmark(table, known), silver, called)
    try:
        return settle(table, called, now)
    except MissingFieldError as error:
        error.hint = source.advice(files) or error.hint
        raise
