"""How much a batch is: the number of its changes, and where its order and its keys begin and end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import FrazilError
from frazil.marts.fold_spec import with_event_time
from frazil.silver.batches import batches
from frazil.spec.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.engine.table_run import TableRun
    from frazil.marts.fold_spec import FoldSpec
    from frazil.silver.contract import Contract
    from frazil.steps import UpdateMart

_RANGED: Final = frozenset({"int", "bigint", "date", "string"})
_STEP, _FAR = 1 << 20, 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStats:
    """How much a batch is.

    Attributes:
        changes: their number.
        size_bytes: memory that they take: eight bytes a value, and what texts have besides.
        oldest: SQL of a value that no change's first sequence column is below; ``NULL`` without changes or sequence.
        all_newer: every change is newer than all of earlier batches, by the first sequence column alone.
        newest: greatest value of that column so far, as a number; None where that is not known.
        near: SQL condition on the first key that holds for all keys of the batch, by which files are pruned.
    """

    changes: int
    size_bytes: int
    oldest: str
    all_newer: bool
    newest: int | None
    near: str


def measures(contract: Contract, condition: str = "true") -> list[str]:
    """Write the aggregates that :func:`batch_stats` makes a size of, over the changes that fulfil a SQL condition."""
    types = {column.name: column.type for column in contract.columns}
    key, sequence = contract.keys[0], _sequence(contract)

    def of(name: str) -> str:
        return f"CASE WHEN {condition} THEN {quote(name)} END"

    long = [f"coalesce(octet_length({quote(name)}), 0)" for name, kind in types.items() if kind in ("string", "binary")]
    return [
        f"count_if({condition}) AS n",
        f"coalesce(sum(CASE WHEN {condition} THEN {' + '.join(['0L', *long])} END), 0) AS text_bytes",
        f"{_least(of(sequence), types[sequence])} AS oldest",
        f"min({_number(contract, condition)}) AS begins",
        end(contract, condition),
        f"{_least(of(key), types[key])} AS first",
        f"{_greatest(of(key), types[key])} AS last",
    ]


def end(contract: Contract, condition: str = "true") -> str:
    """Write that aggregate of :func:`measures` of which :func:`newest` is made: ``ends``."""
    return f"max({_number(contract, condition)}) AS ends"


def batch_stats(
    context: TableRun, step: UpdateMart, spec: FoldSpec, contract: Contract, *, before: int | None
) -> BatchStats:
    """Tell how much a batch is: as it was measured when silver was written, or else measured now.

    Args:
        context: the table's part of the run.
        step: which batches.
        spec: the table's parts.
        contract: the table's contract.
        before: ``newest`` of the batches before; None where that is not known.
    """
    seen: Mapping[str, Any] | None = context.measured.get((step.after, step.upto))
    if seen is None:
        row = new_changes(context, step, spec).selectExpr(*measures(contract)).first()
        if row is None:
            raise FrazilError(f"no count of batch {step.upto}")
        seen = row.asDict()
    key, sequence = contract.keys[0], _sequence(contract)
    low, high = (_literal(seen[name], spec.types[key]) for name in ("first", "last"))
    near = f"{quote(key)} >= {low} AND {quote(key)} <= {high}" if spec.types[key] in _RANGED else "true"
    number = int(seen["n"])
    return BatchStats(
        changes=number,
        size_bytes=8 * number * len(contract.columns) + int(seen["text_bytes"]),
        oldest=_literal(seen["oldest"], spec.types[sequence]),
        all_newer=None not in (before, seen["begins"]) and seen["begins"] > before,
        newest=None if before is None else max(before, before if seen["ends"] is None else seen["ends"]),
        key_predicate=near,
    )


def all_changes(context: TableRun, spec: FoldSpec) -> DataFrame:
    """Rows of silver, with event time."""
    return with_event_time(context.spark.table(quote(*context.changes)), spec)


def new_changes(context: TableRun, step: UpdateMart, spec: FoldSpec) -> DataFrame:
    """Rows of the batch, with event time; silver leaves those it has just written."""
    span = (step.after, step.upto)
    here = context.here.get(span)
    if here is None:
        return context.keep(("new", *span), lambda: batches(all_changes(context, spec), *span))
    return with_event_time(context.keep(("changes", *span), lambda: here.frame(context.spark), in_memory=True), spec)


def newest(context: TableRun, upto: int, contract: Contract) -> int | None:
    """Give the greatest value of the first sequence column up to a batch, as :class:`BatchStats` does.

    None where that column is no number, date or time.
    """
    seen: Mapping[str, Any] | None = context.measured.get((0, upto))
    if seen is None:
        row = batches(context.spark.table(quote(*context.changes)), 0, upto).selectExpr(end(contract)).first()
        seen = {"ends": None} if row is None else row.asDict()
    ends: int | None = seen["ends"]
    return ends


def _sequence(contract: Contract) -> str:
    return contract.sequence_by[0] if contract.sequence_by else contract.keys[0]


def _number(contract: Contract, condition: str) -> str:
    """SQL of a change's first sequence column as a number of the same order; NULL where it has none."""
    number = "NULL"
    if contract.sequence_by:
        name = quote(contract.sequence_by[0])
        match next(column.type for column in contract.columns if column.name == contract.sequence_by[0]):
            case "int" | "bigint":
                number = name
            case "date":
                number = f"unix_date({name})"
            case "timestamp" | "timestamp_ntz":
                number = f"unix_micros(CAST({name} AS timestamp))"
            case _:
                pass
    return f"CASE WHEN {condition} THEN CAST({number} AS bigint) END"


def _least(value: str, kind: str) -> str:
    """SQL of a column's least value, rounded down, as text.

    Rounded, so that it is the same for many batches: a literal that changes makes Spark compile its code again.
    """
    least = f"min({value})"
    match kind:
        case "timestamp" | "timestamp_ntz":
            least = f"date_trunc('DAY', {least})"
        case "int" | "bigint":
            least = (
                f"CASE WHEN {least} > -{_FAR} THEN {least} - pmod(CAST({least} AS bigint), {_STEP}) ELSE {least} END"
            )
        case _:
            pass
    return f"CAST({least} AS string)"


def _greatest(value: str, kind: str) -> str:
    """SQL of a column's greatest value, rounded up, as text; only of columns that files are pruned by."""
    most = f"max({value})"
    if kind in {"int", "bigint"}:
        up = f"{most} + ({_STEP} - 1 - pmod(CAST({most} AS bigint), {_STEP}))"
        most = f"CASE WHEN {most} < {_FAR} THEN {up} ELSE {most} END"
    return f"CAST({most} AS string)"


def _literal(text: str | None, kind: str) -> str:
    return "NULL" if text is None else f"CAST({literal(text)} AS {'bigint' if kind == 'int' else kind})"
