"""The delete and the create that Debezium makes of one change of key.

Both have one place in the log, which no other record has. In a topic, headers of the create name the old key; in files
without headers the create follows its delete. A create that is known to be one gets the old key, as an update with two
images has it: so the delete can be bound to the row that left (KEY-CHANGE).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from frazil.formats.json.text import NoObjectError, Pairs, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

    Keys = dict[str, str | None]

CREATES: Final = ("c", "create")
_OLD_KEY: Final = "__debezium.oldkey"
_STRUCT: Final = re.compile(r"Struct\{([^=,{}]+)=([^=,{}]*)\}")
"""How Kafka Connect writes a key of one column in a header, unless it was told to write JSON."""


@dataclass(slots=True)
class Deletes:
    """The last delete of each partition, in one file: its place and its key."""

    _last: dict[str, tuple[str, Keys]] = field(default_factory=dict)

    def see(self, partition: str, place: str, keys: Keys) -> None:
        """Remember a delete."""
        self._last[partition] = (place, keys)

    def at(self, partition: str, place: str) -> Keys | None:
        """Return the key of the delete at a place; None where the last one was elsewhere."""
        found, keys = self._last.get(partition, ("", None))
        return keys if found == place else None


def old_key(message: Mapping[str, Any]) -> Pairs | None:
    """Return the key that the headers of a create say its row had; None where they say none that can be read."""
    headers = message.get("headers")
    for one in headers if isinstance(headers, list) else ():
        if isinstance(one, list) and one[:1] == [_OLD_KEY] and isinstance(one[-1], str):
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
