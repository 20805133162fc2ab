"""How much a batch is: the number of its changes, and where its order and its keys begin and end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import FrazilError
from frazil.marts.shape import with_event_time
from frazil.silver.batches import batches
from frazil.spec.names import literal, quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.engine.context import Context
    from frazil.marts.shape import Shape
    from frazil.silver.contract import Contract
    from frazil.steps import UpdateMart

_RANGED: Final = frozenset({"int", "bigint", "date", "string"})
_STEP, _FAR = 1 << 16, 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much a batch is.

    Attributes:
        changes: their number.
        oldest: SQL of a value that no change's first sequence column is below; ``NULL`` without changes or sequence.
        near: SQL condition on the first key that holds for all keys of the batch, by which files are pruned.
    """

    changes: int
    oldest: str
    near: str


def measures(contract: Contract, condition: str = "true") -> list[str]:
    """Write the aggregates that :func:`size_of` makes a size of, over the changes that fulfil a SQL condition."""
    types = {column.name: column.type for column in contract.columns}
    key, sequence = contract.keys[0], _sequence(contract)

    def of(name: str) -> str:
        return f"CASE WHEN {condition} THEN {quote(name)} END"

    return [
        f"count_if({condition}) AS n",
        f"{_least(of(sequence), types[sequence])} AS oldest",
        f"{_least(of(key), types[key])} AS first",
        f"{_greatest(of(key), types[key])} AS last",
    ]


def size_of(context: Context, step: UpdateMart, changes: DataFrame, shape: Shape, contract: Contract) -> Size:
    """Tell how much a batch is: as it was measured when silver was written, or else measured now.

    Args:
        context: the table's part of the run.
        step: which batches.
        changes: all changes of silver, with event time.
        shape: the table's parts.
        contract: the table's contract.
    """
    seen: Mapping[str, Any] | None = context.measured.get((step.after, step.upto))
    if seen is None:
        row = new_changes(context, step, changes, shape).selectExpr(*measures(contract)).first()
        if row is None:
            raise FrazilError(f"no count of batch {step.upto}")
        seen = row.asDict()
    key, sequence = contract.keys[0], _sequence(contract)
    low, high = (_literal(seen[name], shape.types[key]) for name in ("first", "last"))
    near = f"{quote(key)} >= {low} AND {quote(key)} <= {high}" if shape.types[key] in _RANGED else "true"
    return Size(changes=int(seen["n"]), oldest=_literal(seen["oldest"], shape.types[sequence]), near=near)


def new_changes(context: Context, step: UpdateMart, changes: DataFrame, shape: Shape) -> DataFrame:
    """Rows of the batch; silver leaves those it has just written."""
    span = (step.after, step.upto)
    fresh = context.kept.get(("changes", *span))
    if fresh is not None:
        return with_event_time(fresh, shape)
    return context.keep(("new", *span), lambda: batches(changes, *span))


def _sequence(contract: Contract) -> str:
    return contract.sequence_by[0] if contract.sequence_by else contract.keys[0]


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
