"""Spark Declarative Pipelines: marts and aggregates as AUTO CDC flows of Spark 4.3, over Frazil's typed changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from frazil.bronze import record as r
from frazil.gold import render
from frazil.interop.contracts import mart_contracts
from frazil.spec import CATALOG
from frazil.spec.sql.names import backslashes, literal, quote
from frazil.spec.sql.sql import gold_in_order
from frazil.spec.tables import gold_table, source_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.interop.contracts import MartContract
    from frazil.spec import Pipeline

_HEAD: Final = '''\
"""The marts of pipeline {pipeline} as AUTO CDC flows of Spark 4.3, over the typed changes that Frazil writes.

Put it into the folder that "libraries" of spark-pipeline.yml names.
"""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
'''
_OWN: Final = (r.CLASS, r.POSITION, r.ROW, r.FILE, r.BATCH, r.KNOWN, r.SOURCE_TIME)


def spark_pipelines(pipeline: Pipeline) -> str:
    """Return Python code that declares marts and aggregates for ``spark-pipelines``; starts no JVM.

    Each table's changes are a streaming read of silver, so Frazil still does ingestion, casts, rules and quarantine.
    Settings that AUTO CDC lacks are comments at the flow that begin with ``# not in AUTO CDC``.

    Raises:
        FrazilError: the catalog cannot be read.
    """
    parts = [_HEAD.format(pipeline=_in_docstring(pipeline.pipeline))]
    made: set[str] = set()
    for one in mart_contracts(pipeline):
        if one.source not in made:
            made.add(one.source)
            parts.append("\n".join(_changes(pipeline, one.source)))
        parts.append("\n".join(_flow(pipeline, one)))
    parts += ["\n".join(_aggregate(pipeline, gold.name)) for gold in gold_in_order(pipeline)]
    return "\n\n".join(parts) + "\n"


def _changes(pipeline: Pipeline, name: str) -> Iterator[str]:
    table = next(table for table in pipeline.tables if table.name == name)
    path = ".".join(map(quote, source_tables(pipeline, table).changes.path))
    yield f"\n@dp.temporary_view(name={_text(_view(name))})"
    yield f"def changes_of_{name}():"
    yield f"    return spark.readStream.table({_text(path)})"


def _flow(pipeline: Pipeline, one: MartContract) -> Iterator[str]:
    table = next(table for table in pipeline.tables if table.name == one.source)
    target = f"{one.table.namespace}.{one.table.name}"
    given: dict[str, Any] = {"target": target, "source": _view(one.source), "keys": [*one.keys]}
    order = ", ".join(map(_text, (*one.orders, r.POSITION, r.ROW)))
    rest: dict[str, Any] = {"except_column_list": [*_OWN]}
    if one.mart.kind == "history":
        rest["stored_as_scd_type"] = 2
        if one.mart.track_history_columns is not None:
            rest["track_history_column_list"] = [*one.mart.track_history_columns]
        else:
            untracked = one.mart.track_history_except_columns or (*one.keys, *one.orders)
            rest["track_history_except_column_list"] = [*dict.fromkeys(untracked)]
    else:
        rest["stored_as_scd_type"] = 1
    yield f'\ndp.create_streaming_table({_text(target)}, format="iceberg")'
    yield from (f"# not in AUTO CDC: {text}" for text in _left_out(one, ignores_nulls=table.ignore_null_updates))
    yield "dp.create_auto_cdc_flow("
    yield from (f"    {name}={value!r}," for name, value in given.items())
    yield f"    sequence_by=F.struct({order}),"
    yield f"    apply_as_deletes=F.expr({_text(f'{r.CLASS} = {literal(r.DELETE)}')}),"
    yield from (f"    {name}={value!r}," for name, value in rest.items())
    yield ")"


def _left_out(one: MartContract, *, ignores_nulls: bool) -> Iterator[str]:
    """Yield the properties of a mart that the flow does not have."""
    if one.mart.kind == "current" and one.mart.deletes == "soft":
        yield "deletes: soft; rows that are deleted are gone"
    if one.mart.kind == "history":
        yield "valid_from, valid_to and is_current are __START_AT, __END_AT and __END_AT IS NULL, as sequences"
        if one.mart.deletes == "mark":
            yield "deletes: mark; a delete only closes the version"
        if one.mart.bitemporal:
            yield "bitemporal; superseded knowledge is overwritten"
    if ignores_nulls:
        yield "ignore_null_updates; a NULL is written"
    yield "columns that a change does not carry; they are written as NULL"


def _aggregate(pipeline: Pipeline, name: str) -> Iterator[str]:
    gold = next(gold for gold in pipeline.gold if gold.name == name)
    spaces, others = pipeline.lake.namespaces, {one.name for one in pipeline.gold}
    sql = render(
        backslashes(gold.sql), lambda table: quote(CATALOG, spaces.gold if table in others else spaces.marts, table)
    )
    yield f'\n@dp.materialized_view(name={_text(gold_table(pipeline, gold).full_name)}, format="iceberg")'
    yield f"def aggregate_{name}():"
    yield f"    return spark.sql({_text(sql)})"


def _view(table: str) -> str:
    return f"changes_of_{table}"


def _text(value: str) -> str:
    """Return a text as a Python literal, because a declaration may contain any text."""
    return repr(value)


def _in_docstring(name: str) -> str:
    return repr(name).replace('"', "'")
