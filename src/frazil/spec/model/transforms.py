"""Partition transforms, such as ``day(created_at)`` and ``bucket(16, id)``, as values."""

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
