"""Declared source: an audit log written by triggers, in a database or as files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field

from frazil.spec.contract import repeated
from frazil.spec.load.problem import Problem
from frazil.spec.model.source import Paths, SourceSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.spec.load.problem import Path
    from frazil.spec.model.source import FoldBy, TableSpec

ARRIVAL = {"ingested_at": "_cdc_arrived_at", "source_file": "_cdc_file"}
"""Column with the arrival of a record -> the column of bronze with the value."""


class AuditLog(SourceSpec):
    """The records of one table in an audit log: one record for each change, with the row as JSON in a column."""

    kind: Literal["audit_log"] = Field(default="audit_log", description="The kind of source: an audit log.")
    path: Paths | None = Field(
        default=None,
        description="Files of the log (CSV with header, JSON lines, Parquet): folders, files or glob patterns.",
    )
    url: str | None = Field(
        default=None, description="The PostgreSQL database with the log, as a reference such as ${env:SHOP_DB}."
    )
    log: str | None = Field(default=None, description="With url: the log, as schema.table.")
    landing: str | None = Field(
        default=None, description="With url: the folder that the log is captured into, one folder a table."
    )
    table: str = Field(min_length=1, description="The table as the log names it: schema.table, or table alone.")
    event_id: str = Field(default="audit_event_id", description="Column with the number of a record.")
    operation: str = Field(
        default="audit_operation", description="Column with I, U, D or T (truncate), or with the words, such as INSERT."
    )
    timestamp: str = Field(default="audit_timestamp", description="Column with the time of the change.")
    schema_name: str = Field(default="tbl_schema", description="Column with the schema of the table.")
    table_name: str = Field(default="tbl_name", description="Column with the table.")
    data: str = Field(default="raw_data", description="Column with the row after the change, as a JSON object.")
    old_data: str | None = Field(
        default=None,
        description="Column with the row before the change, whole or only what changed: a changed key is then seen.",
    )
    xid: str | None = Field(
        default=None,
        description="With url: xid8 column with the transaction; left out: the system column xmin is read.",
    )

    @property
    def schema_and_table(self) -> tuple[str | None, str]:
        """Return the schema and the table; the schema is None for any schema."""
        schema, _, table = self.table.rpartition(".")
        return schema or None, table

    @property
    def log_fields(self) -> tuple[str, ...]:
        """Return the columns that every record must have; the schema column only if ``table`` names a schema."""
        schema = (self.schema_name,) if self.schema_and_table[0] is not None else ()
        return (self.event_id, self.operation, self.timestamp, *schema, self.table_name, self.data)

    @property
    def problem_field(self) -> str:
        """Return the field of bronze with the reason why a record's JSON cannot be parsed."""
        return f"{self.data}_problem"

    @property
    def locations(self) -> dict[str, tuple[str, ...]]:
        """Return ``path``, or the table's folder below ``landing``."""
        if self.path is not None:
            return {"path": self.path}
        return {} if self.landing is None else {"landing": (f"{self.landing.rstrip('/')}/{self.table}",)}

    def landed_in(self, folder: str) -> AuditLog | None:
        """Return the source with another landing folder; None if its files are not landed."""
        return None if self.url is None else self.model_copy(update={"landing": folder})

    @property
    def addresses(self) -> Mapping[str, str]:
        """Return ``url``."""
        return {} if self.url is None else {"url": self.url}

    @property
    def operation_field(self) -> str:
        """Return the column with the operation."""
        return self.operation

    @property
    def orders_records(self) -> bool:
        """Return True: the numbers of records order them."""
        return True

    @property
    def truncates(self) -> bool:
        """Return True: operation T truncates the table."""
        return True

    @property
    def server_places(self) -> bool:
        """Return True: positions are numbers of the database that wrote them."""
        return True

    @property
    def types_fields(self) -> bool:
        """Return False: JSON does not define the types of columns."""
        return False

    @property
    def own_fields(self) -> Mapping[str, str]:
        """Return the columns of the log."""
        return {
            self.event_id: "bigint",
            self.operation: "string",
            self.timestamp: "timestamp",
            self.schema_name: "string",
            self.table_name: "string",
        }

    @property
    def event_time(self) -> str:
        """Return the column with the time of the change."""
        return self.timestamp

    @property
    def made_columns(self) -> Mapping[str, str]:
        """Return the columns with the arrival time and the file of a record."""
        return ARRIVAL

    def field_names(self, declared: tuple[str, ...]) -> None:
        """Return None: all files name their fields."""

    @property
    def meaning(self) -> dict[str, Any]:
        """Return the kind, the table and the declared columns of the log."""
        columns = {"event_id", "operation", "timestamp", "schema_name", "table_name", "data", "old_data"}
        return self.model_dump(mode="json", include={"kind", "table", *columns})

    @property
    def before_prefix(self) -> str | None:
        """Return the prefix of fields with old values; None without ``old_data``."""
        return None if self.old_data is None else f"{self.old_data}_"

    @property
    def row_texts(self) -> tuple[str, ...]:
        """Return the columns with the rows as JSON."""
        return (self.data,) if self.old_data is None else (self.data, self.old_data)

    def is_bookkeeping(self, field: str) -> bool:
        """Return whether a field belongs to the log, not to the row."""
        is_old = self.old_data is not None and field.lower().startswith(f"{self.old_data}_".lower())
        return is_old or field.lower() in self.reserved

    @property
    def reserved(self) -> frozenset[str]:
        """Return the names that fields of a row cannot have in bronze, in lower case."""
        columns = (*self.own_fields, self.data, self.problem_field, *ARRIVAL)
        return frozenset(name.lower() for name in (*columns, self.old_data or "", self.xid or "") if name)

    @property
    def retention_by(self) -> tuple[FoldBy, ...]:
        """Return that entries carry all columns, and their place and time in the log."""
        return ("time", "place")

    def way_to_lost_rows(self, name: str) -> str:
        """Return that the log must have the rows again."""
        del name
        return "touch the rows at the source, so that its triggers log them (UPDATE … SET id = id); frazil run"

    def problems(self, table: TableSpec, at: Path) -> Iterator[Problem]:
        """Yield what is wrong with these settings for a table."""
        return _problems(table, at)


_OF_A_DATABASE: Final = ("log", "landing", "xid")
_COLUMNS: Final = ("event_id", "operation", "timestamp", "schema_name", "table_name", "data", "old_data", "xid")


def _problems(table: TableSpec, at: Path) -> Iterator[Problem]:
    source, whose = table.source, f"the source of table '{table.name}'"
    if (source.path is None) == (source.url is None):
        what = "neither path nor url" if source.path is None else "both path and url"
        yield Problem(at, f"{whose} has {what}", "write path for files of the log, or url and log for its database")
    elif source.path is not None:
        for setting in _OF_A_DATABASE:
            if getattr(source, setting) is not None:
                yield Problem((*at, setting), f"{setting} of {whose} applies only with url", "leave it out")
    else:
        yield from (
            Problem(at, f"{whose} has a url and no {setting}", hint)
            for setting, hint in (
                ("log", "write log: public.audit_log_dml or the like"),
                ("landing", "write landing: ./landing/audit_log or the like; the log is captured there"),
            )
            if not getattr(source, setting)
        )
    named = [(setting, getattr(source, setting)) for setting in _COLUMNS if getattr(source, setting) is not None]
    for setting, name in named:
        if not name.strip():
            yield Problem((*at, setting), f"{setting} of {whose} is empty")
    for name in repeated(name for _, name in named):
        settings = [setting for setting, one in named if one.lower() == name]
        yield Problem((*at, settings[1]), f"{' and '.join(settings)} of {whose} are the same column '{name}'")
    if any(part in {"", ".", ".."} or "/" in part for part in source.table.split(".")):
        yield Problem((*at, "table"), f"table of {whose} is not schema.table", "write public.orders or the like")
