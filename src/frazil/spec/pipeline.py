"""A pipeline: its lake, its tables, their columns and what is made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PrivateAttr

from frazil.spec.base import Spec
from frazil.spec.mart import Current, Gold, History, Mart
from frazil.spec.source import Source
from frazil.spec.upkeep import Upkeep

CATALOG = "lake"
"""Spark's name of the catalog. It is data in a JDBC catalog, so it is one constant for all engines."""


def _as_column(value: object) -> object:
    return {"name": "*"} if value == "*" else value


class Column(Spec):
    """One column of the contract of silver and marts."""

    name: str
    type: str = Field(
        default="string",
        description="boolean, int, bigint, float, double, decimal(p,s), string, date, timestamp, timestamp_ntz or binary.",
    )
    nullable: bool = True
    expr: str | None = Field(default=None, description="Spark SQL over the source's fields, which are all text.")


class EmbeddedCatalog(Spec):
    """A SQLite file in the warehouse: nothing to install, one machine."""

    type: Literal["embedded"] = "embedded"


class JdbcCatalog(Spec):
    """An Iceberg JDBC catalog, on PostgreSQL in production."""

    type: Literal["jdbc"]
    uri: str
    user: str | None = None
    password: str | None = Field(default=None, description="A reference such as ${env:LAKE_PASSWORD}, never the word itself.")
    properties: dict[str, str] = Field(default_factory=dict)


class ServiceCatalog(Spec):
    """A REST, Glue or Hive catalog."""

    type: Literal["rest", "glue", "hive"]
    uri: str | None = None
    properties: dict[str, str] = Field(default_factory=dict, description="Passed to Iceberg; secrets as ${env:X} or ${file:X}.")


Catalog = Annotated[EmbeddedCatalog | JdbcCatalog | ServiceCatalog, Field(discriminator="type")]


class Namespaces(Spec):
    """Names of the four layers in the catalog."""

    bronze: str = "bronze"
    silver: str = "silver"
    marts: str = "marts"
    gold: str = "gold"


class Lake(Spec):
    """Where the tables live."""

    warehouse: str = Field(description="Folder or object store URI; relative to the declaration.")
    catalog: Catalog = EmbeddedCatalog()
    namespaces: Namespaces = Namespaces()


class Table(Spec):
    """One source table: where its changes come from, what names and orders them, and what is made of them."""

    name: str = Field(description="Lower-case letters, digits and underscores.")
    source: Source
    keys: tuple[str, ...] = Field(min_length=1, description="The columns that name a row.")
    sequence_by: tuple[str, ...] = Field(
        default=(), description="The columns that order the changes of a key, compared as typed values; ties go by position."
    )
    columns: tuple[Annotated[Column, BeforeValidator(_as_column)], ...] | None = Field(
        default=None,
        description='The contract. Left out: every field of the source, evolved as it grows. A last entry "*" adds the rest as text.',
    )
    effective_at: str | None = Field(
        default=None, description="Column with the event time of history; left out: the first timestamp in sequence_by."
    )
    marts: tuple[Mart, ...] = (Current(),)
    max_bad_rows: int | None = Field(default=None, ge=0, description="More bad records than this in a batch stop the run.")
    max_bad_fraction: float | None = Field(default=None, ge=0, le=1, description="As above, as a share of the batch.")

    def mart_name(self, mart: Current | History) -> str:
        """Name of a mart's table: its own, else the table's (current) or ``<table>_history``."""
        if mart.name:
            return mart.name
        return self.name if isinstance(mart, Current) else f"{self.name}_history"


class Pipeline(Spec):
    """A whole declaration. The same in YAML and in Python."""

    pipeline: str = Field(description="Name of the pipeline.")
    lake: Lake
    tables: tuple[Table, ...] = Field(min_length=1)
    gold: tuple[Gold, ...] = ()
    upkeep: Upkeep = Upkeep()

    _folder: Path = PrivateAttr(default_factory=Path.cwd)

    @property
    def folder(self) -> Path:
        """Folder that relative paths start from: the declaration's, or the working directory for Python."""
        return self._folder

    def at(self, folder: Path) -> Pipeline:
        """Return the same pipeline with relative paths starting from ``folder``."""
        copy = self.model_copy()
        copy._folder = folder.resolve()  # noqa: SLF001 - a private attribute of its own class
        return copy
