"""Find the two events of a change of key: Debezium writes a delete of the old key and a create of the new one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from frazil.formats.json_lines import NoObjectError, Pairs, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

    Keys = dict[str, str | None]

_OTHER_KEYS: Final = ("__debezium.oldkey", "__debezium.newkey")
"""Headers of the create and of the delete that Debezium makes of a change of key."""
_STRUCT: Final = re.compile(r"Struct\{([^=,{}]+)=([^=,{}]*)\}")
"""A key of one column in a header, as Kafka Connect writes it unless it is configured for JSON."""


@dataclass(slots=True)
class Deletes:
    """The last delete of each partition in a file, to find the old key of a change of key.

    Debezium writes a change of key as a delete and a create with the same place in the log. In a topic the headers of
    the create have the old key; in files without headers the create follows its delete. The create gets the old key, so
    that it can end the row that left (KEY-CHANGE).
    """

    _last: dict[str, tuple[str, Keys]] = field(default_factory=dict)

    def see(self, partition: str, place: str, keys: Keys) -> None:
        """Remember a delete.

        Args:
            partition: partition of the record.
            place: place of the delete.
            keys: key column -> value of the deleted row.
        """
        self._last[partition] = (place, keys)

    def take(self, partition: str, place: str) -> Keys | None:
        """Return the key of the delete at ``place`` for the first create behind it; None if it has another place."""
        found, keys = self._last.pop(partition, ("", None))
        return keys if found == place else None


def other_key(message: Mapping[str, Any], *, is_delete: bool) -> Pairs | None:
    """Return the key that the headers name of the other record; None where they name none that can be read."""
    name = _OTHER_KEYS[is_delete]
    headers = message.get("headers")
    for one in headers if isinstance(headers, list) else ():
        if isinstance(one, list) and one[:1] == [name] and isinstance(one[-1], str):
            return _key(one[-1])
    return None


def _key(text: str) -> Pairs | None:
    if told := _STRUCT.fullmatch(text):
        return Pairs([(told[1], told[2])])
    try:
        found = parsed(text)
    except NoObjectError:
        return None
    return found if isinstance(found, Pairs) else None
