"""A pipeline: its lake, its source tables, their marts, aggregates, and settings of upkeep."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self, Union, get_args

from pydantic import BeforeValidator, Field, PrivateAttr, WithJsonSchema, model_validator

from frazil.spec.load.problem import Problem
from frazil.spec.model.base import Spec
from frazil.spec.model.column import (
    Column,
    Rule,
)
from frazil.spec.model.kinds import Source  # noqa: TC001 - pydantic reads it at run time
from frazil.spec.model.mart import Current, Gold, History, Mart
from frazil.spec.model.notify import Notify  # noqa: TC001 - pydantic reads it at run time
from frazil.spec.model.source import SourceSpec  # noqa: TC001 - pydantic reads it at run time
from frazil.spec.model.stores import Store  # noqa: TC001 - pydantic reads it at run time
from frazil.spec.model.types import (
    BeyondMicroseconds,
    Evolution,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


_SPAN: Final = re.compile("[1-9][0-9]{0,3}[mhd]")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}

Span = Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^{_SPAN.pattern}$"})]
"""A span of time: a whole number and ``m``, ``h`` or ``d``."""


class Verify(Spec):
    """Runs compare tables with their sources, as ``frazil check --source`` does."""

    every: Span = Field(description="A table is compared when it was last found equal so long ago: 30m, 12h, 1d.")

    @property
    def span(self) -> dt.timedelta:
        """Return ``every`` as a span of time."""
        return dt.timedelta(**{_UNITS[self.every[-1]]: int(self.every[:-1])})


def verify_problems(verify: Verify | None) -> Iterator[Problem]:
    """Yield the problem of a span of time that is none."""
    if verify is not None and _SPAN.fullmatch(verify.every) is None:
        hint = "write minutes, hours or days: 30m, 12h, 1d"
        yield Problem(("verify", "every"), f"'every' of verify is '{verify.every}'", hint)


CATALOG = "lake"
"""Spark's name of the catalog. A JDBC catalog stores it, so all engines use this constant."""


def _as_column(value: object) -> object:
    return {"name": "*"} if value == "*" else value


_ColumnOrRest = Annotated[Column, BeforeValidator(_as_column, json_schema_input_type=Column | Literal["*"])]


class EmbeddedCatalog(Spec):
    """A SQLite file in the warehouse: no installation, one machine."""

    type: Literal["embedded"] = Field(default="embedded", description="SQLite in the warehouse folder.")


class JdbcCatalog(Spec):
    """An Iceberg JDBC catalog, on PostgreSQL in production."""

    type: Literal["jdbc"] = Field(description="Tables are kept track of in a database.")
    uri: str = Field(description="JDBC address, such as jdbc:postgresql://host:5432/lake.")
    user: str | None = Field(default=None, description="Name to log in with.")
    password: str | None = Field(
        default=None, description="A reference such as ${env:LAKE_PASSWORD}, never the word itself."
    )
    properties: dict[str, str] = Field(
        default_factory=dict, description="Passed to Iceberg; secrets as ${env:X} or ${file:X}."
    )


class ServiceCatalog(Spec):
    """A REST, Glue or Hive catalog."""

    type: Literal["rest", "glue", "hive"] = Field(description="The service that keeps track of the tables.")
    uri: str | None = Field(default=None, description="Address of the service; Glue needs none.")
    properties: dict[str, str] = Field(
        default_factory=dict, description="Passed to Iceberg; secrets as ${env:X} or ${file:X}."
    )


Catalog = Annotated[EmbeddedCatalog | JdbcCatalog | ServiceCatalog, Field(discriminator="type")]


class Namespaces(Spec):
    """Names of the four layers in the catalog."""

    bronze: str = Field(default="bronze", description="Records as they came.")
    silver: str = Field(default="silver", description="Typed changes and quarantine.")
    marts: str = Field(default="marts", description="Current tables and histories.")
    gold: str = Field(default="gold", description="Aggregates.")


class Lake(Spec):
    """Warehouse, catalog and namespaces of the tables."""

    warehouse: str = Field(description="Folder or object store URI; relative to the declaration.")
    catalog: Catalog = Field(default=EmbeddedCatalog(), description="Catalog of the tables.")
    namespaces: Namespaces = Field(default=Namespaces(), description="Names of the four layers.")


class Retention(Spec):
    """Changes older than the horizon are folded into a baseline."""

    changes_days: int = Field(
        ge=1,
        description="Changes older than so many days, by the first column of sequence_by, are folded into a baseline.",
    )


class Upkeep(Spec):
    """Compaction, snapshot expiry, orphan files and statistics."""

    expire_after_days: float = Field(default=7.0, ge=0, description="Snapshots older than this go.")
    retain_last: int = Field(default=5, ge=1, description="This many snapshots stay whatever their age.")
    orphans_after_days: float = Field(default=3.0, ge=1.0, description="Unreferenced files older than this go.")
    after_run_days: float | None = Field(
        default=None, ge=0, description="A run also maintains tables with snapshots this much older than they may get."
    )
    target_file_mb: int = Field(default=128, ge=1, description="Size compaction aims at.")
    delete_ratio: float = Field(
        default=0.05, gt=0, le=1, description="Files with more than this share of deleted rows are rewritten."
    )


class Table(Spec):
    """One source table: its source, keys and order, its contract and its marts."""

    name: str = Field(description="Lower-case letters, digits and underscores.")
    source: Source = Field(description="Where the changes come from.")
    keys: tuple[str, ...] = Field(min_length=1, description="The columns that name a row.")
    sequence_by: tuple[str, ...] = Field(
        default=(),
        description="Columns that order the changes of a key, compared as typed values; ties go by position.",
    )
    columns: tuple[_ColumnOrRest, ...] | None = Field(
        default=None,
        description="The contract. Left out: every field of the source, evolved as it grows. "
        'A last entry "*" adds the rest as text.',
    )
    rules: tuple[Rule, ...] = Field(default=(), description="Rules over rows, or over whole marts.")
    evolution: Evolution = Field(default=Evolution(), description="What to do when the source changes shape.")
    renames: dict[str, str] = Field(
        default_factory=dict, description="Fields of the source that have another name now: the old one and the new."
    )
    ignore_null_updates: bool = Field(
        default=False, description="A NULL in an upsert leaves the value that the row has, as if it were not carried."
    )
    effective_at: str | None = Field(
        default=None,
        description="Column with the event time of history; left out: the first timestamp in sequence_by.",
    )
    beyond_microseconds: BeyondMicroseconds | None = Field(
        default=None,
        description="Digits of a timestamp beyond microseconds: truncate (the default), "
        "round, text (a column that is not declared is text, a declared one as for quarantine), or quarantine.",
    )
    marts: tuple[Mart, ...] = Field(default=(Current(),), description="The tables made of it; left out: current, hard.")
    retention: Retention | None = Field(
        default=None, description="How long changes are kept one by one. Left out: no limit."
    )
    max_bad_rows: int | None = Field(
        default=None, ge=0, description="More bad records than this in a batch stop the run."
    )
    max_bad_fraction: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="As above, as a share of the batch; left out: a tenth of a batch of 100 records or more, "
        "and of what came first, so that some record is good.",
    )
    max_late_fraction: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Share of a batch of 100 changes or more that may come late; more stop the run. 1: all may.",
    )
    max_repeated_key_fraction: float = Field(
        default=0.001,
        ge=0,
        le=1,
        description="More of a full load's keys than this share with different records of one key stop the run.",
    )

    _stores: dict[str, Store] = PrivateAttr(default_factory=dict)

    @property
    def stores(self) -> dict[str, Store]:
        """Access settings of object stores, from the pipeline."""
        return self._stores

    def reached_by(self, stores: dict[str, Store]) -> Table:
        """Return the table with these access settings of object stores."""
        copy = self.model_copy()
        copy._stores = stores  # noqa: SLF001 - a private attribute of its own class
        return copy

    def mart_name(self, mart: Current | History) -> str:
        """Return the name of a mart's table: its own, else the source table's (current) or ``<table>_history``."""
        if mart.name:
            return mart.name
        return self.name if isinstance(mart, Current) else f"{self.name}_history"


class Pipeline(Spec):
    """A whole declaration, the same in YAML and in Python."""

    pipeline: str = Field(min_length=1, description="Name of the pipeline.")
    lake: Lake = Field(description="Where the tables live.")
    tables: tuple[Table, ...] = Field(min_length=1, description="The source tables.")
    gold: tuple[Gold, ...] = Field(default=(), description="Aggregates over the marts.")
    upkeep: Upkeep = Field(default=Upkeep(), description="How the lake is kept in shape.")
    stores: dict[str, Store] = Field(
        default_factory=dict, description="How object stores are reached, by the beginnings of their addresses."
    )

    pii_key: str | None = Field(
        default=None,
        description="The key of columns with pii: hmac, a reference such as ${env:PII_KEY} or ${file:pii.key}.",
    )
    certificates: bool = Field(
        default=False, description="Each run leaves a certificate that frazil check --certificates verifies."
    )
    certificate_key: str | None = Field(
        default=None, description="The key that certificates are sealed with, a reference such as ${env:SEAL_KEY}."
    )
    notify: tuple[Notify, ...] = Field(
        default=(), description="Receivers of messages about failures, lag, quarantine and differences."
    )
    verify: Verify | None = Field(
        default=None, description="Runs compare tables with their sources. Left out: only frazil check --source does."
    )

    _folder: Path = PrivateAttr(default_factory=Path.cwd)

    @model_validator(mode="after")
    def _tell_tables(self) -> Self:
        if self.stores:
            tables = tuple(table.reached_by(self.stores) for table in self.tables)
            object.__setattr__(self, "tables", tables)
        return self

    @property
    def folder(self) -> Path:
        """Return the folder where relative paths start: that of the file, or the working directory in Python."""
        return self._folder

    def at(self, folder: Path) -> Pipeline:
        """Return the pipeline with relative paths starting at ``folder``."""
        copy = self.model_copy()
        copy._folder = folder.resolve()  # noqa: SLF001 - a private attribute of its own class
        return copy


def add_kind(kind: type[SourceSpec]) -> None:
    """Allow another kind of source in declarations, by its ``kind``."""
    source = Table.model_fields["source"]
    kinds = [one for one in (get_args(source.annotation) or (source.annotation,)) if one is not kind]
    source.annotation = Union[(*kinds, kind)]  # type: ignore[assignment]
    source.discriminator = "kind"
    Table.model_rebuild(force=True)
    Pipeline.model_rebuild(force=True)
