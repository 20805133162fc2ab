"""The last results of checks, in one file below the warehouse: people see them without another proof.

A table that changes while it is compared is seldom equal as a whole, because changes are on their way. So a round of
comparisons keeps the buckets of keys that it has not found equal yet. When none is left, each row was found equal at
some time after the round began, and the mark moves to its beginning.
"""

from __future__ import annotations

import datetime as dt
import json
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from frazil.audit.run_files import read_kept_file, write_file
from frazil.errors import SetupError, StorageError
from frazil.serve.query.plain import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from frazil.serve.check.finding import Finding, Look
    from frazil.spec import Pipeline, Verify

_SORT: Final = "checks"
_FILE: Final = "latest.json"
LAWS, SOURCE = "laws", "source"
_VERIFIED, _ROUND = "verified", "round"


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
class Verified:
    """Up to when a table was found equal to its source; times in UTC.

    Attributes:
        tried_at: when the newest comparison began, whatever became of it.
        since: when the first comparison began, if none found the table equal yet.
        at: each row was found equal at this time or later; None if that never happened.
        source: table and position at the source at that time, for people.
    """

    tried_at: dt.datetime
    since: dt.datetime
    at: dt.datetime | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Comparisons that have not found every bucket of keys equal yet.

    Attributes:
        at, source: as in :class:`Verified`, of its first comparison.
        open: buckets that differed each time.
    """

    at: dt.datetime
    source: str
    open: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastChecks:
    """The last checks of a table.

    Attributes:
        laws: of ``frazil check``; None if it never ran.
        source: of ``frazil check --source``; None if it never ran.
        verified: up to when the table was found equal to its source; None if it was never compared.
        is_behind: with ``verify``, whether that is longer ago than twice ``every``.
    """

    laws: Checked | None = None
    source: Checked | None = None
    verified: Verified | None = None
    is_behind: bool = False


def after_look(before: Verified | None, open_round: Round | None, look: Look) -> tuple[Verified, Round | None]:
    """Return what is known of a table, and its open round, after a comparison.

    Args:
        before: what was known; None before the first comparison.
        open_round: the round that is not finished; None without one.
        look: the comparison.
    """
    known = after_try(before, look.began_at)
    if look.differing is None:
        return known, open_round
    if not look.differing:
        return replace(known, at=look.began_at, source=look.source), None
    first = open_round or Round(at=look.began_at, source=look.source, open=look.differing)
    left = first.open & look.differing
    if left:
        return known, replace(first, open=left)
    return replace(known, at=first.at, source=first.source), None


def is_behind(verify: Verify | None, known: Verified | None, now: dt.datetime) -> bool:
    """Return whether a table was not found equal to its source for twice as long as it should be."""
    return verify is not None and known is not None and now - (known.at or known.since) > 2 * verify.span


def after_try(before: Verified | None, at: dt.datetime) -> Verified:
    """Return what is known of a table after a comparison that could not look at it."""
    return Verified(tried_at=at, since=at) if before is None else replace(before, tried_at=at)


def keep_results(pipeline: Pipeline, sort: str, findings: Iterable[Finding]) -> None:
    """Keep the numbers of a check's results for each of its tables; without a right to write, keep nothing.

    Two checks that end at the same moment may keep the results of one only.

    Args:
        pipeline: the declaration.
        sort: :data:`LAWS` or :data:`SOURCE`.
        findings: of the check.

    Cost: reads and writes one small file.
    """
    found = [*findings]
    if found:
        _change(pipeline, lambda kept: _add_results(kept, sort, found))


def keep_looks(pipeline: Pipeline, looks: Iterable[Look]) -> None:
    """Keep comparisons with the source, as :func:`keep_results` does, and move the marks of their tables."""
    found = [*looks]

    def add(kept: dict[str, Any]) -> None:
        _add_results(kept, SOURCE, [look.finding for look in found])
        for look in found:
            own = dict(_mapping(kept[look.finding.source_table]))
            known, open_round = after_look(_verified(own.get(_VERIFIED)), _round(own.pop(_ROUND, None)), look)
            own[_VERIFIED] = plain(known)
            if open_round is not None:
                own[_ROUND] = plain({"at": open_round.at, "source": open_round.source, "open": sorted(open_round.open)})
            kept[look.finding.source_table] = own

    if found:
        _change(pipeline, add)


def keep_try(pipeline: Pipeline, table: str, at: dt.datetime) -> None:
    """Keep that a comparison of a table was tried and came to nothing."""

    def add(kept: dict[str, Any]) -> None:
        own = _mapping(kept.get(table))
        kept[table] = {**own, _VERIFIED: plain(after_try(_verified(own.get(_VERIFIED)), at))}

    _change(pipeline, add)


def last_checks(pipeline: Pipeline) -> dict[str, LastChecks]:
    """Return the last checks of each table and aggregate that was ever checked.

    Cost: reads one small file.
    """
    kept, now = read_kept_file(pipeline, _SORT, _FILE) or {}, dt.datetime.now(dt.UTC)
    return {name: _last(pipeline, _mapping(of), now) for name, of in kept.items()}


def _last(pipeline: Pipeline, kept: Mapping[str, Any], now: dt.datetime) -> LastChecks:
    known = _verified(kept.get(_VERIFIED))
    return LastChecks(
        laws=_checked(kept.get(LAWS)),
        source=_checked(kept.get(SOURCE)),
        verified=known,
        is_behind=is_behind(pipeline.verify, known, now),
    )


def _add_results(kept: dict[str, Any], sort: str, findings: Iterable[Finding]) -> None:
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    names: dict[str, list[bool | None]] = {}
    for finding in findings:
        names.setdefault(finding.source_table, []).append(finding.ok)
    for name, ended in names.items():
        made = Checked(at=now, held=ended.count(True), failed=ended.count(False), undecided=ended.count(None))
        kept[name] = {**_mapping(kept.get(name)), sort: plain(made)}


def _change(pipeline: Pipeline, add: Callable[[dict[str, Any]], None]) -> None:
    kept = dict(read_kept_file(pipeline, _SORT, _FILE) or {})
    add(kept)
    with suppress(OSError, StorageError, SetupError):
        write_file(pipeline, _SORT, _FILE, json.dumps(kept, indent=1, ensure_ascii=False).encode())


def _checked(kept: Any) -> Checked | None:
    try:
        numbers = {name: int(kept[name]) for name in ("held", "failed", "undecided")}
        return Checked(at=dt.datetime.fromisoformat(kept["at"]), **numbers)
    except (KeyError, TypeError, ValueError):
        return None


def _verified(kept: Any) -> Verified | None:
    try:
        at = None if kept["at"] is None else dt.datetime.fromisoformat(kept["at"])
        tried_at, since = (dt.datetime.fromisoformat(kept[name]) for name in ("tried_at", "since"))
        return Verified(tried_at=tried_at, since=since, at=at, source=f"{kept['source']}")
    except (KeyError, TypeError, ValueError):
        return None


def _round(kept: Any) -> Round | None:
    try:
        at = dt.datetime.fromisoformat(kept["at"])
        return Round(at=at, source=f"{kept['source']}", open=frozenset(map(str, kept["open"])))
    except (KeyError, TypeError, ValueError):
        return None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
