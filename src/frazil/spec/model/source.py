"""Base class of declared sources; the kinds are in ``kinds``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BeforeValidator

from frazil.spec.model.base import Spec

if TYPE_CHECKING:
    from collections.abc import Mapping

_NONE: Final[Mapping[str, str]] = MappingProxyType({})

Paths = Annotated[
    tuple[str, ...],
    BeforeValidator(
        lambda value: (value,) if isinstance(value, str) else value,
        json_schema_input_type=str | tuple[str, ...],
    ),
]


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
