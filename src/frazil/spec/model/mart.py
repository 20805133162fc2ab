"""Declared marts of a source table with their partition transforms, and aggregates over marts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Final, Literal, TypeAlias, cast

from pydantic import Field

from frazil.errors import DeclarationError
from frazil.spec.model.base import Spec
from frazil.spec.sql.names import quote


class _Mart(Spec):
    name: str | None = Field(default=None, description="Name of the table in the marts namespace.")
    partition_by: tuple[str, ...] = Field(
        default=(),
        description="Transforms: column, year(c), month(c), day(c), hour(c), bucket(n, c), truncate(n, c).",
    )
    sort_by: tuple[str, ...] = Field(default=(), description="Columns the files are sorted by.")
    format_version: Literal[2, 3] = Field(default=2, description="Iceberg table format; 2 is read by every engine.")
    properties: dict[str, str] = Field(default_factory=dict, description="Any Iceberg table property.")


class Current(_Mart):
    """The newest state of every key.

    With ``deletes="hard"`` a delete removes the row. With ``deletes="soft"`` the row keeps its last known values and
    gets ``is_deleted = true`` and ``deleted_at``.
    """

    kind: Literal["current"] = Field(default="current", description="The newest state of every key.")
    deletes: Literal["hard", "soft"] = Field(
        default="hard", description="What a delete does: hard takes the row away, soft flags it."
    )
    live_view: str | None = Field(
        default=None, description="Name of a view over a soft table without its deleted rows."
    )


class History(_Mart):
    """Every version of every key with ``[valid_from, valid_to)`` in event time: a slowly changing dimension.

    With ``deletes="close"`` a delete ends the last version. With ``deletes="mark"`` it also opens a row with
    the last known values and ``is_deleted = true``. With ``bitemporal`` no row is overwritten: a row that a change
    ends, splits or corrects stays, with the time until which it was known.
    """

    kind: Literal["history"] = Field(default="history", description="Every version of every key.")
    deletes: Literal["close", "mark"] = Field(
        default="close",
        description="What a delete does: close ends the last version, mark also opens a row for it.",
    )
    track_history_columns: tuple[str, ...] | None = Field(
        default=None,
        description="A change in these opens a version. Left out: all but keys, sequence_by, effective_at.",
    )
    track_history_except_columns: tuple[str, ...] | None = Field(
        default=None, description="As above, but all columns except these."
    )
    bitemporal: bool = Field(
        default=False,
        description="Keep all earlier rows: known_from and known_to say when each was known.",
    )


Mart = Annotated[Current | History, Field(discriminator="kind")]


class Gold(Spec):
    """One aggregate: a SELECT over marts and other aggregates, written as ``{{ name }}``, kept as an Iceberg table."""

    name: str = Field(description="Name of the table in the gold namespace.")
    sql: str = Field(description="One SELECT in Spark SQL; a mart or another aggregate is written {{ name }}.")
    materialized: Literal["table", "incremental"] = Field(
        default="table",
        description="How it is refreshed: table computes all rows, incremental the groups that a batch touched.",
    )
    description: str | None = Field(default=None, description="What it holds, in words; exported with it.")


Kind: TypeAlias = Literal["identity", "year", "month", "day", "hour", "bucket", "truncate"]

_OF_TIME: Final = ("year", "month", "day", "hour")
_NUMBERED: Final = ("bucket", "truncate")
_CALL: Final = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)
_FORMS: Final = "write a column, year(c), month(c), day(c), hour(c), bucket(n, c) or truncate(n, c)"


@dataclass(frozen=True, slots=True)
class Transform:
    """The function from a column to a partition value; ``n`` is the number of bucket and truncate, else None."""

    kind: Kind
    column: str
    n: int | None = None

    @property
    def sql(self) -> str:
        """Return the transform as Spark SQL, with a quoted column."""
        column = quote(self.column)
        if self.kind == "identity":
            return column
        return f"{self.kind}({column})" if self.n is None else f"{self.kind}({self.n}, {column})"

    @property
    def name(self) -> str:
        """Return Iceberg's name of the partition field, in lower case."""
        of = {"identity": "", "truncate": "_trunc"}.get(self.kind, f"_{self.kind}")
        return f"{self.column}{of}".lower()

    @property
    def field(self) -> str:
        """Return a key that is unique in a table: a time column can have only one of year, month, day and hour."""
        return f"{self.column}_time".lower() if self.kind in _OF_TIME else self.name

    def accepts(self, column_type: str) -> bool:
        """Return whether Iceberg supports the transform for a column type in normal form."""
        whole = column_type.split("(", maxsplit=1)[0]
        match self.kind:
            case "identity":
                return whole not in {"float", "double"}
            case "hour":
                return whole in {"timestamp", "timestamp_ntz"}
            case "year" | "month" | "day":
                return whole in {"date", "timestamp", "timestamp_ntz"}
            case "bucket":
                return whole not in {"float", "double", "boolean"}
            case "truncate":
                return whole in {"int", "bigint", "decimal", "string", "binary"}


def partition_transform(text: str) -> Transform:
    """Parse a partition transform.

    Args:
        text: ``column | year(c) | month(c) | day(c) | hour(c) | bucket(n, c) | truncate(n, c)``; the plural
            ``years(c)`` means the same. A column in backticks may contain blanks, commas and parentheses.

    Raises:
        DeclarationError: the text has another form; the hint shows the right one.
    """
    stripped = text.strip()
    call = _CALL.fullmatch(stripped)
    if stripped.startswith("`") or call is None:
        return Transform("identity", _column(stripped, text))
    kind, inside = call[1].lower(), call[2].strip()
    if kind.removesuffix("s") in _OF_TIME:
        return Transform(cast("Kind", kind.removesuffix("s")), _column(inside, text))
    if kind in _NUMBERED:
        number, comma, column = inside.partition(",")
        if not comma or not number.strip().isdecimal() or not int(number):
            raise DeclarationError(f"'{text}' is not a partition transform", hint=f"write {kind}(16, column)")
        return Transform(cast("Kind", kind), _column(column.strip(), text), int(number))
    near = get_close_matches(kind, [*_OF_TIME, *_NUMBERED], n=1)
    raise DeclarationError(
        f"unknown partition transform '{text}'", hint=f"did you mean '{near[0]}'?" if near else _FORMS
    )


def _column(name: str, text: str) -> str:
    if name.startswith("`") and name.endswith("`") and len(name) > len("``"):
        return name[1:-1].replace("``", "`")
    if not name or any(sign in name for sign in "(),`"):
        raise DeclarationError(f"'{text}' is not a partition transform", hint=_FORMS)
    return name
