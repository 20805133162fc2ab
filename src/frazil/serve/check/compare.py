"""Compare marts with the tables at their sources or with dumps of them, when asked and as a step of the pipeline.

A comparison reads the compared columns of a table once on both sides. A part of the keys would not cost less: buckets
of hashes need a look at every key. So the work of one run is bounded by time, and tables take turns.
"""

from __future__ import annotations

import datetime as dt
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import md5
from typing import TYPE_CHECKING, Final

from frazil.catalog.catalogs import NoLakeError
from frazil.catalog.trouble import translated
from frazil.duck import connect
from frazil.errors import DeclarationError, FrazilError
from frazil.formats.records import safe_name
from frazil.runner.past_runs import standing
from frazil.runner.report import VerifyReport
from frazil.serve.check.check import Silent
from frazil.serve.check.dump import bucket_of, comparison_form, digest_of, dump_rows, row_text_sql
from frazil.serve.check.explain import ERASED, FOREIGN, IN_FLIGHT, LOST, QUARANTINED, UNKNOWN, Explanation
from frazil.serve.check.finding import Finding, Look
from frazil.serve.check.marts import living_rows_sql
from frazil.serve.checks import LastChecks, keep_looks, keep_try, last_checks
from frazil.serve.layers import layers
from frazil.serve.tables import tables, verify_data_files
from frazil.sources.capture import Reloads
from frazil.sources.comparison import SEPARATOR, SUM_DIGITS, Compared
from frazil.sources.kinds import captures_of, rows_at_source
from frazil.spec import Current
from frazil.spec.amount import counted
from frazil.spec.contract import declared_columns, is_closed, on_new_column, previous_keys
from frazil.spec.sql.select import selected

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import duckdb

    from frazil.catalog.catalogs import Located
    from frazil.runner.options import Listener
    from frazil.runner.past_runs import PastFailure
    from frazil.serve.check.check import CheckListener
    from frazil.serve.layers import Layer, Layers
    from frazil.sources.comparison import SourceRows, Sums
    from frazil.spec import History, Pipeline, Table

    Mart = tuple[Current | History, Layer]

SETTINGS: Final = {"memory_limit": "1GB", "threads": "4"}
_LAW: Final = "SOURCE"
_KIND: Final = "a source of kind {} has changes only, without a table to compare"


class NothingToCompareError(DeclarationError):
    """No selected table has a source to compare with."""

    code = "FZ170"


def compare(
    pipeline: Pipeline, listener: CheckListener, *, select: Sequence[str] = (), against: str | None = None
) -> list[Look]:
    """Compare the living rows of each table with its source, or of one table with a dump.

    Both sides compute counts and sums of hashes in 4,096 buckets of keys. Buckets that differ are compared row by row,
    and each key that differs is explained. The first current mart of a table is compared, or else its history; AGREE
    covers the other marts.

    Args:
        pipeline: the declaration.
        listener: receives each comparison as it begins, and each finding.
        select: tables to compare, as for a run; empty for all.
        against: a dump to use instead of the source: a file, or a folder of files (CSV with header, JSON lines,
            Parquet), as a path or an address in an object store.

    Returns:
        A look for each table. ``ok`` of its finding is None if every difference is in flight, or if the table cannot
        be compared.

    Raises:
        NothingToCompareError: no selected table has a source to compare with, or several are selected for ``against``.
        NoLakeError: no table of the lake exists.
        SourceError: the source cannot be read.
        DamagedTableError: a file of the lake is missing or damaged.

    Cost: one scan of the compared columns on both sides. If rows differ, one or two more scans of the keys at the
    source, and one of the changes in DuckDB, with 1 GB of memory and temporary files beyond it.
    """
    names = selected(pipeline, select).tables
    chosen = [table for table in pipeline.tables if table.name in names]
    _verify(chosen, against)
    located = tables(pipeline)
    if not located:
        raise NoLakeError(pipeline.lake.warehouse)
    failures, looks = standing(pipeline, names).failures, []
    for table in chosen:
        look = _look(pipeline, table, located, against, listener)
        if failed := failures.get(table.name):
            look = replace(look, finding=_of_stopped(look.finding, failed[0]))
        listener.found(look.finding)
        looks.append(look)
    return looks


def _of_stopped(found: Finding, failure: PastFailure) -> Finding:
    """Return a finding with the failure that keeps changes from coming, and its way out, unless all rows are equal."""
    if found.ok:
        return found
    why = f"{found.detail}; its newest run failed ([{failure.code}] {failure.message})"
    return replace(found, detail=why, hint=failure.hint or "frazil run")


def _verify(chosen: Sequence[Table], against: str | None) -> None:
    if against is not None and len(chosen) != 1:
        raise NothingToCompareError(
            f"a dump is of one table, and {counted(len(chosen), 'table is', 'tables are')} selected",
            hint="name it: frazil check --against DUMP --select TABLE",
        )
    if against is None and not any(map(can_compare, chosen)):
        kinds = " and ".join(dict.fromkeys(table.source.kind for table in chosen))
        raise NothingToCompareError(
            _KIND.format(kinds), hint="compare with a dump of the table: frazil check --against DUMP --select TABLE"
        )


def not_compared(pipeline: Pipeline, *, select: Sequence[str] = ()) -> list[Finding]:
    """Return what ``frazil check`` does not prove: a table's source, and failures of its newest run.

    Args:
        pipeline: the declaration.
        select: tables, as for a run; empty for all.

    Returns:
        Findings whose ``ok`` is None: one for each failure of the newest run of a table, and one for each table, whose
        ``hint`` is the command that compares the table with its source.
    """
    names = selected(pipeline, select).tables
    failures = standing(pipeline, names).failures
    found = []
    for table in pipeline.tables:
        if table.name not in names:
            continue
        told = partial(Finding, source_table=table.name, law=_LAW, ok=None)
        for one in failures.get(table.name, ()):
            why = f"behind its source, because its newest run failed ([{one.code}] {one.message})"
            found.append(told(table=one.name, detail=why, hint=one.hint or "frazil run"))
        way = f"frazil check {'--source' if can_compare(table) else '--against DUMP'} --select {table.name}"
        found.append(told(table=table.name, detail="compared with its files, not with its source", hint=way))
    return found


def can_compare(table: Table) -> bool:
    """Return whether a table has rows at its source, and not changes only."""
    return rows_at_source(table) is not None


@contextmanager
def _opened(pipeline: Pipeline, table: Table, against: str | None) -> Iterator[SourceRows]:
    if against is not None:
        with dump_rows(pipeline, table, against) as dump:
            yield dump
    elif opener := rows_at_source(table):
        with opener(pipeline, table) as rows:
            yield rows


def _look(pipeline: Pipeline, table: Table, located: Located, against: str | None, listener: CheckListener) -> Look:
    began_at = dt.datetime.now(dt.UTC)

    def untold(why: str, hint: str | None = None) -> Look:
        finding = Finding(source_table=table.name, law=_LAW, table=table.name, ok=None, detail=why, hint=hint)
        return Look(finding=finding, began_at=began_at)

    if against is None and not can_compare(table):
        return untold(_KIND.format(table.source.kind), f"frazil check --against DUMP --select {table.name}")
    here = layers(pipeline, table, located)
    pairs = [pair for pair in here.marts if pair[1].exists and pair[1].snapshot.batch]
    if not pairs or not here.bronze.exists:
        return untold("nothing was applied to its marts yet", "frazil run")
    for layer in here.all:
        if layer.damage is not None:
            raise layer.damage
    pair = next((pair for pair in pairs if isinstance(pair[0], Current)), pairs[0])
    verify_data_files(pair[1].location or "")
    listener.began(table.name, f"{pair[1].name}: compare with the source")
    with translated(pipeline), connect(located, SETTINGS) as duck, _opened(pipeline, table, against) as rows:
        comparison = Comparison(pipeline, here, pair, rows, duck)
        found, differing = comparison.finding(lambda how_far: listener.progressed(table.name, how_far))
        if against is None and (waits := comparison.awaiting(found)) is not None:
            found, differing = waits, None
        return Look(finding=found, began_at=began_at, source=rows.name, differing=differing)


class Comparison:
    """Comparison of one mart with the rows at its source."""

    def __init__(
        self, pipeline: Pipeline, here: Layers, pair: Mart, rows: SourceRows, duck: duckdb.DuckDBPyConnection
    ) -> None:
        self._pipeline, self._here, self._pair, self._rows, self._duck = pipeline, here, pair, rows, duck
        types = self._types()
        forms = rows.forms(types)
        both = [
            Compared(name=name, type=kind, form=forms[name])
            for name, kind in types.items()
            if forms.get(name) == comparison_form(kind) is not None
        ]
        self._keys = [column for column in both if column.name in here.table.keys]
        self._columns = [*self._keys, *(column for column in both if column.name not in here.table.keys)]

    def _types(self) -> dict[str, str]:
        """Return the mart's columns, with their types, that are plain fields of the source and that the source has."""
        here, held = self._here, self._pair[1].snapshot.columns
        there = {name.lower() for name in self._rows.columns}
        treated = {column.name for column in here.table.columns or () if column.pii is not None}
        plain = {column.name for column in here.contract.columns if column.expr is None} - treated
        return {name: held[name] for name in here.columns_in(self._pair[1]) if name in plain and name.lower() in there}

    def finding(self, progressed: Callable[[str], None]) -> tuple[Finding, frozenset[str] | None]:
        """Compare both sides; return the finding and the buckets that differ, None if nothing was compared."""
        here = self._here
        if missing := [key for key in here.table.keys if key not in {column.name for column in self._keys}]:
            why = f"key {missing[0]} is made by an expression, has pii, or another type than at {self._rows.name}"
            return self._found(f"its rows cannot be identified at the source: {why}"), None
        progressed("count and hash at the source")
        theirs = self._rows.sums(self._keys, self._columns)
        progressed("count and hash here")
        ours = self._sums()
        buckets = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
        rows_here, rows_there = (sum(count for count, _ in side.values()) for side in (ours, theirs))
        compared = f"{counted(rows_here, 'row')} here, {rows_there:,} in {self._rows.name}{self._left_out()}"
        if not buckets:
            same = "the compared columns are equal" if "; not compared: " in compared else "all are the same"
            return self._found(f"{compared}; {same}", ok=True), frozenset()
        progressed(f"look into {counted(len(buckets), 'bucket')} that differ")
        explanation = Explanation(self._pipeline, here, self._pair, self._rows, self._duck)
        explanation.load(self._keys, self._columns, buckets)
        counts = explanation.explain(progressed)
        if counts.keys() == {ERASED}:
            gone = counted(counts[ERASED], "key that was erased here", "keys that were erased here")
            return self._found(f"{compared}; all are the same but {gone}", ok=True), frozenset()
        if not counts:  # no row differs any more: the source has changed its answer
            return self._found(f"{compared}; the source answers differently each time"), frozenset(buckets)
        said = ", ".join(f"{count:,} {why}" for why, count in counts.items())
        keys = counted(sum(counts.values()), "key differs", "keys differ")
        ok = None if counts.keys() <= {IN_FLIGHT, UNKNOWN, ERASED} else False
        finding = self._found(f"{compared}; {keys}: {said}", ok=ok, hint=_hint(counts, self._pipeline, here))
        return replace(finding, differences=explanation.differences()), frozenset(buckets)

    def _found(self, detail: str, *, ok: bool | None = None, hint: str | None = None) -> Finding:
        name = self._here.table.name
        return Finding(source_table=name, law=_LAW, table=self._pair[1].name, ok=ok, detail=detail, hint=hint)

    def _sums(self) -> Sums:
        mart, layer = self._pair
        key, row = row_text_sql(self._keys), row_text_sql(self._columns)
        found = self._duck.execute(
            f"SELECT {bucket_of(key)}, count(*), sum({digest_of(row)}) FROM {living_rows_sql(mart, layer)} GROUP BY 1"
        ).fetchall()
        return {bucket: (count, int(total)) for bucket, count, total in found}

    def awaiting(self, found: Finding) -> Finding | None:
        """Return a finding of equal rows as undecided, if values of the source have no column here, or another type.

        Such a column is new, renamed or retyped, and its values are not compared. Cost: one scan of new columns.
        """
        table, contract = self._here.table, self._here.contract
        compared = {*declared_columns(table), *(column.name for column in self._columns)}
        if found.ok and (retyped := [name for name, _ in contract.unheld if name not in compared]):
            detail = f"{found.detail}; the source gives {', '.join(retyped)} another type than the table has"
            return replace(found, ok=None, detail=detail, hint=_RETYPED)
        if not found.ok or is_closed(table) or on_new_column(table) != "evolve":
            return None
        known = {name.lower() for name in (*self._pair[1].snapshot.columns, *(name for name, _ in contract.fields))}
        awaited = sorted(name for name in self._rows.columns if safe_name(name).lower() not in known)
        if not awaited or not self._have_values(awaited):
            return None
        they = f"{', '.join(awaited)} {'has' if len(awaited) == 1 else 'have'}"
        hint = f"frazil run; if that does not bring it, {way_to_lost_rows(self._pipeline, table)}"
        return replace(found, ok=None, detail=f"{found.detail}; {they} not come here yet", hint=hint)

    def _have_values(self, names: Sequence[str]) -> bool:
        """Return True unless some columns of the source are NULL in all rows."""
        columns = [Compared(name=name, type="string", form="text") for name in names]
        of_null = md5(SEPARATOR.join(":" for _ in names).encode(), usedforsecurity=False).hexdigest()
        digest = int(of_null[:SUM_DIGITS], 16)
        return any(total != count * digest for count, total in self._rows.sums(columns, columns).values())

    def _left_out(self) -> str:
        """Return the columns that are not compared, as text."""
        layer = self._pair[1]
        compared = {column.name for column in self._columns}
        there = {name.lower() for name in self._rows.columns}
        source = self._here.table.source
        own = {*source.own_fields, *source.made_columns, *previous_keys(self._here.table)}
        missing = [name for name in self._here.columns_in(layer) if name not in compared | own]
        only_there = sorted(there - {name.lower() for name in layer.snapshot.columns})
        said = f"; not compared: {', '.join(missing)}" if missing else ""
        return f"{said}; only there: {', '.join(only_there)}" if only_there else said


_RETYPED: Final = "say evolution: {on_type_change: evolve}, or declare its type in columns; then frazil run"


def _hint(counts: Mapping[str, int], pipeline: Pipeline, here: Layers) -> str:
    """Return the hint for the gravest reason."""
    table = here.table
    if FOREIGN in counts:
        return f"rebuild the marts from bronze: frazil run --full-refresh --select {table.name}"
    if LOST in counts:
        return way_to_lost_rows(pipeline, table)
    if QUARANTINED in counts:
        usual = f"frazil quarantine --select {table.name} shows why; fix the declaration or the source"
        return "; ".join(here.retyped) or usual
    return "frazil run applies what is in flight"


def way_to_lost_rows(pipeline: Pipeline, table: Table) -> str:
    """Return the hint for rows whose changes never arrived."""
    if any(isinstance(capture, Reloads) for capture in captures_of(pipeline, [table.name])):
        return f"read the table again: frazil capture --reload {table.name}; frazil run"
    way: str = table.source.way_to_lost_rows(table.name)
    return way


_TRIES: Final = 4
"""A table that is not found equal is compared again after this part of ``every``."""
_SECONDS: Final = 60.0
"""After so long no other comparison begins."""
_NEVER: Final = dt.datetime.min.replace(tzinfo=dt.UTC)


def due(
    pipeline: Pipeline, names: Collection[str], checks: Mapping[str, LastChecks], now: dt.datetime
) -> Sequence[Table]:
    """Return the tables to compare now, the one whose last comparison is longest ago first.

    Args:
        pipeline: the declaration.
        names: source tables to choose from.
        checks: what is known of them.
        now: the time.
    """
    if pipeline.verify is None:
        return ()
    every, found = pipeline.verify.span, []
    for table in pipeline.tables:
        if table.name in names and can_compare(table):
            known = checks.get(table.name, LastChecks()).verified
            tried_at, at = (known.tried_at, known.at or _NEVER) if known else (_NEVER, _NEVER)
            if now - at >= every and now - tried_at >= every / _TRIES:
                found.append((tried_at, table))
    return [table for _, table in sorted(found, key=lambda one: one[0])]


def verify(
    pipeline: Pipeline,
    names: Collection[str],
    listener: Listener | None = None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> list[VerifyReport]:
    """Compare the tables that are due with their sources; keep the results; never raise.

    Args:
        pipeline: the declaration.
        names: source tables to choose from.
        listener: receives progress.
        clock: time in seconds. After a minute no other comparison begins.

    Returns:
        A report for each comparison.

    Cost: reads one small file if no table is due; else for each table as :func:`frazil.serve.check.compare.compare`.
    """
    until, reports = clock() + _SECONDS, list[VerifyReport]()
    for table in due(pipeline, names, last_checks(pipeline), dt.datetime.now(dt.UTC)):
        if reports and clock() >= until:
            break
        reports.append(_verified(pipeline, table.name, listener))
    return reports


def _verified(pipeline: Pipeline, name: str, listener: Listener | None) -> VerifyReport:
    began_at, since = dt.datetime.now(dt.UTC), time.monotonic()
    made = VerifyReport(table=name)
    try:
        looks = compare(pipeline, _Progress(listener), select=[name])
        keep_looks(pipeline, looks)
        finding = looks[0].finding
        made.ok, made.detail, made.hint = finding.ok, finding.detail, finding.hint
    except Exception as error:  # noqa: BLE001 - the load is done, and nothing of it is wrong
        keep_try(pipeline, name, began_at)
        made.code = error.code if isinstance(error, FrazilError) else FrazilError.code
        made.detail, made.hint = _first_line(error), getattr(error, "hint", None)
    made.seconds = time.monotonic() - since
    return made


def _first_line(error: Exception) -> str:
    if isinstance(error, FrazilError):
        return error.message
    return next(iter(f"{error}".splitlines()), type(error).__name__)


class _Progress(Silent):
    """Tells a run's listener of comparisons, as work of one name."""

    def __init__(self, listener: Listener | None) -> None:
        self._listener = listener

    def began(self, table: str, what: str) -> None:
        del table
        if self._listener is not None:
            self._listener.began("verify", what)

    def progressed(self, table: str, how_far: str) -> None:
        del table
        if self._listener is not None:
            self._listener.progressed("verify", how_far)
