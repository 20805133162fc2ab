"""Records of DMS files become change rows.

Op I and U are upserts, D is a delete; a full load file may leave the op out. With before-images a changed
key is two changes at one order: a delete of the old key and an upsert of the new one (KEY-CHANGE).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from frazil.bronze import record as r
from frazil.silver.cast import exact
from frazil.spec.names import backslashes, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from frazil.silver.contract import Contract
    from frazil.spec import Column as Declared
    from frazil.spec import DmsFiles

PROBLEM = "_cdc_problem"
TEXT = "_cdc_text"


def change_rows(bronze: DataFrame, contract: Contract, source: DmsFiles) -> DataFrame:
    """Turn bronze records into typed change rows, good and bad ones alike.

    Args:
        bronze: n rows of kind ``record`` or ``bad``, in any order.
        contract: the settled columns.
        source: the declaration of the files.

    Returns:
        n rows, one more for every change of key: the contract's columns, then ``_cdc_class``,
        ``_cdc_position``, ``_cdc_row``, ``_cdc_file``, ``_cdc_batch``, ``_cdc_known``, and ``_cdc_problem``
        (struct of rule, reason, column; NULL for a good row) and ``_cdc_text`` (the record as text, NULL
        for a good row). ``_cdc_known`` is NULL when every column is known.

    Cost: narrow, no shuffle, no UDF.
    """
    fields = {name.lower(): name for name, _ in contract.fields}
    op = (
        F.upper(F.trim(F.col(quote(fields[source.op.lower()]))))
        if source.op.lower() in fields
        else F.lit(None).cast("string")
    )
    kind = (
        F.when(op.isin("I", "U"), r.UPSERT)
        .when(op == "D", r.DELETE)
        .when(op.isNull() & F.col(r.POSITION).startswith("0/"), r.UPSERT)
    )
    texts = {column.name: _text(column, fields) for column in contract.columns}
    typed = {column.name: exact(texts[column.name], column.type) for column in contract.columns}
    base = bronze.select(
        *(typed[name].alias(name) for name in contract.names),
        kind.alias(r.CLASS),
        r.POSITION,
        r.ROW,
        r.FILE,
        r.BATCH,
        _known(contract).alias(r.KNOWN),
        _problem(contract, texts, typed, kind, op).alias(PROBLEM),
        _record_text(fields).alias(TEXT),
        *_old_keys(contract, source, fields),
    )
    return _split_key_changes(base, contract) if _old_keys(contract, source, fields) else base


def _text(column: Declared, fields: Mapping[str, str]) -> Column:
    if column.expr is not None:
        return F.expr(backslashes(column.expr)).cast("string")
    return F.col(quote(fields[column.name.lower()])) if column.name.lower() in fields else F.lit(None).cast("string")


def _record_text(fields: Mapping[str, str]) -> Column:
    """Show a record to people: bad ones as they came (the exact bytes stay in bronze), others as JSON."""
    raw = F.make_valid_utf8(F.col(r.RAW).cast("string"))
    if not fields:
        return raw
    parsed = F.to_json(F.struct(*(quote(name) for name in fields.values())), {"ignoreNullFields": "false"})
    return F.when(F.col(r.KIND) == r.BAD, raw).otherwise(parsed)


def _known(contract: Contract) -> Column:
    """List the contract's columns a record carries, NULL for all of them."""
    needs = {column.name: contract.needs(column) for column in contract.columns}
    carried = F.transform(F.col(r.KNOWN), F.lower)
    names = F.filter(
        F.array(
            *(
                F.when(
                    F.forall(F.array(*map(F.lit, sorted(fields))), lambda field: F.array_contains(carried, field)),
                    F.lit(name),
                )
                for name, fields in needs.items()
            )
        ),
        lambda name: name.isNotNull(),
    )
    return F.when(F.col(r.KNOWN).isNotNull() & (F.size(names) < len(needs)), names)


def _problem(
    contract: Contract, texts: Mapping[str, Column], typed: Mapping[str, Column], kind: Column, op: Column
) -> Column:
    """Say why a record cannot be a change; the first rule that fails speaks."""
    is_delete = F.coalesce(kind == r.DELETE, F.lit(False))
    nothing = F.lit(None).cast("string")
    rules: list[tuple[Column, Column]] = [
        (F.col(r.KIND) == r.BAD, _struct("record", F.col(r.REASON), nothing)),
        (
            kind.isNull(),
            _struct("op", F.concat(F.lit("unknown op "), F.coalesce(op, F.lit("NULL"))), nothing),
        ),
    ]
    must = {*contract.keys, *contract.sequence_by}
    for column in contract.columns:
        failed = texts[column.name].isNotNull() & typed[column.name].isNull()
        excused = F.lit(False) if column.name in must else is_delete
        reason = F.concat(F.lit("not exactly a " + column.type + ": "), F.substring(texts[column.name], 1, 80))
        rules.append((failed & ~excused, _struct("cast", reason, F.lit(column.name))))
    for rule, names in (("null_key", contract.keys), ("null_sequence", contract.sequence_by)):
        rules += [(typed[name].isNull(), _struct(rule, F.lit(f"{name} is NULL"), F.lit(name))) for name in names]
    carried = F.transform(F.col(r.KNOWN), F.lower)
    for column in contract.columns:
        if not column.nullable and column.name not in must:
            known = F.col(r.KNOWN).isNull() | F.array_contains(carried, column.name.lower())
            rules.append(
                (
                    typed[column.name].isNull() & known & ~is_delete,
                    _struct("not_null", F.lit(f"{column.name} is NULL"), F.lit(column.name)),
                )
            )
    return F.coalesce(*(F.when(condition, problem) for condition, problem in rules))


def _struct(rule: str, reason: Column, column: Column) -> Column:
    return F.struct(F.lit(rule).alias("rule"), reason.alias("reason"), column.alias("column"))


_OLD = "_cdc_old_"


def _old_keys(contract: Contract, source: DmsFiles, fields: Mapping[str, str]) -> list[Column]:
    """Columns with the keys before the change, where the files carry before-images of all of them."""
    if source.before_image_prefix is None:
        return []
    types = {column.name: column.type for column in contract.columns}
    names = [(key, f"{source.before_image_prefix}{key}".lower()) for key in contract.keys]
    if not all(name in fields for _, name in names):
        return []
    return [exact(F.col(quote(fields[name])), types[key]).alias(_OLD + key) for key, name in names]


def _split_key_changes(rows: DataFrame, contract: Contract) -> DataFrame:
    olds = [F.col(quote(_OLD + key)) for key in contract.keys]
    moved = F.lit(False)
    whole = F.lit(True)
    for key, old in zip(contract.keys, olds, strict=True):
        whole = whole & old.isNotNull()
        moved = moved | ~old.eqNullSafe(F.col(quote(key)))
    moved = whole & moved & (F.col(r.CLASS) == r.UPSERT) & F.col(PROBLEM).isNull()
    kept = [name for name in rows.columns if not name.startswith(_OLD)]
    old_key = dict(zip(contract.keys, olds, strict=True))
    gone = rows.where(moved).select(
        *(
            (old_key[name] if name in old_key else F.lit(r.DELETE) if name == r.CLASS else F.col(quote(name))).alias(
                name
            )
            for name in kept
        )
    )
    return rows.select(*map(quote, kept)).unionByName(gone)
