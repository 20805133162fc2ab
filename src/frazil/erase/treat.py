"""Replace the values that a lake held of columns before these said ``pii``: law ERASE for columns.

Bronze is written again in one commit; silver and marts are made from it again; and of every table only the files
that its newest rows need are left. What the lake then holds is what one would hold whose declaration had said ``pii``
from the beginning.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from frazil.audit.certify import Certifying
from frazil.bronze import record as r
from frazil.bronze.pii import MADE_BY, Treatment, treatment_of, verify_key
from frazil.erase.job import EraseJob
from frazil.erase.proof import left_values
from frazil.erase.report import ErasedLayer, TreatReport, ValuesLeftError
from frazil.erase.subjects import EraseError
from frazil.failpoints import failpoint
from frazil.lake.refs import refs_of, snapshots_of
from frazil.plan.build import build
from frazil.plan.reading import check_kept
from frazil.plan.state import State
from frazil.runner.batch.erased import find_erased
from frazil.runner.planner import check_new_expressions, read_state
from frazil.runner.sessions import interruptibly, table_session
from frazil.runner.table_steps import do_table
from frazil.runner.upkeep.purge import Purged, purge
from frazil.silver.baseline import BASELINE
from frazil.spec.check.check import check
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
    """Return what :func:`treat` would do; nothing is changed. Its errors."""
    with _context(pipeline, spark, table) as context:
        return interruptibly(lambda: _preview(context), [context.spark])


def treat(
    pipeline: Pipeline, spark: SparkSession, table: str, *, tell: Callable[[str], None] = lambda _: None
) -> TreatReport:
    """Replace what the lake holds of columns that say ``pii`` now, in every layer, and remove what it held before.

    Killed anywhere, it can be done again, and goes on where it was. Runs that come in between are right.

    Args:
        pipeline: the declaration.
        spark: a session with the lake.
        table: a source table, or one of its marts.
        tell: called with a short text when a step begins.

    Raises:
        EraseError: there is nothing to replace, or it cannot be.
        SourceChangedError: the declaration treats otherwise what was treated before.
        PiiKeyError: the key is too short, or another than the lake's values were made with.
        BusyError: a run holds the pipeline, for a minute.
        ValuesLeftError: a value is left, since something else wrote the tables.
        FrazilError: silver or a mart cannot be made; all is as before, or the next treatment goes on.

    Cost: one rewrite of bronze, one rebuild of silver, marts and the aggregates over them.
    """
    with _context(pipeline, spark, table) as context:
        certifying = Certifying.of(pipeline, "erase", removes_metadata=True)
        report = interruptibly(lambda: _treat(context, tell), [context.spark])
        if certifying is not None:
            certifying.write_or_tell(tell)
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
    tell("search what is left")
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
    """Return which fields are to be treated, and bronze's bookmark; refuse what would not end as it should."""
    table, bookmark = context.table, context.head(context.bronze).bookmark
    check_kept(table, bookmark)
    fields = clear_fields(table, bookmark)
    if not fields and TREATING not in bookmark:
        raise EraseError(
            f"table {table.name!r} holds no values of columns with pii as they came",
            hint="--pii is for columns that were given pii after their files were read",
        )
    finals, keys = final_names(table), {key.lower() for key in table.keys}
    of_keys = [name for name in fields if finals.get(name.lower(), name).lower() in keys]
    erased = find_erased(context)
    if of_keys and erased is not None and context.spark.table(quote(*erased.path)).limit(1).count():
        raise EraseError(
            f"table {table.name!r} has erased keys, which are known by hashes of {', '.join(of_keys)} as it came: "
            "with pii they would come back",
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
    """Plan on bronze as it will be, so that what cannot be made of it is refused before anything is written."""
    base = context.head(context.bronze)
    treatment = treatment_of(context.pipeline, context.table)
    verify_key(context.table, base.bookmark, treatment)
    context.heads[context.bronze] = replace(base, bookmark=_bookmark(context, fields, base.bookmark))
    check_new_expressions(context, read_state(context, rebuild=False, with_source=False))
    context.heads[context.bronze] = base


def _bookmark(context: TableRun, fields: Mapping[str, str], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return bronze's bookmark, once some fields are treated."""
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
    """Write bronze again, of the same rows, in one commit that says how its fields are treated."""
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
    """Bring silver and marts level with bronze; new files at the source wait for the next run.

    Raises:
        FrazilError: one of them cannot be made.
    """
    name = context.table.name
    state = read_state(context, rebuild=False, with_source=False)
    steps = build(context.pipeline, State(tables={name: state}), tables=[name], gold=[])
    if steps and (errors := do_table(context, steps)):
        raise errors[0]


def _end(context: TableRun) -> None:
    """Take the mark away: nothing of what was replaced is left."""
    context.heads.clear()
    bookmark = {name: value for name, value in context.head(context.bronze).bookmark.items() if name != TREATING}
    with context.transaction(context.bronze, bookmark) as batch:
        batch.touch()
        batch.publish()


def _records(context: TableRun) -> int:
    return int(context.spark.table(quote(*context.bronze)).where(f"{r.KIND} = {literal(r.RECORD)}").count())


@contextmanager
def _context(pipeline: Pipeline, spark: SparkSession, table: str) -> Iterator[TableRun]:
    check(pipeline)
    with table_session(pipeline, source_table(pipeline, table), spark) as context:
        yield context
