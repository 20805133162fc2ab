"""Whom an erase is about: keys given as texts, or those of the changes that a condition holds for."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.errors import DeclarationError
from frazil.older_spark import valid_text
from frazil.runner.key_changes.departures import DEPARTED, changes_of_key
from frazil.runner.key_changes.moves import tells_old_keys
from frazil.silver.cast import exact
from frazil.silver.old_keys import key_text
from frazil.spark.expression import user_sql
from frazil.spark.gateway import hold
from frazil.spec.sql.names import backslashes, literal, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract
    from frazil.spec import Table

SUBJECT: Final = "_cdc_subject"
PARTS: Final = "_cdc_parts"
"""Columns of the subjects: the text of a key, and those of its columns."""

_GIVEN: Final = "_cdc_given_"
_TYPED: Final = "frazil_given"
_BETWEEN: Final = r"[^\p{L}\p{N}_.@+-]+"
"""What stands between words; a key may be an e-mail address or a number with a sign."""


class EraseError(DeclarationError):
    """What is to be erased is not said in a way that can be taken."""

    code = "FZ112"


def parse_key(table: Table, text: str) -> tuple[str, ...]:
    """Return the texts of a key's columns, in the order of ``keys``.

    Args:
        table: the declaration.
        text: a JSON object by name, a JSON array in the order of ``keys``, or the value itself where the key is one
            column.

    Raises:
        EraseError: the text is none of these.
    """
    if len(table.keys) == 1 and text[:1] != "{":
        return (text,)
    try:
        given = json.loads(text, parse_float=str, parse_int=str)
    except ValueError:
        given = None
    if isinstance(given, dict):
        by_name = {str(name).lower(): value for name, value in given.items()}
        given = [by_name[key.lower()] for key in table.keys] if {*by_name} == {*map(str.lower, table.keys)} else None
    if not isinstance(given, list) or len(given) != len(table.keys) or not all(isinstance(v, str) for v in given):
        if len(table.keys) == 1:
            return (text,)
        example = json.dumps(dict.fromkeys(table.keys, "…"), ensure_ascii=False)
        raise EraseError(
            f"--key: the key of table {table.name!r} is {', '.join(table.keys)}", hint=f"give it as {example}"
        )
    return tuple(given)


def given_subjects(context: TableRun, contract: Contract, keys: Sequence[Sequence[str]]) -> DataFrame:
    """Return subjects of keys that were given as texts, compared as typed values: ``007`` means the number 7.

    Raises:
        EraseError: a text is no value of its column's type.
    """
    names = [f"{_GIVEN}{number}" for number in range(len(contract.keys))]
    ddl = ", ".join(f"{name} string" for name in names)
    spark = context.spark
    spark.createDataFrame([tuple(key) for key in keys], ddl).createOrReplaceTempView(_TYPED)
    types = {column.name: column.type for column in contract.columns}
    typed = ", ".join(
        f"{exact(given, types[name], contract.beyond)} AS {quote(name)}"
        for name, given in zip(contract.keys, names, strict=True)
    )
    frame = spark.sql(f"SELECT {', '.join(names)}, {typed} FROM {_TYPED}")
    wrong = " OR ".join(f"{quote(name)} IS NULL" for name in contract.keys)
    if bad := frame.where(wrong).limit(1).collect():
        for name, given in zip(contract.keys, names, strict=True):
            if bad[0][name] is None:
                raise EraseError(f"--key: {name}: {bad[0][given]!r} is no {types[name]}")
    return _subjects(frame, contract)


def matching_subjects(context: TableRun, contract: Contract, where: str) -> DataFrame:
    """Return subjects of which any change in silver fulfils a condition, written in Spark's SQL.

    Raises:
        SqlError: Spark refuses the condition.
    """
    changes = context.spark.table(quote(*context.changes))
    with user_sql("--where", where):
        found = changes.where(F.expr(backslashes(where))).where(f"{quote(contract.keys[0])} IS NOT NULL")
        return hold(_subjects(found, contract))


def with_moves(context: TableRun, contract: Contract, subjects: DataFrame) -> DataFrame:
    """Add the keys that a subject had before or after: a change of key is one row of the source under another key.

    Cost: nothing for a source whose records do not carry the key before; else a look at silver for each move in a row.
    """
    if not tells_old_keys(context.table, contract):
        return subjects
    table, place = quote(*context.changes), [r.FILE, r.ROW]
    changes = context.spark.table(table)
    if DEPARTED in context.head(context.changes).bookmark:
        # Silver has not all deletes of changes of key.
        changes = changes_of_key(context, contract, deletes=True)
    changes = changes.selectExpr("*", f"{key_text(contract.keys)} AS _cdc_text")
    kinds = [changes.where(f"{r.CLASS} = {literal(kind)}") for kind in (r.DELETE, r.UPSERT)]
    old, new = (kind.select(*place, *map(quote, contract.keys), "_cdc_text") for kind in kinds)
    pairs = old.withColumnRenamed("_cdc_text", "_cdc_other").drop(*contract.keys)
    both = [
        new.join(pairs, place).select("_cdc_other", *map(quote, contract.keys)),
        old.join(new.withColumnRenamed("_cdc_text", "_cdc_other").drop(*contract.keys), place).select(
            "_cdc_other", *map(quote, contract.keys)
        ),
    ]
    moves = hold(both[0].unionByName(both[1]))
    known, seen = hold(subjects), -1
    while (count := known.count()) != seen:
        seen = count
        near = moves.join(F.broadcast(known.select(F.col(SUBJECT).alias("_cdc_other"))), "_cdc_other")
        known = hold(known.unionByName(_subjects(near, contract)).dropDuplicates([SUBJECT]))
    return known


def _subjects(frame: DataFrame, contract: Contract) -> DataFrame:
    parts = ", ".join(f"CAST({quote(name)} AS string)" for name in contract.keys)
    return frame.selectExpr(f"{key_text(contract.keys)} AS {SUBJECT}", f"array({parts}) AS {PARTS}").distinct()


def bad_places(bad: DataFrame, subjects: DataFrame) -> DataFrame:
    """Return file and row of bad records in whose text a key stands: each of its values as a word of its own.

    A bad record is one that could not be taken apart, so nobody can say whose it is. One that names the key is taken
    for the subject's.
    """
    text = valid_text(r.RAW)
    words = bad.selectExpr(r.FILE, r.ROW, f"{text} AS _cdc_said", f"split({text}, {literal(_BETWEEN)}) AS _cdc_words")
    single = subjects.select(F.explode(PARTS).alias("_cdc_word"), PARTS).where(f"_cdc_word = {PARTS}[0]").distinct()
    simple = single.where(f"NOT _cdc_word RLIKE {literal(_BETWEEN)}")
    by_word = words.withColumn("_cdc_word", F.explode("_cdc_words")).join(F.broadcast(simple), "_cdc_word")
    by_word = by_word.where(f"forall({PARTS}, part -> part IS NULL OR contains(_cdc_said, part))")
    other = single.where(f"_cdc_word RLIKE {literal(_BETWEEN)}")
    by_text = words.join(F.broadcast(other), F.expr(f"forall({PARTS}, part -> contains(_cdc_said, part))"))
    return by_word.select(r.FILE, r.ROW).unionByName(by_text.select(r.FILE, r.ROW)).distinct()
