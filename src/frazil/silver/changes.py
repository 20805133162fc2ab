"""Turn records of any source into change rows: good ones, those for quarantine, and those of some batches.

The source defines the meaning of a record as SQL: :class:`frazil.sources.base.RecordMeaning`. If a record has the
previous key, a changed key becomes two changes at the same order: a delete of the old key and an upsert of the new key
(KEY-CHANGE).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from frazil.bronze import record as r
from frazil.older_spark import valid_text
from frazil.silver.cast import exact, has_zone, why_not
from frazil.silver.old_keys import OLD, with_old_keys_deleted
from frazil.silver.rules import NOT_NULL, Spark, breaks, row_rules
from frazil.spec.model.types import is_nested, outer_of
from frazil.spec.sql.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from frazil.silver.contract import Contract
    from frazil.silver.rules import RowRule
    from frazil.sources.base import RecordMeaning, Source
    from frazil.spec import Column

PROBLEM = "_cdc_problem"
TEXT = "_cdc_text"
CAST = "cast"
"""Rule for records with a text that is not exactly a value of its column's type."""
FAILS = "expr"
"""Rule for records on which a column's expression fails."""
BEFORE_HORIZON = "before_horizon"
"""Rule for changes that came too late."""
_TOO_LATE = "older than the horizon: the changes of that time are folded into the baseline"

_RECORDS, _TYPED = "frazil_records", "frazil_typed"
_MADE, _SAID, _KEPT, _OLD_MADE = "_cdc_made_", "_cdc_said_", "_cdc_kept_", "_cdc_old_made_"
_REASON_SIGNS, _REASON_FIELDS = 80, 6
_WHERE_FROM = f"{r.POSITION}, {r.ROW}, {r.FILE}, {r.BATCH}"


@dataclass(frozen=True, slots=True)
class _Carried:
    """Conditions that a record carries some fields.

    Attributes:
        since: lower-case name of a field that is newer than the table -> its first batch.
    """

    since: Mapping[str, int]

    def all_of(self, fields: Collection[str]) -> str:
        """Write the condition that a record carries all of some fields, named in lower case."""
        unlisted = "_cdc_carried IS NULL"
        if batch := max((self.since.get(field, 0) for field in fields), default=0):
            unlisted = f"{unlisted} AND {r.BATCH} >= {batch}"
        return f"({unlisted} OR {_has(fields, '_cdc_carried')})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expressions:
    """Users' expressions as columns that cannot fail: each a ``struct<value: string>``, NULL after a failure.

    Attributes:
        made: column with an ``expr`` -> its value, over bronze.
        kept: quarantine rule with an ``expr`` -> whether a record keeps it, over typed columns.
        old: key with an ``expr`` over the field of its name -> function of SQL of the field before the change, which
            returns the key before the change.
    """

    made: Mapping[str, SparkColumn] = field(default_factory=dict)
    kept: Mapping[str, SparkColumn] = field(default_factory=dict)
    old: Mapping[str, Callable[[str], SparkColumn]] = field(default_factory=dict)

    def old_keys(self, meaning: RecordMeaning) -> tuple[list[SparkColumn], dict[str, str]]:
        """Return columns to add to bronze, and with them key -> SQL of its text before the change."""
        own = {key: text for key, text in meaning.old_keys.items() if key in self.old}
        added = [self.old[key](text).alias(_OLD_MADE + key) for key, text in own.items()]
        return added, {**meaning.old_keys, **{key: quote(_OLD_MADE + key, "value") for key in own}}


def change_rows(
    bronze: DataFrame,
    contract: Contract,
    source: Source,
    expressions: Expressions | None = None,
    *,
    since: Mapping[str, int] | None = None,
    truncates: bool = False,
) -> DataFrame:
    """Turn bronze records into typed change rows, including bad ones.

    Args:
        bronze: n rows of kind ``record`` or ``bad``, in any order.
        contract: the settled columns.
        source: the source, which defines the meaning of records.
        expressions: expressions of the contract.
        since: name of a field that is newer than the table -> its first batch; earlier records lack it.
        truncates: some records may be truncates, which have no keys.

    Returns:
        n rows, plus one for every change of key: the contract's columns, then ``_cdc_class``,
        ``_cdc_position``, ``_cdc_row``, ``_cdc_file``, ``_cdc_batch``, ``_cdc_known``, ``_cdc_source_time`` (of a
        delete), and ``_cdc_problem`` (struct of rule, reason, column; NULL for a good row) and ``_cdc_text`` (the
        record as text, NULL for a good row). ``_cdc_known`` is NULL if every column is known. If records may
        change keys, also ``_cdc_moved``.

    Cost: narrow, no shuffle, no UDF. The query is one SELECT as text, so that building it costs little even for
    many columns.
    """
    fields = {name.lower(): name for name, _ in contract.fields}
    expressions, spark = expressions or Expressions(), bronze.sparkSession
    made = [column.alias(_MADE + name) for name, column in expressions.made.items()]
    meaning = source.meaning(fields, r.POSITION)
    old, old_keys = expressions.old_keys(meaning)
    (bronze.select("*", *made, *old) if made else bronze).createOrReplaceTempView(_RECORDS)
    meaning = replace(meaning, old_keys=old_keys)
    fields |= {column.name.lower(): column.name for column in _made_by_source(contract, meaning)}
    carried = _Carried({name.lower(): batch for name, batch in (since or {}).items()})
    typed = _typed(contract, meaning, fields, carried.since)
    if expressions.kept:
        kept = [column.alias(_KEPT + name) for name, column in expressions.kept.items()]
        spark.sql(typed).select("*", *kept).createOrReplaceTempView(_TYPED)
        typed = f"SELECT * FROM {_TYPED}"
    rows = _checked(typed, contract, fields, carried, meaning.old_keys, truncates=truncates)
    if not meaning.old_keys:
        return spark.sql(rows)
    newest = max(
        (carried.since.get(name, 0) for column in contract.columns for name in contract.needs(column)), default=0
    )
    return spark.sql(with_old_keys_deleted(rows, contract, newest, (PROBLEM, TEXT)))


def _typed(contract: Contract, meaning: RecordMeaning, fields: Mapping[str, str], since: Mapping[str, int]) -> str:
    """Write the SELECT of typed values and of their texts."""
    typed = ", ".join(f"{_exact(contract, column, fields)} AS {quote(column.name)}" for column in contract.columns)
    said = "".join(f", {quote(name)} AS {quote(_SAID + name)}" for name in fields.values())
    made = "".join(f", {quote(_MADE + column.name)}" for column in contract.columns if column.expr is not None)
    types = {column.name: column.type for column in contract.columns}
    old = "".join(
        f", {exact(text, types[key], contract.beyond)} AS {quote(OLD + key)}" for key, text in meaning.old_keys.items()
    )
    by_source = _made_by_source(contract, meaning)
    added = "".join(f", {meaning.made[column.name.lower()]} AS {quote(column.name)}" for column in by_source)
    carried = _carried(by_source)
    known, change_class = _known(contract, carried, since), meaning.change_class
    happened = exact("_cdc_happened", "timestamp")
    if not meaning.old_keys:  # only deletes need it, and a change of key includes one
        happened = f"CASE WHEN {change_class} <> {literal(r.UPSERT)} THEN {happened} END"
    return f"""SELECT {typed}{said}{made}{old}, {change_class} AS {r.CLASS}, _cdc_op, {r.KIND}, {r.RAW}, {r.REASON},
        {happened} AS {r.SOURCE_TIME}, {_WHERE_FROM}, {carried} AS _cdc_carried, {meaning.problem} AS _cdc_wrong,
        {known} AS {r.KNOWN}
        FROM (SELECT *, {meaning.operation} AS _cdc_op, {meaning.happened} AS _cdc_happened{added} FROM {_RECORDS})"""


def _checked(
    typed: str,
    contract: Contract,
    fields: Mapping[str, str],
    carried: _Carried,
    old_keys: Iterable[str],
    *,
    truncates: bool,
) -> str:
    """Write the SELECT of change rows with their problems."""
    columns = ", ".join(map(quote, contract.names))
    old = "".join(f", {quote(OLD + key)}" for key in old_keys)
    # A record that carries every column has no list.
    carries = _carries_values(contract) if contract.ignores_nulls else r.KNOWN
    known = f"CASE WHEN size({carries}) < {len(contract.columns)} THEN {carries} END"
    if contract.sequence_by:
        known = _known_of_deletes(contract, known)
    record, problem = _record_text(fields, carried), _problem(contract, fields, carried, truncates=truncates)
    return f"""SELECT {columns}, {r.CLASS}, {_WHERE_FROM}, {known} AS {r.KNOWN}, {r.SOURCE_TIME}, {PROBLEM},
        CASE WHEN {PROBLEM} IS NOT NULL THEN {record} END AS {TEXT}{old}
        FROM (SELECT *, {problem} AS {PROBLEM} FROM ({typed}))"""


def _nothing() -> str:
    return "CAST(NULL AS string)"


def _exact(contract: Contract, column: Column, fields: Mapping[str, str]) -> str:
    """Write the cast of a column's text to its type; NULL if it is not exactly a value of it."""
    text = _text(column, fields)
    value = exact(text, column.type, contract.beyond)
    return f"CASE WHEN {has_zone(text)} THEN {value} END" if column.name in contract.zoned else value


def _text(column: Column, fields: Mapping[str, str], prefix: str = "") -> str:
    """Return the name of a column's text; ``prefix`` precedes the names of fields."""
    if column.expr is not None:
        return quote(_MADE + column.name, "value")
    field = fields.get(column.name.lower())
    return _nothing() if field is None else quote(prefix + field)


def _record_text(fields: Mapping[str, str], carried: _Carried) -> str:
    """Write a record as text: a bad one raw (bronze keeps the exact bytes), others as JSON of their fields."""
    raw = valid_text(r.RAW)
    if not fields:
        return raw
    said = ", ".join(
        f"CASE WHEN {carried.all_of([lower])} THEN struct({literal(name)} AS k, {quote(_SAID + name)} AS v) END"
        for lower, name in fields.items()
    )
    there = f"filter(array({said}), field -> field IS NOT NULL)"
    parsed = f"to_json(map_from_entries({there}), map('ignoreNullFields', 'false'))"
    return f"CASE WHEN {r.KIND} = {literal(r.BAD)} THEN {raw} ELSE {parsed} END"


def _made_by_source(contract: Contract, meaning: RecordMeaning) -> list[Column]:
    """Return the columns that the source makes for every record."""
    return [column for column in contract.columns if column.expr is None and column.name.lower() in meaning.made]


def _carried(by_source: Iterable[Column]) -> str:
    names = ", ".join(literal(column.name.lower()) for column in by_source)
    lower = f"transform({r.KNOWN}, field -> lower(field))"
    return f"concat({lower}, array({names}))" if names else lower


def _known(contract: Contract, carried: str, since: Mapping[str, int]) -> str:
    """Write the list of the contract's columns that a record carries; NULL for all.

    Only a change of key carries previous keys. With columns for them, every record has a list.
    """

    def if_carried(column: Column) -> str:
        return f"CASE WHEN {_has(contract.needs(column), carried)} THEN {literal(column.name)} END"

    names = ", ".join(map(if_carried, contract.columns))
    listed = f"filter(array({names}), name -> name IS NOT NULL)"
    if not contract.previous:
        return f"CASE WHEN {r.KNOWN} IS NOT NULL THEN {listed} END"
    previous = {name for name, _ in contract.previous}
    batches = {
        column.name: max((since.get(field, 0) for field in contract.needs(column)), default=0)
        for column in contract.columns
        if column.name not in previous
    }
    every = ", ".join(
        f"CASE WHEN {r.BATCH} >= {int(batch)} THEN {literal(name)} END" for name, batch in batches.items()
    )
    return f"CASE WHEN {r.KNOWN} IS NOT NULL THEN {listed} ELSE filter(array({every}), name -> name IS NOT NULL) END"


def _carries_values(contract: Contract) -> str:
    """Write the list of an upsert's columns with a value, plus keys and order; for others all that they carry."""
    must = {*contract.keys, *contract.sequence_by}

    def if_carried(column: Column) -> str:
        is_carried = f"({r.KNOWN} IS NULL OR array_contains({r.KNOWN}, {literal(column.name)}))"
        has_value = "" if column.name in must else f" AND {quote(column.name)} IS NOT NULL"
        return f"CASE WHEN {is_carried}{has_value} THEN {literal(column.name)} END"

    names = f"filter(array({', '.join(map(if_carried, contract.columns))}), name -> name IS NOT NULL)"
    return f"CASE WHEN {r.CLASS} = {literal(r.UPSERT)} THEN {names} ELSE {r.KNOWN} END"


def _known_of_deletes(contract: Contract, known: str) -> str:
    """Write the list of carried columns; a delete with NULL in a sequence column carries no sequence columns."""
    ordering = f"array({', '.join(map(literal, contract.sequence_by))})"
    every = f"array({', '.join(map(literal, contract.names))})"
    is_null = " OR ".join(f"{quote(name)} IS NULL" for name in contract.sequence_by)
    lacks = f"{r.CLASS} = {literal(r.DELETE)} AND ({is_null})"
    return f"CASE WHEN {lacks} THEN array_except(coalesce({r.KNOWN}, {every}), {ordering}) ELSE {known} END"


def _has(fields: Collection[str], carried: str) -> str:
    """Write the condition that a record carries all of some fields; true without fields."""
    has = " AND ".join(f"array_contains({carried}, {literal(field)})" for field in sorted(fields))
    return has if fields else "true"


def _problem(contract: Contract, fields: Mapping[str, str], carried: _Carried, *, truncates: bool) -> str:
    """Write the reason why a record cannot be a change: that of the first broken rule."""
    is_kept = f"NOT coalesce({r.CLASS} = {literal(r.DELETE)}, false)"
    has_key = "true"
    if truncates:
        # A truncate names no row; only its order matters.
        is_kept = f"NOT coalesce({r.CLASS} IN ({literal(r.DELETE)}, {literal(r.TRUNCATE)}), false)"
        has_key = f"NOT coalesce({r.CLASS} = {literal(r.TRUNCATE)}, false)"
    rules = [
        (f"{r.KIND} = {literal(r.BAD)}", _broken("record", r.REASON)),
        ("_cdc_wrong IS NOT NULL", _broken("record", "_cdc_wrong")),
        (f"{r.CLASS} IS NULL", _broken("op", "concat('unknown op ', coalesce(_cdc_op, 'NULL'))")),
    ]
    must = {*contract.keys, *contract.sequence_by}
    for column in contract.columns:
        if column.expr is not None:
            # A missing value comes from an earlier record, whatever the expression returns without it.
            fails = f"{quote(_MADE + column.name)} IS NULL AND {carried.all_of(contract.needs(column))}"
            broken = _broken(FAILS, _fails_on(contract, column, fields), column.name)
            rules.append((fails if column.name in must else f"{fails} AND {is_kept}", broken))
        value, text = quote(column.name), _text(column, fields, _SAID)
        failed = f"{value} IS NULL AND {text} IS NOT NULL"
        kind = outer_of(column.type) if is_nested(column.type) else column.type
        kind = f"an {kind}" if kind in {"int", "array"} else f"a {kind}"
        shown = f"substring({why_not(text, column.type, contract.beyond)}, 1, {_REASON_SIGNS})"
        reason = f"concat({literal(f'not exactly {kind}: ')}, {shown})"
        rules.append((failed if column.name in must else f"{failed} AND {is_kept}", _broken(CAST, reason, column.name)))
    rules += _nulls(contract, has_key)
    rules += [(f"{condition} AND {is_kept}", broken) for condition, broken in _evolution(contract, fields, carried)]
    needs = {column.name: contract.needs(column) for column in contract.columns}
    for declared in row_rules(contract):
        if declared.on_violation == "quarantine":
            read = frozenset[str]().union(*(needs.get(name, ()) for name in declared.columns))
            condition = f"{_breaks(declared)} AND {carried.all_of(read)} AND {is_kept}"
            rules.append((condition, _broken(declared.name, _why_broken(declared), declared.column)))
    if contract.too_late is not None:
        time = contract.sequence_by[0] if contract.sequence_by else contract.event_time
        rules.append((contract.too_late, _broken(BEFORE_HORIZON, literal(_TOO_LATE), time)))
    return f"CASE {' '.join(f'WHEN {condition} THEN {broken}' for condition, broken in rules)} END"


def _nulls(contract: Contract, has_key: str) -> Iterator[tuple[str, str]]:
    """Yield (condition, problem) for records without a key or sequence.

    A delete may lack its sequence: see :mod:`frazil.silver.unsequenced`.
    """
    for name in contract.keys:
        is_null = f"{quote(name)} IS NULL" + ("" if has_key == "true" else f" AND {has_key}")
        yield is_null, _broken("null_key", literal(f"{name} is NULL"), name)
    for name in contract.sequence_by:
        is_null = f"{quote(name)} IS NULL AND {r.CLASS} <> {literal(r.DELETE)}"
        yield is_null, _broken("null_sequence", literal(f"{name} is NULL"), name)


def _evolution(contract: Contract, fields: Mapping[str, str], carried: _Carried) -> Iterator[tuple[str, str]]:
    """Yield (condition, problem) for records with new or missing fields that the declaration quarantines."""
    for name in contract.blocked:
        if name in fields:
            text = quote(_SAID + fields[name])
            reason = f"concat({literal(f'{fields[name]} is a new field: ')}, substring({text}, 1, {_REASON_SIGNS}))"
            yield f"{text} IS NOT NULL", _broken("new_column", reason, fields[name])
    if contract.whole:
        for column in contract.columns:
            lacks = f"_cdc_carried IS NOT NULL AND NOT {_has(contract.needs(column), '_cdc_carried')}"
            batch = max((carried.since.get(field, 0) for field in contract.needs(column)), default=0)
            reason = literal(f"{column.name}: the record has no such field")
            yield f"{lacks} AND {r.BATCH} >= {batch}", _broken("missing_column", reason, column.name)


def _breaks(rule: RowRule) -> str:
    if rule.expr is None:
        return breaks(rule, Spark())
    kept = quote(_KEPT + rule.name)
    return f"({kept} IS NULL OR {kept}.value = 'false')"


def _why_broken(rule: RowRule) -> str:
    """Write the message of a broken rule, with the values that break it."""
    if rule.name == NOT_NULL:
        return literal(rule.says)
    values = [
        f"coalesce(substring(CAST({quote(name)} AS string), 1, {_REASON_SIGNS}), 'NULL')" for name in rule.columns
    ]
    if rule.expr is None:
        return f"concat({literal(f'{rule.says}: ')}, {values[0]})"
    parts = [f"{literal(f', {name} = ')}, {value}" for name, value in zip(rule.columns, values, strict=True)]
    return f"concat({', '.join([literal(rule.says), *parts[:_REASON_FIELDS]])})"


def _fails_on(contract: Contract, column: Column, fields: Mapping[str, str]) -> str:
    """Write the message of a failed expression, with the values of its fields."""
    parts, quotation = [literal("expr fails")], literal("'")
    for number, name in enumerate(sorted(contract.needs(column) & fields.keys())[:_REASON_FIELDS]):
        text = f"substring({quote(_SAID + fields[name])}, 1, {_REASON_SIGNS})"
        parts.append(literal(f"{', ' if number else ' on '}{fields[name]} = "))
        parts.append(f"coalesce(concat({quotation}, {text}, {quotation}), 'NULL')")
    return f"concat({', '.join(parts)})"


def _broken(rule: str, reason: str, column: str | None = None) -> str:
    at = _nothing() if column is None else literal(column)
    # Arrow does not accept NULL for a struct with a field that cannot be NULL.
    return f"named_struct('rule', nullif({literal(rule)}, ''), 'reason', {reason}, 'column', {at})"


QUARANTINE_COLUMNS = {
    r.FILE: "string",
    r.ROW: "bigint",
    r.POSITION: "string",
    r.BATCH: "bigint",
    "rule": "string",
    "reason": "string",
    "column": "string",
    "raw": "string",
}
"""Columns of ``silver.<t>_quarantine``: the place of a record, the broken rule, and the record."""


def change_columns(contract: Contract) -> dict[str, str]:
    """Return the columns of ``silver.<t>_changes``: name -> type."""
    return {column.name: column.type for column in contract.columns} | {
        r.CLASS: "string",
        r.POSITION: "string",
        r.ROW: "bigint",
        r.FILE: "string",
        r.BATCH: "bigint",
        r.KNOWN: "array<string>",
        r.SOURCE_TIME: "timestamp",
    }


def good(rows: DataFrame) -> DataFrame:
    """Keep the change rows without a problem, in the shape of ``silver.<t>_changes``."""
    return rows.where(f"{PROBLEM} IS NULL").drop(PROBLEM, TEXT)


def quarantined(rows: DataFrame, said: Mapping[str, str] | None = None) -> DataFrame:
    """Keep the records with a problem, in the shape of ``silver.<t>_quarantine``.

    Args:
        rows: from :func:`frazil.silver.changes.change_rows`.
        said: reason of a problem -> the text to write instead; a few entries.
    """
    reason = f"{PROBLEM}.reason"
    if said:
        cases = " ".join(f"WHEN {literal(short)} THEN {literal(whole)}" for short, whole in said.items())
        reason = f"CASE {reason} {cases} ELSE {reason} END"
    problem = (f"{PROBLEM}.rule AS rule", f"{reason} AS reason", f"{PROBLEM}.column AS {quote('column')}")
    at = (r.FILE, r.ROW, r.POSITION, r.BATCH)
    return rows.where(f"{PROBLEM} IS NOT NULL").selectExpr(*at, *problem, f"{TEXT} AS raw")


_NO_BATCH = 0


def rows_of_batches(rows: DataFrame, after: int, upto: int) -> DataFrame:
    """Keep the rows of batches ``after < batch <= upto``; files of other batches are not opened.

    Args:
        rows: rows with ``_cdc_batch``.
        after: the batch before the first one.
        upto: the last batch.


    The condition is a set of numbers. It includes 0, which no batch has, so that the set never has one element: Spark
    passes sets to generated code by reference, so all batches share one compiled class.
    """
    return rows.where(_among(after, upto))


def other_batches(rows: DataFrame, after: int, upto: int) -> DataFrame:
    """Keep the rows of all other batches than :func:`batches`."""
    return rows.where(f"NOT {_among(after, upto)}")


def _among(after: int, upto: int) -> str:
    return f"{r.BATCH} IN ({', '.join(map(str, (_NO_BATCH, *range(after + 1, upto + 1))))})"
