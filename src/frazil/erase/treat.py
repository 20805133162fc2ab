"""Replace values that the lake stored before their columns declared ``pii``: law ERASE for columns.

One commit rewrites bronze. Silver and marts are then rebuilt from it, and every file that the newest snapshots do not
need is removed. The lake ends as if the declaration had ``pii`` from the beginning.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from frazil.audit.certificates import Certifying
from frazil.bronze import record as r
from frazil.bronze.pii import MADE_BY, Treatment, treatment_of, verify_key
from frazil.erase.job import EraseJob
from frazil.erase.keys import EraseError
from frazil.erase.proof import left_values
from frazil.erase.report import ErasedLayer, TreatReport, ValuesLeftError
from frazil.failpoints import failpoint
from frazil.lake.refs import refs_of, snapshots_of
from frazil.plan.build import build
from frazil.plan.checks import check_kept
from frazil.plan.state import State
from frazil.runner.batch.erased import find_erased
from frazil.runner.maintain import Purged, purge
from frazil.runner.planner import check_new_expressions, read_state
from frazil.runner.run import do_table
from frazil.runner.sessions import interruptibly, table_session
from frazil.silver.baseline import BASELINE
from frazil.spec.check.check import check_declaration
from frazil.spec.contract import final_names
from frazil.spec.pii import HMAC, TREATED, TREATING, clear_fields, declared_pii, treated_fields
from frazil.spec.sql.names import literal, quote
from frazil.spec.sql.select import source_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession

    from frazil.runner.table_run import TableRun
    from frazil.spec import Pipeline


def treat_preview(pipeline: Pipeline, spark: SparkSession, table: str) -> TreatReport:
    """Return what :func:`treat` would do, without changing anything.

    Args:
        pipeline: the declaration.
        spark: a session with the lake.
        table: a source table, or one of its marts.

    Raises:
        FrazilError: as :func:`treat` raises it before it writes.
    """
    with _context(pipeline, spark, table) as context:
        return interruptibly(lambda: _preview(context), [context.spark])


def treat(
    pipeline: Pipeline, spark: SparkSession, table: str, *, tell: Callable[[str], None] = lambda _: None
) -> TreatReport:
    """Replace the stored values of columns that declare ``pii``, in every layer, and remove the original values.

    After a kill at any point, the next call continues. Runs between the two calls produce correct tables.

    Args:
        pipeline: the declaration.
        spark: a session with the lake.
        table: a source table, or one of its marts.
        tell: called with a short text when a step begins.

    Raises:
        EraseError: the values are missing, or cannot be replaced.
        SourceChangedError: the declaration treats a field differently from the stored treatment.
        PiiKeyError: the key is too short, or differs from the key of the stored values.
        BusyError: another run holds the pipeline for more than a minute.
        ValuesLeftError: a value remains, because another tool wrote the tables.
        FrazilError: silver or a mart cannot be rebuilt; the lake is unchanged, or the next treatment continues.

    Cost: one rewrite of bronze, one rebuild of silver, marts and the aggregates over them.
    """
    with _context(pipeline, spark, table) as context:
        certifying = Certifying.of(pipeline, "erase", removes_metadata=True)
        report = interruptibly(lambda: _treat(context, tell), [context.spark])
        if certifying is not None:
            certifying.write_or_warn()
    if report.found:
        raise ValuesLeftError(report)
    return report


def _preview(context: TableRun) -> TreatReport:
    fields, bookmark = _wanted(context)
    layers = tuple(
        ErasedLayer(
            table=made.full_name,
            role=made.role,
            rows=_records(context) if made.role == "bronze" else None,
            snapshots=max(snapshots_of(context.spark, made.path) - 1, 0),
            refs=tuple(name for name, _ in refs_of(context.spark, made.path)),
        )
        for made in EraseJob(context).tables
    )
    return TreatReport(table=context.table.name, fields=fields, layers=layers, resumed=TREATING in bookmark)


def _treat(context: TableRun, tell: Callable[[str], None]) -> TreatReport:
    fields, before = _wanted(context)
    if fields:
        tell("replace values in bronze")
        _write_bronze(context, fields)
        failpoint("treat.after_bronze")
    tell("make silver and marts again")
    _make_again(context)
    job, purged = EraseJob(context), dict[str, Purged]()
    job.refresh_gold()
    failpoint("treat.after_marts")
    for made in job.tables:
        tell(f"rewrite {made.full_name}")
        purged[made.full_name] = purge(context.spark, made.path, target_file_mb=context.pipeline.upkeep.target_file_mb)
    failpoint("treat.after_purge")
    tell("search for remaining values")
    rows, files, found = left_values(job, treated_fields(context.table, before.get("fields", {})))
    layers = tuple(
        ErasedLayer(
            table=name,
            role=made.role,
            rows=_records(context) if made.role == "bronze" else None,
            snapshots=purged[name].snapshots,
            refs=purged[name].refs,
            orphans=purged[name].orphans,
        )
        for name, made in ((made.full_name, made) for made in job.tables)
    )
    failpoint("treat.before_end")
    if not found:
        _end(context)
    return TreatReport(
        table=context.table.name,
        fields=fields,
        layers=layers,
        resumed=TREATING in before,
        rows=rows,
        files=files,
        found=found,
        done=True,
    )


def _wanted(context: TableRun) -> tuple[dict[str, str], Mapping[str, Any]]:
    """Return the fields to treat and bronze's bookmark; refuse a treatment that could not finish correctly."""
    table, bookmark = context.table, context.head(context.bronze).bookmark
    check_kept(table, bookmark)
    fields = clear_fields(table, bookmark)
    if not fields and TREATING not in bookmark:
        raise EraseError(
            f"table {table.name!r} has no untreated values in columns with pii",
            hint="--pii is for columns that were given pii after their files were read",
        )
    finals, keys = final_names(table), {key.lower() for key in table.keys}
    of_keys = [name for name in fields if finals.get(name.lower(), name).lower() in keys]
    erased = find_erased(context)
    if of_keys and erased is not None and context.spark.table(quote(*erased.path)).limit(1).count():
        raise EraseError(
            f"table {table.name!r} has erased keys, stored as hashes of the original {', '.join(of_keys)}: "
            "with pii on it they would return",
            hint="take pii of the key away again; before it is back, let the erased keys come again: frazil erase "
            "--unblock",
        )
    if any(BASELINE in context.head(path).bookmark for path in (context.bronze, context.changes)):
        raise EraseError(
            f"table {table.name!r} has changes that retention folded: their records are gone, and with them the values "
            "that pii is made of",
            hint="take pii away again; or begin again with the files that are still at the source: "
            f"frazil drop --select {table.name}, then frazil run",
        )
    _try(context, fields)
    return fields, bookmark


def _try(context: TableRun, fields: Mapping[str, str]) -> None:
    """Plan on bronze as it will be, so that a rebuild that would fail is refused before anything is written."""
    base = context.head(context.bronze)
    treatment = treatment_of(context.pipeline, context.table)
    verify_key(context.table, base.bookmark, treatment)
    context.heads[context.bronze] = replace(base, bookmark=_bookmark(context, fields, base.bookmark))
    check_new_expressions(context, read_state(context, rebuild=False, with_source=False))
    context.heads[context.bronze] = base


def _bookmark(context: TableRun, fields: Mapping[str, str], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return bronze's bookmark after the treatment of some fields."""
    if not fields:
        return dict(before)
    treatment = treatment_of(context.pipeline, context.table)
    return {
        **before,
        "reading": {**before.get("reading", {}), **declared_pii(context.table)},
        TREATED: treated_fields(context.table, before.get("fields", {})),
        TREATING: context.run_id,
        MADE_BY: context.run_id,
        **({} if treatment is None else treatment.bookmark),
    }


def _write_bronze(context: TableRun, fields: Mapping[str, str]) -> None:
    """Rewrite all rows of bronze in one commit whose bookmark has the treatment of each field."""
    base, rows = context.head(context.bronze), context.spark.table(quote(*context.bronze))
    whole = treatment_of(context.pipeline, context.table)
    key = b"" if whole is None or HMAC not in fields.values() else whole.key
    treatment = Treatment(ways={name.lower(): way for name, way in fields.items()}, key=key)
    with context.transaction(context.bronze, _bookmark(context, fields, base.bookmark)) as batch:
        batch.note(strategy="treat", fields=len(fields))
        batch.replace(rows.mapInArrow(_treating(treatment), rows.schema))
        failpoint("treat.before_publish")
        batch.publish()


def _treating(treatment: Treatment):  # type: ignore[no-untyped-def]  # noqa: ANN202
    def treated(batches: Iterator[Any]) -> Iterator[Any]:
        yield from map(treatment.treated, batches)

    return treated


def _make_again(context: TableRun) -> None:
    """Bring silver and marts up to date with bronze; new files at the source wait for the next run.

    Raises:
        FrazilError: a table cannot be rebuilt.
    """
    name = context.table.name
    state = read_state(context, rebuild=False, with_source=False)
    steps = build(context.pipeline, State(tables={name: state}), tables=[name], gold=[])
    if steps and (errors := do_table(context, steps)):
        raise errors[0]


def _end(context: TableRun) -> None:
    """Remove the mark of the treatment: no original value remains."""
    context.heads.clear()
    bookmark = {name: value for name, value in context.head(context.bronze).bookmark.items() if name != TREATING}
    with context.transaction(context.bronze, bookmark) as batch:
        batch.touch()
        batch.publish()


def _records(context: TableRun) -> int:
    return int(context.spark.table(quote(*context.bronze)).where(f"{r.KIND} = {literal(r.RECORD)}").count())


@contextmanager
def _context(pipeline: Pipeline, spark: SparkSession, table: str) -> Iterator[TableRun]:
    check_declaration(pipeline)
    with table_session(pipeline, source_table(pipeline, table), spark) as context:
        yield context
