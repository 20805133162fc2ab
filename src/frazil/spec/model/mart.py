"""Declared marts of a source table, and aggregates over marts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from frazil.spec.model.base import Spec


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
