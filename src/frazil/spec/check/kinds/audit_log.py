"""The rules over an audit log: what its settings mean for one another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.spec.contract import repeated
from frazil.spec.load.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.model.pipeline import Table

_OF_A_DATABASE: Final = ("log", "landing", "xid")
_COLUMNS: Final = ("event_id", "operation", "timestamp", "schema_name", "table_name", "data", "old_data", "xid")


def audit_log_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Find what is wrong with the source of a table whose kind is ``audit_log``; ``at`` is the path of the source."""
    source, whose = table.source, f"the source of table '{table.name}'"
    if (source.path is None) == (source.url is None):
        what = "neither path nor url" if source.path is None else "both path and url"
        yield Problem(at, f"{whose} has {what}", "write path for files of the log, or url and log for its database")
    elif source.path is not None:
        for setting in _OF_A_DATABASE:
            if getattr(source, setting) is not None:
                yield Problem((*at, setting), f"{setting} of {whose} has no use without url", "leave it out")
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
