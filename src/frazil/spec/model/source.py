"""What a declaration says of where changes come from, whatever the kind; each kind stands in ``kinds``."""

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
    """What is declared of a source, whatever its kind; each kind is a subclass.

    What a kind reads, and how, is :class:`frazil.sources.base.Source`'s; here stands what follows from a declaration
    alone.
    """

    kind: str

    @property
    @abstractmethod
    def locations(self) -> dict[str, tuple[str, ...]]:
        """Return the folders and patterns that files are looked for in, by setting."""

    @property
    @abstractmethod
    def operation_field(self) -> str | None:
        """Return the field that says what a record does; None where no single one does."""

    @property
    @abstractmethod
    def orders_records(self) -> bool:
        """Return whether records say their own place, so that the places of their files do not matter."""

    @property
    def named_delivery(self) -> str | None:
        """Return a pattern whose first group tells by the path of a file when, or whence, its writer wrote it.

        The same bytes under names that tell two of these are two files, each with changes of its own. None: the names
        of files tell nothing, and the same bytes are one file.
        """
        return None

    @property
    def server_places(self) -> bool:
        """Return whether the places of records belong to one server, and begin again where the source moves."""
        return False

    @property
    @abstractmethod
    def types_fields(self) -> bool:
        """Return whether fields come with types; else they are text."""

    @abstractmethod
    def field_names(self, declared: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the fields of files that name none, in file order; None where all files name theirs.

        Args:
            declared: names of the declared columns without ``expr``, for a source that does not list the fields itself.
        """

    @property
    @abstractmethod
    def meaning(self) -> dict[str, Any]:
        """Return the settings that the changes made of records depend on; if one changes, silver is rebuilt."""

    @abstractmethod
    def is_bookkeeping(self, field: str) -> bool:
        """Return whether a field is the source's own, not the table's: it stays in bronze unless it is declared."""

    @property
    def truncates(self) -> bool:
        """Return whether a record may say that the whole table was emptied."""
        return False

    @property
    def snapshot_places(self) -> str | None:
        """Return a LIKE pattern of the positions of rows that a snapshot brings behind its own truncate; None for none.

        The position of such a row begins with that of the truncate. No position of a change is like it.
        """
        return None

    @property
    def leaves_out(self) -> bool:
        """Return whether a record may lack fields that its table has, because they did not change."""
        return False

    @property
    def shard_column(self) -> str | None:
        """Return the column with the name of the shard a record is of; None where there are no shards."""
        return None

    @property
    def own_fields(self) -> Mapping[str, str]:
        """Return the fields that the source adds to every record, with their types; a declaration may name them."""
        return _NONE

    @property
    def addresses(self) -> Mapping[str, str]:
        """Return the addresses of servers among the settings, by setting; a secret in one is a reference."""
        return _NONE

    @property
    def event_time(self) -> str | None:
        """Return which of ``own_fields`` says when a change happened, for tables that declare no time."""
        return None

    @property
    def made_columns(self) -> Mapping[str, str]:
        """Return columns that no field holds -> the column of bronze that does; a declaration may name them."""
        return _NONE

    @property
    def before_prefix(self) -> str | None:
        """Return how the names of fields begin that hold a value of before the change; None where there are none."""
        return None

    @property
    def row_texts(self) -> tuple[str, ...]:
        """Return the fields that hold whole rows as text, beside the fields of the rows."""
        return ()

    def delete_limit(self, position: str) -> float | None:
        """Return the share of the rows that the truncate at a position may delete; None where it may delete all."""
        del position
        return None

    def landed_in(self, folder: str) -> SourceSpec | None:
        """Return the same source with another landing folder; None where Frazil lands nothing for it."""
        del folder
        return None
