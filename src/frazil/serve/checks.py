"""The last results of checks, in one file below the warehouse: people see them without another proof."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from frazil.audit.run_files import read_kept_file, write_file
from frazil.errors import SetupError, StorageError
from frazil.serve.query.plain import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from frazil.serve.check.finding import Finding
    from frazil.spec import Pipeline

_SORT: Final = "checks"
_FILE: Final = "latest.json"
LAWS, SOURCE = "laws", "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """Result of one check of a table.

    Attributes:
        at: when it ended, in UTC.
        held, failed, undecided: numbers of its proofs, or of its comparisons with the source.
    """

    at: dt.datetime
    held: int = 0
    failed: int = 0
    undecided: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LastChecks:
    """The last checks of a table.

    Attributes:
        laws: of ``frazil check``; None if it never ran.
        source: of ``frazil check --source``; None if it never ran.
    """

    laws: Checked | None = None
    source: Checked | None = None


def keep_results(pipeline: Pipeline, sort: str, findings: Iterable[Finding]) -> None:
    """Keep the numbers of a check's results for each of its tables; without a right to write, keep nothing.

    Two checks that end at the same moment may keep the results of one only.

    Args:
        pipeline: the declaration.
        sort: :data:`LAWS` or :data:`SOURCE`.
        findings: of the check.

    Cost: reads and writes one small file.
    """
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    names: dict[str, list[bool | None]] = {}
    for finding in findings:
        names.setdefault(finding.source_table, []).append(finding.ok)
    if not names:
        return
    kept = read_kept_file(pipeline, _SORT, _FILE) or {}
    for name, ended in names.items():
        made = Checked(at=now, held=ended.count(True), failed=ended.count(False), undecided=ended.count(None))
        kept[name] = {**_mapping(kept.get(name)), sort: plain(made)}
    with suppress(OSError, StorageError, SetupError):
        write_file(pipeline, _SORT, _FILE, json.dumps(kept, indent=1, ensure_ascii=False).encode())


def last_checks(pipeline: Pipeline) -> dict[str, LastChecks]:
    """Return the last checks of each table and aggregate that was ever checked.

    Cost: reads one small file.
    """
    kept = read_kept_file(pipeline, _SORT, _FILE) or {}
    return {
        name: LastChecks(laws=_checked(_mapping(of).get(LAWS)), source=_checked(_mapping(of).get(SOURCE)))
        for name, of in kept.items()
    }


def _checked(kept: Any) -> Checked | None:
    try:
        numbers = {name: int(kept[name]) for name in ("held", "failed", "undecided")}
        return Checked(at=dt.datetime.fromisoformat(kept["at"]), **numbers)
    except (KeyError, TypeError, ValueError):
        return None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
