"""Subjects of an erase: given keys, or the keys of changes that fulfil a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.erase.keys import EraseError
from frazil.older_spark import valid_text
from frazil.runner.key_changes.departures import DEPARTED, changes_of_key
from frazil.runner.key_changes.moves import tells_old_keys
from frazil.silver.cast import exact
from frazil.silver.old_keys import key_text
from frazil.spark.expressions import user_sql
from frazil.spark.gateway import hold
from frazil.spec.sql.names import backslashes, literal, quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from frazil.runner.table_run import TableRun
    from frazil.silver.contract import Contract

SUBJECT: Final = "_cdc_subject"
PARTS: Final = "_cdc_parts"
"""Columns of the subjects: the text of the whole key, and the texts of its columns."""

_GIVEN: Final = "_cdc_given_"
_TYPED: Final = "frazil_given"
_BETWEEN: Final = r"[^\p{L}\p{N}_.@+-]+"
"""Separators of words; a key may be an e-mail address or a number with a sign."""


def given_subjects(context: TableRun, contract: Contract, keys: Sequence[Sequence[str]]) -> DataFrame:
    """Return the subjects of keys given as texts, compared as typed values: ``007`` means the number 7.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        keys: texts of each key's columns, in the order of ``keys`` of the table.

    Raises:
        EraseError: a text does not convert to its column's type.
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
                raise EraseError(f"--key: {name}: {bad[0][given]!r} is not a {types[name]}")
    return _subjects(frame, contract)


def matching_subjects(context: TableRun, contract: Contract, where: str) -> DataFrame:
    """Return the subjects with at least one change in silver that fulfils a condition.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        where: condition in Spark SQL over columns of silver.

    Raises:
        SqlError: Spark refuses the condition.
    """
    changes = context.spark.table(quote(*context.changes))
    with user_sql("--where", where):
        found = changes.where(F.expr(backslashes(where))).where(f"{quote(contract.keys[0])} IS NOT NULL")
        return hold(_subjects(found, contract))


def with_moves(context: TableRun, contract: Contract, subjects: DataFrame) -> DataFrame:
    """Add the keys that a subject had before or after a change of key: the row of the source is the same.

    Args:
        context: the table's part of the run.
        contract: the table's contract.
        subjects: one row for each key.

    Cost: nothing if the source's records lack the old key; else one join for each consecutive change of key.
    """
    if not tells_old_keys(context.table, contract):
        return subjects
    table, place = quote(*context.changes), [r.FILE, r.ROW]
    changes = context.spark.table(table)
    if DEPARTED in context.head(context.changes).bookmark:
        # Silver lacks some deletes of changes of key.
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
    """Return file and row of bad records whose text has a key: each of its values as a separate word.

    A bad record could not be parsed, so its key is unknown. A record that names the key counts as the subject's.
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
