"""What an event of Debezium says of the server that wrote it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from frazil.sources.debezium.place import commit_order, micros_of
from frazil.sources.trail import Mark

if TYPE_CHECKING:
    from collections.abc import Mapping

_GTID: Final = re.compile(r"([0-9a-fA-F-]{36}|\d+-\d+)[:-]")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


def mark_of(source: Mapping[str, Any], place: str | None) -> Mark | None:
    """Return what a block ``source`` says of its server; None where its place is only a time.

    MySQL and MariaDB name the server, and that of the GTID. PostgreSQL, SQL Server, Db2 and Oracle name none: there a
    move shows where places go back while times go on. An incremental snapshot reads beside the changes, and says
    nothing of it.
    """
    in_order = commit_order(source)
    snapshot = str(source.get("snapshot")).lower()
    if place is None or in_order is None or snapshot == "incremental":
        return None
    server = _server(source) if snapshot in {"none", "false", ""} else None
    return Mark(place, micros_of(source), server, in_order)


def stream_of(message: Mapping[str, Any]) -> tuple[str, int | None]:
    """Return topic and partition of a message, and its offset; empty and None for a record without."""
    partition, offset = message.get("partition"), str(message.get("offset"))
    if partition is None or _NUMBER.fullmatch(offset) is None:
        return "", None
    return f"{message.get('topic') or ''}/{partition}", int(offset)


def _server(source: Mapping[str, Any]) -> str | None:
    """Return the number of a server and the origin of its GTID."""
    number, gtid = str(source.get("server_id") or "0"), _GTID.match(str(source.get("gtid") or ""))
    parts = (None if number == "0" else number, gtid and gtid[1])
    return "/".join(part for part in parts if part) or None
