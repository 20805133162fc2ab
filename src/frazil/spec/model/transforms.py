"""Partition transforms: ``day(created_at)``, ``bucket(16, id)`` and their like, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias, cast

from frazil.errors import DeclarationError
from frazil.spec.sql.names import quote

Kind: TypeAlias = Literal["identity", "year", "month", "day", "hour", "bucket", "truncate"]

_OF_TIME: Final = ("year", "month", "day", "hour")
_NUMBERED: Final = ("bucket", "truncate")
_CALL: Final = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)
_FORMS: Final = "write a column, year(c), month(c), day(c), hour(c), bucket(n, c) or truncate(n, c)"


@dataclass(frozen=True, slots=True)
class Transform:
    """How a partition value is made of a column; ``n`` is the number of bucket and truncate, else None."""

    kind: Kind
    column: str
    n: int | None = None

    @property
    def sql(self) -> str:
        """The transform as Spark SQL, its column taken literally."""
        column = quote(self.column)
        if self.kind == "identity":
            return column
        return f"{self.kind}({column})" if self.n is None else f"{self.kind}({self.n}, {column})"

    @property
    def name(self) -> str:
        """What Iceberg calls the partition, in lower case."""
        of = {"identity": "", "truncate": "_trunc"}.get(self.kind, f"_{self.kind}")
        return f"{self.column}{of}".lower()

    @property
    def field(self) -> str:
        """What one table can be partitioned by but once: of a time a year, month, day or hour is enough."""
        return f"{self.column}_time".lower() if self.kind in _OF_TIME else self.name

    def accepts(self, column_type: str) -> bool:
        """Return whether Iceberg can partition a column of this (normal) type so."""
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
    """Take a partition transform apart.

    Args:
        text: ``column | year(c) | month(c) | day(c) | hour(c) | bucket(n, c) | truncate(n, c)``; the plural
            ``years(c)`` is the same; a column in backticks may hold blanks, commas and parentheses.

    Raises:
        DeclarationError: it is none of these; the hint shows the right form.
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
