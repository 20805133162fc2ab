"""Layout of every table of the lake: columns, partitions, sort order, properties."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from frazil.bronze import record as r
from frazil.marts.layout import mart_columns, mart_properties, partitioning
from frazil.silver.changes import QUARANTINE_COLUMNS, change_columns
from frazil.spec.model.mart import Current
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from frazil.silver.contract import Contract
    from frazil.spec import History, Pipeline, Table
    from frazil.spec.tables import LakeTable

BRONZE: Final = "layer:bronze"
SILVER: Final = "layer:silver"
QUARANTINE: Final = "layer:quarantine"
LAYERS: Final = (BRONZE, SILVER, QUARANTINE)
"""Keys of the tables other than marts; marts are keyed by name, and no mart can have these names."""

_DEFAULTS: Final = {
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "write.delete.mode": "merge-on-read",
    "write.delete.isolation-level": "serializable",
    "write.metadata.delete-after-commit.enabled": "true",
    # Each table load reads the metadata, and each earlier file is listed in all later ones.
    "write.metadata.previous-versions-max": "8",
    "commit.retry.num-retries": "10",
}

_APPENDED: Final = {
    "write.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    # A twelfth less work than the default level, and files of the same size.
    "write.parquet.compression-level": "1",
    # Iceberg keeps minimum and maximum of the first hundred columns only, and this one follows the user's.
    f"write.metadata.metrics.column.{r.BATCH}": "full",
}
"""Properties of a table that only grows, record by record in the source's order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """Layout of a table.

    Attributes:
        path: catalog, namespace and name.
        columns: column -> type, in order.
        partition_by: partition transforms as SQL.
        sort_by: columns that sort each file.
        properties: properties that differ from the defaults of :attr:`all_properties`.
        live_view: name of the view of a soft mart without deleted rows.
        renames: old name of a column in lower case -> current name.
    """

    path: tuple[str, ...]
    columns: Mapping[str, str]
    partition_by: Sequence[str] = ()
    sort_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    live_view: str | None = None
    renames: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Namespace and name."""
        return ".".join(self.path[1:])

    @property
    def all_properties(self) -> dict[str, str]:
        """All properties of the table: Frazil's defaults, overridden by those of the layout."""
        distribution = "hash" if self.partition_by else "none"
        return _DEFAULTS | {"write.distribution-mode": distribution} | dict(self.properties)


def source_layouts(
    pipeline: Pipeline, table: Table, fields: Iterable[str], contract: Contract
) -> dict[str, TableLayout]:
    """Return the layout of each table of a source table, by ``BRONZE``, ``SILVER``, ``QUARANTINE`` and mart name.

    Args:
        pipeline: the declaration.
        table: one of its tables.
        fields: fields of the source in bronze after the run.
        contract: the table's contract over these fields.
    """
    made = source_tables(pipeline, table)
    layouts = {
        BRONZE: bronze_layout(made.bronze, fields),
        SILVER: changes_layout(made.changes, contract),
        QUARANTINE: quarantine_layout(made.quarantine),
    }
    return layouts | {mart.name: mart_table_layout(mart, contract) for mart in made.marts}


def bronze_layout(table: LakeTable, fields: Iterable[str]) -> TableLayout:
    """Return the layout of a bronze table with these fields of the source."""
    columns = dict.fromkeys(fields, "string") | r.BRONZE_COLUMNS
    return TableLayout(path=table.path, columns=columns, partition_by=(r.KIND,), properties=_APPENDED)


def changes_layout(table: LakeTable, contract: Contract) -> TableLayout:
    """Return the layout of a silver table."""
    columns = change_columns(contract)
    renames = dict(contract.renames)
    return TableLayout(path=table.path, columns=columns, partition_by=(r.CLASS,), properties=_APPENDED, renames=renames)


def quarantine_layout(table: LakeTable) -> TableLayout:
    """Return the layout of a quarantine table."""
    return TableLayout(path=table.path, columns=QUARANTINE_COLUMNS)


def mart_table_layout(table: LakeTable, contract: Contract) -> TableLayout:
    """Return the layout of a mart's table."""
    mart = table.mart
    if mart is None:
        raise ValueError(f"{table.full_name} is no mart")
    return TableLayout(
        path=table.path,
        columns=mart_columns(mart, contract),
        partition_by=partitioning(mart),
        sort_by=tuple(mart.sort_by),
        properties=mart_properties(mart),
        live_view=mart.live_view if isinstance(mart, Current) else None,
        renames=dict(contract.renames),
    )


def made_layout(layout: TableLayout, mart: Current | History, noted: Mapping[str, Any]) -> TableLayout:
    """Return the layout of an existing mart's table, as far as its bookmark has it.

    Args:
        layout: the declared layout, which supplies the columns.
        mart: the declared mart.
        noted: :func:`frazil.marts.layout.mart_layout` at the time of the write.
    """
    own = len(partitioning(mart)) - len(mart.partition_by)
    was = mart.model_copy(
        update={
            "partition_by": tuple(noted["partition_by"][own:]),
            "format_version": noted["format_version"],
            "properties": noted["properties"],
        }
    )
    return replace(
        layout,
        partition_by=noted["partition_by"],
        sort_by=tuple(noted["sort_by"]),
        properties=mart_properties(was),
        live_view=noted["live_view"],
    )
