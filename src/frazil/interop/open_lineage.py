"""OpenLineage: inputs and outputs of a run, column by column, as events for Marquez, DataHub and others."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import column_lineage_dataset, error_message_run, parent_run, schema_dataset

from frazil.interop.contracts import mart_contracts
from frazil.interop.lineage import gold_lineage
from frazil.runner.record import kept_message
from frazil.spec.contract import added_columns
from frazil.spec.location import warehouse
from frazil.spec.secrets import redacted
from frazil.spec.tables import gold_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from frazil.errors import Failure
    from frazil.runner.report import GoldReport, RunReport, TableReport
    from frazil.spec import Pipeline
    from frazil.steps import Step

_PRODUCER: Final = "urn:frazil"
Origin = tuple[str, str, str]
"""Namespace, dataset and field."""


class OpenLineage:
    """Sends START and COMPLETE or FAIL events for the run, and for each table and aggregate that it processed."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._space = warehouse(pipeline).uri
        self._began = dt.datetime.now(dt.UTC)

    def planned(self, steps: Sequence[Step]) -> None:
        """Record the start time of the run."""
        del steps
        self._began = dt.datetime.now(dt.UTC)

    def began(self, table: str, what: str) -> None:
        """Do nothing: events describe whole tables."""

    def progressed(self, table: str, how_far: str) -> None:
        """Do nothing."""

    def ended(self, report: TableReport | GoldReport) -> None:
        """Do nothing."""

    def finished(self, report: RunReport, lag_seconds: float | None) -> None:
        """Send the events, unless the run had nothing to do."""
        del lag_seconds
        tables = [table for table in report.tables if table.outcome in ("done", "failed")]
        gold = [made for made in report.gold if made.outcome in ("done", "failed")]
        if not tables and not gold:
            return
        # Each run has its own client: some transports cannot send after close, and a watch has many runs.
        client = OpenLineageClient()
        try:
            for event in self._events(report, tables, gold):
                client.emit(event)
        finally:
            client.close()

    def _events(
        self, report: RunReport, tables: Sequence[TableReport], gold: Sequence[GoldReport]
    ) -> Iterator[RunEvent]:
        parent = parent_run.ParentRunFacet(
            run=parent_run.Run(runId=report.run_id),
            job=parent_run.Job(namespace=self._space, name=self._pipeline.pipeline),
        )
        yield self._event(RunState.START, self._pipeline.pipeline, report.run_id, {})
        marts = {one.table.name: one for one in mart_contracts(self._pipeline)}
        for table in tables:
            inputs, outputs = self._table(table, marts)
            yield from self._both(table.table, table, parent, (inputs, outputs))
        origins = gold_lineage(self._pipeline, {name: one.columns for name, one in marts.items()})
        for made in gold:
            yield from self._both(f"gold.{made.name}", made, parent, self._gold(made, origins))
        state = RunState.FAIL if report.errors else RunState.COMPLETE
        yield self._event(state, self._pipeline.pipeline, report.run_id, _facets(report.errors))

    def _both(
        self, name: str, report: TableReport | GoldReport, parent: Any, sets: tuple[Any, Any]
    ) -> Iterator[RunEvent]:
        run_id, job = str(uuid4()), f"{self._pipeline.pipeline}.{name}"
        yield self._event(RunState.START, job, run_id, {"parent": parent})
        state = RunState.FAIL if report.outcome == "failed" else RunState.COMPLETE
        yield self._event(state, job, run_id, {"parent": parent} | _facets(report.errors), sets)

    def _event(
        self, state: RunState, job: str, run_id: str, facets: Mapping[str, Any], sets: tuple[Any, Any] = ((), ())
    ) -> RunEvent:
        at = self._began if state == RunState.START else dt.datetime.now(dt.UTC)
        return RunEvent(
            eventType=state,
            eventTime=at.isoformat(),
            run=Run(runId=run_id, facets=dict(facets)),
            job=Job(namespace=self._space, name=job),
            inputs=[*sets[0]],
            outputs=[*sets[1]],
            producer=_PRODUCER,
        )

    def _table(self, report: TableReport, marts: Mapping[str, Any]) -> tuple[list[InputDataset], list[OutputDataset]]:
        declared = next(table for table in self._pipeline.tables if table.name == report.table)
        space, name = declared.source.kind, f"{self._pipeline.pipeline}.{declared.name}"
        computed = {column.name for column in declared.columns or () if column.expr is not None}
        outputs = []
        for one in marts.values():
            if one.source != report.table or one.table.full_name not in report.commits:
                continue
            own = {*added_columns(one.mart), *computed}
            fields = {column: ((space, name, column),) for column in one.columns if column not in own}
            outputs.append(self._output(one.table.full_name, one.columns, fields))
        return [InputDataset(namespace=space, name=name)], outputs

    def _gold(self, made: GoldReport, origins: Mapping[str, Any]) -> tuple[list[InputDataset], list[OutputDataset]]:
        gold = {one.name: one for one in self._pipeline.gold}
        spaces = self._pipeline.lake.namespaces

        def dataset(table: str) -> str:
            return f"{spaces.gold if table in gold else spaces.marts}.{table}"

        found = origins[made.name]
        read = sorted({dataset(table) for pairs in found.values() for table, _ in pairs})
        fields = {
            column: tuple((self._space, dataset(table), field) for table, field in pairs)
            for column, pairs in found.items()
            if pairs
        }
        name = gold_table(self._pipeline, gold[made.name]).full_name
        outputs = [self._output(name, dict.fromkeys(found), fields)] if made.commits else []
        return [InputDataset(namespace=self._space, name=one) for one in read], outputs

    def _output(
        self, name: str, columns: Mapping[str, str | None], origins: Mapping[str, Sequence[Origin]]
    ) -> OutputDataset:
        schema = [schema_dataset.SchemaDatasetFacetFields(name=one, type=kind) for one, kind in columns.items()]
        fields = {
            column: column_lineage_dataset.Fields(
                inputFields=[
                    column_lineage_dataset.InputField(namespace=space, name=table, field=field)
                    for space, table, field in pairs
                ]
            )
            for column, pairs in origins.items()
        }
        lineage = column_lineage_dataset.ColumnLineageDatasetFacet(fields=fields)
        facets = {"schema": schema_dataset.SchemaDatasetFacet(fields=schema), "columnLineage": lineage}
        return OutputDataset(namespace=self._space, name=name, facets=facets)


def _facets(failures: Iterable[Failure]) -> dict[str, Any]:
    told = "\n".join(redacted(f"[{one.code}] {one.name}: {kept_message(one)}") for one in failures)
    return (
        {"errorMessage": error_message_run.ErrorMessageRunFacet(message=told, programmingLanguage="Python")}
        if told
        else {}
    )
