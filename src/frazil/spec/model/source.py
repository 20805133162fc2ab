"""Base class of declared sources; the kinds are in ``kinds``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, TypeAlias

from pydantic import BeforeValidator

from frazil.spec.model.base import Spec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.spec.load.problem import Path, Problem
    from frazil.spec.model.column import Column
    from frazil.spec.model.mart import Mart
    from frazil.spec.model.types import Evolution

_NONE: Final[Mapping[str, str]] = MappingProxyType({})

FoldBy: TypeAlias = Literal["time", "place"]

NEXT_SNAPSHOT: Final = "the next snapshot corrects it: frazil capture --select {name} takes it when due; frazil run"

Paths = Annotated[
    tuple[str, ...],
    BeforeValidator(
        lambda value: (value,) if isinstance(value, str) else value,
        json_schema_input_type=str | tuple[str, ...],
    ),
]


class TableSpec(Protocol):
    """What sources and contracts read of a declared table; :class:`~frazil.spec.model.pipeline.Table` has more."""

    @property
    def name(self) -> str: ...  # noqa: D102 - declared in Table

    @property
    def source(self) -> Any: ...  # noqa: D102 - declared in Table

    @property
    def keys(self) -> tuple[str, ...]: ...  # noqa: D102 - declared in Table

    @property
    def sequence_by(self) -> tuple[str, ...]: ...  # noqa: D102 - declared in Table

    @property
    def columns(self) -> tuple[Column, ...] | None: ...  # noqa: D102 - declared in Table

    @property
    def effective_at(self) -> str | None: ...  # noqa: D102 - declared in Table

    @property
    def marts(self) -> tuple[Mart, ...]: ...  # noqa: D102 - declared in Table

    @property
    def evolution(self) -> Evolution: ...  # noqa: D102 - declared in Table

    @property
    def renames(self) -> Mapping[str, str]: ...  # noqa: D102 - declared in Table


class SourceSpec(Spec, ABC):
    """Declared settings of a source; each kind is a subclass.

    The properties follow from the declaration alone; :class:`frazil.sources.base.Source` reads the files.
    """

    kind: str

    @property
    @abstractmethod
    def locations(self) -> dict[str, tuple[str, ...]]:
        """Return the folders and patterns of the source's files, by setting."""

    @property
    @abstractmethod
    def operation_field(self) -> str | None:
        """Return the field with the operation of a record; None if no single field has it."""

    @property
    @abstractmethod
    def orders_records(self) -> bool:
        """Return whether records have their own position, so that positions in files do not matter."""

    @property
    def named_delivery(self) -> str | None:
        """Return a pattern of file paths whose first group identifies one delivery, such as a time or an offset.

        The same bytes in two deliveries are two files, each with its own changes. With None, file names have no
        meaning, and the same bytes are one file.
        """
        return None

    @property
    def server_places(self) -> bool:
        """Return whether positions are those of one server, and start again if the source moves to another server."""
        return False

    @property
    @abstractmethod
    def types_fields(self) -> bool:
        """Return whether fields have types; otherwise they are text."""

    @abstractmethod
    def field_names(self, declared: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the fields of headerless files, in file order; None if all files name their fields.

        Args:
            declared: names of the declared columns without ``expr``, for a source that does not list the fields itself.
        """

    @property
    @abstractmethod
    def meaning(self) -> dict[str, Any]:
        """Return the settings that changes depend on; if one of them changes, silver is rebuilt."""

    @abstractmethod
    def is_bookkeeping(self, field: str) -> bool:
        """Return whether a field belongs to the source, not to the table; it stays in bronze unless declared."""

    @property
    def truncates(self) -> bool:
        """Return whether a record may truncate the table."""
        return False

    @property
    def snapshot_places(self) -> str | None:
        """Return a LIKE pattern of the positions of snapshot rows after the snapshot's own truncate; None without any.

        The position of such a row begins with the position of the truncate. Positions of changes do not match.
        """
        return None

    @property
    def leaves_out(self) -> bool:
        """Return whether a record may lack unchanged fields of its table."""
        return False

    @property
    def compares_loads(self) -> bool:
        """Return whether a second full load must agree with the table, because files do not say when it was made."""
        return False

    @property
    def shard_column(self) -> str | None:
        """Return the column with the name of a record's shard; None without shards."""
        return None

    @property
    def own_fields(self) -> Mapping[str, str]:
        """Return the fields that the source adds to every record, with types; a declaration may name them."""
        return _NONE

    @property
    def addresses(self) -> Mapping[str, str]:
        """Return the server addresses among the settings, by setting; secrets in them are references."""
        return _NONE

    @property
    def event_time(self) -> str | None:
        """Return the field of ``own_fields`` with the time of a change, for tables that declare no time."""
        return None

    @property
    def made_columns(self) -> Mapping[str, str]:
        """Return columns that are made from bronze's own columns, not from fields; a declaration may name them."""
        return _NONE

    @property
    def before_prefix(self) -> str | None:
        """Return the prefix of fields with values before a change; None without such fields."""
        return None

    @property
    def row_texts(self) -> tuple[str, ...]:
        """Return the fields that contain whole rows as text."""
        return ()

    def delete_limit(self, position: str) -> float | None:
        """Return the share of rows that the truncate at a position may delete; None for no limit."""
        del position
        return None

    def landed_in(self, folder: str) -> SourceSpec | None:
        """Return the source with another landing folder; None if Frazil does not land its files."""
        del folder
        return None

    @property
    def retention_by(self) -> tuple[FoldBy, ...]:
        """Return what old changes can be ordered by when they are folded into a baseline; empty if they cannot be.

        ``time``: all records, truncates included, carry the columns of ``sequence_by``. ``place``: the source orders
        its changes and gives each a time.
        """
        return ()

    @property
    def ways_out_of_bad_rows(self) -> list[str]:
        """Return what to try if many records cannot be read, each as the rest of a sentence."""
        return []

    def places(self, name: str) -> list[str]:
        """Return all folders and patterns of the files of the table with this name."""
        del name
        return [path.rstrip("/") for paths in self.locations.values() for path in paths]

    def way_to_lost_rows(self, name: str) -> str:
        """Return how rows reach the table with this name if their changes never arrived."""
        del name
        return "have the source send these rows again, as changes or a new full load; frazil run"

    def problems(self, table: TableSpec, at: Path) -> Iterator[Problem]:
        """Yield what is wrong with these settings for a table; ``at`` is the path of the source."""
        del table, at
        yield from ()
