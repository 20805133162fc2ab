"""Check a PostgreSQL server for problems before a capture fails."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from frazil.sources.capture import Looked
from frazil.sources.postgres.database.rules import Rules
from frazil.sources.postgres.database.server import Server, unwatched_key
from frazil.sources.postgres.errors import ServerSetupError
from frazil.spec.amount import counted, sized

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frazil.errors import FrazilError
    from frazil.sources.postgres.landed.landing import Landing
    from frazil.spec import Table

_MUCH_WAL_BYTES: Final = 2**30
_SKEW_SECONDS: Final = 60.0
_LONG_SECONDS: Final = 25 * 3600.0
"""A capture that runs each night is not reported."""

_APPLICATION: Final = "frazil"


def examine_server(url: str, declared: Sequence[Table], landing: Landing, where: str) -> Iterator[Looked]:
    """Yield current and imminent problems of a server, or a description of the server without problems.

    Args:
        url: address of the database.
        declared: declared tables that share the slot.
        landing: landing folder of the slot.
        where: name of the slot, for messages.

    Raises:
        ServerError: the server does not answer.
    """
    source = declared[0].source
    with Server(url) as server:
        state = landing.state()
        rules = Rules(server, declared, landing, where)
        broken: list[FrazilError] = []
        for rule in (rules.server, rules.published, rules.slot):
            broken += rule(state)
        rights = [*_rights(server, rules, source.publication)]
        if not rights:
            rules.verify_keys()
        broken += rules.stopped.values()
        has_loads = all(landing.loaded_at(*place) is not None for place in rules.tables)
        broken += [*rights, *_room(server, rules, has_loads=has_loads)]
        yield from (_told(error, where) for error in broken)
        soon = [*_slot(server, source.slot), *_stands_still(server, landing), *_unwatched(server, rules, declared)]
        soon += _clock(server)
        yield from soon
        if not broken and not soon:
            major = server.version // 10_000
            detail = f"PostgreSQL {major}, publication {source.publication}, {counted(len(rules.tables), 'table')}"
            generated = (f"{table.full_name}: {', '.join(table.generated)}" for table in rules.tables.values())
            if left_out := "; ".join(text for text in generated if not text.endswith(": ")):
                detail += f", without generated columns ({left_out})"
            yield Looked(ok=True, detail=detail if state else f"{detail}; nothing captured yet")


def _told(error: FrazilError, where: str) -> Looked:
    # The finding already has the name of the capture.
    message = error.message.removeprefix(f"{where}: ")
    return Looked(ok=False, detail=f"[{error.code}] {message}", hint=error.hint)


def _rights(server: Server, rules: Rules, publication: str) -> Iterator[FrazilError]:
    """Yield the privileges that the login lacks."""
    user = server.one("SELECT quote_ident(current_user)")
    if not server.one(_MAY_REPLICATE):
        yield ServerSetupError(
            f"role {user} lacks REPLICATION", hint=f"ALTER ROLE {user} REPLICATION, as a superuser of the server"
        )
    for table in rules.tables.values():
        hidden = [name for (name,) in server.rows(_HIDDEN, [*table.columns], table.schema, table.name)]
        if hidden:
            schema = server.one("SELECT quote_ident(%s)", table.schema)
            yield ServerSetupError(
                f"role {user} cannot read {table.full_name}",
                hint=f"GRANT USAGE ON SCHEMA {schema} TO {user}; GRANT SELECT ON {table.sql_name} TO {user}",
            )
    missing = rules.unpublished
    names = ", ".join(f"ONLY {table.sql_name}" if table.children else table.sql_name for table in missing)
    if missing and rules.has_publication:
        foreign = [one for one in missing if not server.one(_OWNS_TABLE, one.schema, one.name)]
        if foreign or not server.one(_OWNS_PUBLICATION, publication):
            yield ServerSetupError(
                f"publication {publication} lacks {missing[0].full_name}, and {user} does not own both",
                hint=f"let their owner do it: ALTER PUBLICATION {publication} ADD TABLE {names}",
            )
    elif missing:
        foreign = [one for one in missing if not server.one(_OWNS_TABLE, one.schema, one.name)]
        if foreign or not server.one("SELECT has_database_privilege(current_database(), 'CREATE')"):
            yield ServerSetupError(
                f"publication {publication} does not exist, and {user} may not create one of these tables",
                hint=f"let their owner do it: CREATE PUBLICATION {publication} FOR TABLE {names} "
                "WITH (publish_via_partition_root = true)",
            )


def _room(server: Server, rules: Rules, *, has_loads: bool) -> Iterator[FrazilError]:
    """Yield limits of the server that are too low for the slot and for the temporary slot of a load."""
    loads = 0 if has_loads else 1
    needed = {
        "max_replication_slots": loads + (rules.found_slot is None),
        "max_wal_senders": loads,
    }
    for setting, count in needed.items():
        most, used = int(server.one("SELECT current_setting(%s)", setting)), int(server.one(_USED[setting]))
        enough = used + count
        if most < enough:
            drop = "; or drop an unused slot: SELECT slot_name FROM pg_replication_slots WHERE NOT active"
            yield ServerSetupError(
                f"{used} of {setting} = {most} are in use, and {count} more {'is' if count == 1 else 'are'} needed",
                hint=f"ALTER SYSTEM SET {setting} = {enough}, then restart the server"
                + (drop if setting == "max_replication_slots" else ""),
            )


def _slot(server: Server, slot: str) -> Iterator[Looked]:
    """Yield imminent problems of the slot: another reader, or much retained WAL."""
    for pid, application, status, held in server.rows(_HELD, slot):
        if pid is not None and application != _APPLICATION:
            yield Looked(
                ok=None,
                detail=f"process {pid} of the server ({application or 'without a name'}) reads the slot now",
                hint="what it takes is missed here: stop it, or give it a slot of its own; at the server: "
                f"SELECT pg_terminate_backend({pid})",
            )
        if status == "unreserved":
            yield Looked(
                ok=None,
                detail="the server will soon remove WAL that the slot needs (max_slot_wal_keep_size)",
                hint="frazil capture at once, or ALTER SYSTEM SET max_slot_wal_keep_size = -1; SELECT pg_reload_conf()",
            )
        elif held is not None and held > _MUCH_WAL_BYTES:
            yield Looked(
                ok=None,
                detail=f"the slot holds back {sized(int(held))} of WAL",
                hint="let frazil capture run; a transaction that is open for long holds it too: SELECT pid, "
                "xact_start, query FROM pg_stat_activity ORDER BY xact_start; if nobody needs the slot: "
                f"SELECT pg_drop_replication_slot('{slot}')",
            )


def _unwatched(server: Server, rules: Rules, declared: Sequence[Table]) -> Iterator[Looked]:
    """Yield tables that may get several rows with one key, because no unique index covers the declared keys."""
    for one in declared:
        table = rules.tables.get(one.source.schema_and_name)
        if table is not None and (keys := unwatched_key(server, table, one)):
            names = server.one("SELECT string_agg(quote_ident(name), ', ') FROM unnest(%s::text[]) name", keys)
            yield Looked(
                ok=None,
                detail=f"no unique index of {table.full_name} watches over {', '.join(keys)}: of several rows with one "
                f"key table '{one.name}' has the last, and none once one of them is deleted",
                hint=f"CREATE UNIQUE INDEX ON {table.sql_name} ({names}); or declare the keys that name a row",
            )


def _clock(server: Server) -> Iterator[Looked]:
    ahead = time.time() - float(server.one("SELECT extract(epoch FROM clock_timestamp())"))
    if abs(ahead) > _SKEW_SECONDS:
        way = "ahead of" if ahead > 0 else "behind"
        yield Looked(
            ok=None,
            detail=f"this machine's clock is {abs(ahead) / 60:.0f} minutes {way} the server's",
            hint="set the clock that is wrong: frazil status shows lags that are off by as much; no row depends on it",
        )


def _stands_still(server: Server, landing: Landing) -> Iterator[Looked]:
    state, level_at = landing.state(), landing.level_at()
    if state is None or level_at is None or server.flushed() <= state.position:
        return
    if (age := time.time() - level_at) > _LONG_SECONDS:
        yield Looked(
            ok=None,
            detail=f"nothing was captured for {age / 3600:.0f} hours",
            hint="let frazil capture run, or frazil run more often",
        )


_MAY_REPLICATE: Final = """
SELECT rolreplication OR rolsuper OR EXISTS (
    SELECT FROM pg_roles s WHERE s.rolname = 'rds_replication' AND pg_has_role(s.oid, 'USAGE'))
FROM pg_roles WHERE rolname = current_user"""
"""On Amazon RDS a role replaces the attribute."""

_HIDDEN: Final = """
SELECT name FROM unnest(%s::text[]) AS name, pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s
    AND NOT (has_schema_privilege(n.oid, 'USAGE') AND has_column_privilege(c.oid, name, 'SELECT'))"""

_OWNS_TABLE: Final = """
SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s"""

_OWNS_PUBLICATION: Final = "SELECT pg_has_role(pubowner, 'USAGE') FROM pg_publication WHERE pubname = %s"

_USED: Final = {
    "max_replication_slots": "SELECT count(*) FROM pg_replication_slots",
    "max_wal_senders": "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'",
}

_HELD: Final = """
SELECT s.active_pid, a.application_name, s.wal_status, pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)
FROM pg_replication_slots s LEFT JOIN pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = %s"""
