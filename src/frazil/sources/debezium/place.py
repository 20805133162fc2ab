"""Places of changes as sortable text, and the servers that wrote them, from the ``source`` block of a record."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from frazil.sources.trail import Mark

if TYPE_CHECKING:
    from collections.abc import Mapping

_DIGITS: Final = 20
READS_FIRST: Final = f"{'0' * _DIGITS}/0/"
"""Prefix of the places of snapshot reads that only have a time."""
BEFORE_CHANGES: Final = f"{'0' * _DIGITS}/1/"
"""Prefix of the place of a record without a place, if no record precedes it: older than every change of a log."""
APART: Final = "//"
"""What stands in a position between the place of a record in its topic or file and :func:`number_of`."""
_READ: Final = frozenset({"true", "first", "first_in_data_collection", "last_in_data_collection", "last"})
"""Values of ``snapshot`` for reads that come before all changes of their position; incremental reads are changes."""
_LAST_READ: Final = frozenset({"last_in_data_collection", "last"})


def place_of(source: Mapping[str, Any]) -> str | None:
    """Return the place of a change as sortable text; None if the record has none.

    The place consists of:

    - PostgreSQL: the last commit before the transaction, then the record;
    - MySQL and MariaDB: file and position of the binlog;
    - SQL Server, Db2 and Informix: the commit;
    - Oracle: the commit, then the change;
    - other databases: the time in the database; snapshot reads come before all changes.

    Records of one place are ordered by their topic or file: see :func:`number_of`.

    Args:
        source: fields of the block ``source``, as texts.
    """
    read = "0" if str(source.get("snapshot")).lower() in _READ else "1"
    if _number(source.get("lsn")) is not None:
        commit = _last_commit(source.get("sequence"))
        lsn = source["lsn"]
        return f"{_padded(lsn if commit is None or read == '0' else commit)}/{read}/{_padded(lsn)}"
    if source.get("file") and _number(source.get("pos")) is not None:
        return f"{_binlog(str(source['file']))}/{_padded(source['pos'])}/{read}"
    if source.get("commit_lsn"):
        # Informix writes a number, the others digits of one length.
        number = _number(source["commit_lsn"])
        return f"{source['commit_lsn'] if number is None else _padded(number)}/{read}"
    if _number(source.get("scn")) is not None:
        commit = source.get("commit_scn") if _number(source.get("commit_scn")) is not None else source["scn"]
        return f"{_padded(commit)}/{read}/{_padded(source['scn'])}"
    micros = micros_of(source)
    if micros is None:
        return None
    # A read has the time of the read, not of a change: if places are times, reads come before all changes.
    return f"{READS_FIRST}{_padded(micros)}" if read == "0" else f"{_padded(micros)}/{read}"


def number_of(source: Mapping[str, Any]) -> str:
    """Return the text that tells the records of one place apart; empty where each has a place of its own.

    It does not order them. ``row`` and ``ssn`` count again from 0 with each statement of a transaction: those of a
    compressed transaction of MySQL share one position. SQL Server orders the changes of a commit by ``__$command_id``,
    which Debezium reads by and does not tell. The topic or file has all of them in their order.
    """
    if _number(source.get("lsn")) is not None:
        return ""
    if source.get("file") and _number(source.get("pos")) is not None:
        return str(source.get("row") or 0)
    if source.get("commit_lsn"):
        return f"{source.get('change_lsn') or ''}.{source.get('event_serial_no') or 0}"
    return str(source.get("ssn") or 0) if _number(source.get("scn")) is not None else ""


def event_of(position: str) -> str:
    """Write what the records of one change have in common: their place in the database, and their number.

    Args:
        position: SQL of a position, for Spark and DuckDB.
    """
    number = f"{APART}[^/]*"
    at = rf"/([0-9]{{6}}/[0-9]{{20}}({number})?|[^/]*/[0-9]{{20}}{number}|[^/]*)$"
    return f"concat(regexp_replace({position}, '{at}', ''), regexp_extract({position}, '({number})$', 1))"


def lacks_place(source: Mapping[str, Any]) -> bool:
    """Return True for an incremental read without a place, in a database that has places.

    Its place is the place of the record before it in the file or topic.
    """
    if str(source.get("snapshot")).lower() != "incremental":
        return False
    told = [_number(source.get(name)) for name in ("lsn", "scn", "pos")]
    has_place = any(told) or bool(source.get("commit_lsn"))
    return not has_place and any(name in source for name in ("lsn", "scn", "pos", "commit_lsn"))


def ends_snapshot(source: Mapping[str, Any]) -> bool:
    """Return True for the last read of a table in a snapshot of all its rows, if places tell snapshots apart."""
    return str(source.get("snapshot")).lower() in _LAST_READ and commit_order(source) is not None


def has_own_place(source: Mapping[str, Any]) -> bool:
    """Return True if the place belongs to one change only.

    Several changes may share a time, or an SCN of Oracle without a change number (``ssn``).
    """
    is_numbered = _number(source.get("scn")) is None or bool(_number(source.get("ssn")))
    return is_numbered and commit_order(source) is not None


def after_read(place: str) -> str:
    """Return the place of a record that follows ``place`` in its file or topic; after a timed read it is a change."""
    return f"{place.removeprefix(READS_FIRST)}/1" if place.startswith(READS_FIRST) else place


def micros_of(source: Mapping[str, Any]) -> int | None:
    """Return the time of a change in microseconds since 1970; None if the record has none."""
    for field, factor, divisor in (("ts_us", 1, 1), ("ts_ns", 1, 1000), ("ts_ms", 1000, 1)):
        if (told := _number(source.get(field))) is not None:
            return told * factor // divisor
    return None


def commit_order(source: Mapping[str, Any]) -> bool | None:
    """Return True if the places of a server follow its commits and never go back; None if the place is a time.

    A PostgreSQL record without the last commit, or an Oracle record without its commit, may sort before a record that
    was committed earlier.
    """
    is_read = str(source.get("snapshot")).lower() in _READ
    if _number(source.get("lsn")) is not None:
        return is_read or _last_commit(source.get("sequence")) is not None
    if (source.get("file") and _number(source.get("pos")) is not None) or source.get("commit_lsn"):
        return True
    if _number(source.get("scn")) is not None:
        return is_read or _number(source.get("commit_scn")) is not None
    return None


def _last_commit(sequence: Any) -> str | None:
    """Return the commit from ``["commit","lsn"]``, JSON in a text."""
    try:
        first = json.loads(sequence)[0] if sequence else None
    except (ValueError, IndexError, TypeError, KeyError):
        return None
    return None if _number(first) is None else str(first)


def _binlog(name: str) -> str:
    return re.sub(r"\d+$", lambda found: found[0].rjust(_DIGITS, "0"), name)


def _number(value: Any) -> int | None:
    text = "" if value is None else str(value)
    return int(text) if re.fullmatch(r"[0-9]{1,20}", text) else None


def _padded(value: Any) -> str:
    return str(value).rjust(_DIGITS, "0")


_GTID: Final = re.compile(r"([0-9a-fA-F-]{36}|\d+-\d+)[:-]")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


def mark_of(source: Mapping[str, Any], place: str | None) -> Mark | None:
    """Return server and place from a block ``source``; None if the place is only a time.

    MySQL and MariaDB name the server and the server of the GTID. PostgreSQL, SQL Server, Db2 and Oracle name no server;
    there a move shows as places that go back while times go on. Incremental snapshots run beside the changes and are
    ignored.
    """
    in_order = commit_order(source)
    snapshot = str(source.get("snapshot")).lower()
    if place is None or in_order is None or snapshot == "incremental":
        return None
    server = _server(source) if snapshot in {"none", "false", ""} else None
    return Mark(place, micros_of(source), server, in_order)


def stream_of(message: Mapping[str, Any]) -> tuple[str, int | None]:
    """Return topic and partition of a message, and its offset; empty and None for a record without them."""
    partition, offset = message.get("partition"), str(message.get("offset"))
    if partition is None or _NUMBER.fullmatch(offset) is None:
        return "", None
    return f"{message.get('topic') or ''}/{partition}", int(offset)


def _server(source: Mapping[str, Any]) -> str | None:
    """Return the number of a server and the origin of its GTID."""
    number, gtid = str(source.get("server_id") or "0"), _GTID.match(str(source.get("gtid") or ""))
    parts = (None if number == "0" else number, gtid and gtid[1])
    return "/".join(part for part in parts if part) or None
