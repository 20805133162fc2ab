"""The rules over a table's source: what its settings mean for one another and for the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.spec.check.kinds.audit_log import audit_log_problems
from frazil.spec.check.kinds.debezium import debezium_problems
from frazil.spec.check.kinds.dms import dms_problems
from frazil.spec.check.kinds.handover import changes_table, handover_problems
from frazil.spec.check.kinds.postgres import postgres_problems
from frazil.spec.check.kinds.sharded import shard_tables, sharded_problems
from frazil.spec.check.kinds.snapshot import snapshot_problems
from frazil.spec.load.problem import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.model.pipeline import Table


def source_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Find what is wrong with the source of one table; ``at`` is the path of the source."""
    for setting, paths in table.source.locations.items():
        if not all(path.strip() for path in paths):
            yield Problem((*at, setting), f"an empty {setting} in the source of table '{table.name}'")
    shards = shard_tables(table)
    if shards:
        yield from sharded_problems(table, at)
    parts = [((*at, "shards", name), one) for name, one in shards.items()]
    if (changes := changes_table(table)) is not None:
        yield from handover_problems(table, at)
        snapshots = table.model_copy(update={"source": table.source.snapshots})
        parts += [((*at, "changes"), changes), ((*at, "snapshots"), snapshots)]
    for here, one in parts or ((at, table),):
        yield from _RULES.get(one.source.kind, _no_rules)(one, here)


def _no_rules(table: Table, at: Path) -> Iterator[Problem]:
    del table, at
    yield from ()


_RULES: Final = {
    "audit_log": audit_log_problems,
    "debezium": debezium_problems,
    "dms": dms_problems,
    "postgres": postgres_problems,
    "snapshot": snapshot_problems,
}
"""``kind`` of a source -> the rules of this kind alone."""
