"""Operators: each is one call of the command ``frazil``, in a process of its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowRescheduleException

from frazil_airflow.assets import commits, table_asset, tables_of
from frazil_airflow.command import BUSY, Command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from frazil_airflow.command import Finished


class FrazilOperator(BaseOperator):
    """What all operators share: the call, and what its end means.

    Exit codes 3 and 4 (source or storage did not answer), a signal and errors that call themselves retryable fail the
    task in a way that Airflow retries. All other errors need a person, so no retry is spent on them. While another run
    holds the pipeline (exit code 7), the task is put back and leaves its slot to others.

    Args:
        project: the declaration, or its folder, as the worker sees it.
        select: tables, marts, aggregates, layers or patterns, as a list or separated by commas; empty: all. May be
            templated: ``"{{ params.select }}"``.
        command: how to start Frazil: ``("frazil",)``, the path of one in another environment, or ``spark-submit`` with
            its settings and a script.
        env: settings for the command on top of those of the worker; the place for ``{{ conn.shop.get_uri() }}``.
        wait_for_lock: how long to wait for another run of the pipeline to end.
    """

    verb = ""
    template_fields: Sequence[str] = ("project", "select", "command", "env")
    ui_color = "#e8f1ec"

    def __init__(
        self,
        *,
        project: str,
        select: Sequence[str] | str = (),
        command: Sequence[str] = ("frazil",),
        env: Mapping[str, str] | None = None,
        wait_for_lock: timedelta = timedelta(hours=1),
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.project = project
        self.select = select
        self.command = command
        self.env = env or {}
        self.wait_for_lock = wait_for_lock
        self._running: Command | None = None

    def options(self) -> list[str]:
        """Return what follows the verb, apart from project and selection."""
        return []

    def execute(self, context: Context) -> Any:
        """Call the command; return its JSON.

        Raises:
            AirflowRescheduleException: another run holds the pipeline, and there is time left to wait for it.
            AirflowFailException: it failed, and would fail again.
            AirflowException: it failed, and may succeed later.
        """
        return self._judged(self._call(), context)

    def on_kill(self) -> None:
        """End the command, as Airflow asks it of a task that was cleared or has run out of time."""
        if self._running is not None:
            self._running.stop()

    def _call(self) -> Finished:
        names = self.select.split(",") if isinstance(self.select, str) else self.select
        selected = [word for name in names if name.strip() for word in ("--select", name.strip())]
        words = [*self.command, self.verb, "--json", *self.options(), *selected, "--", self.project]
        self.log.info("%s", words)
        self._running = Command(words, self.env)
        try:
            return self._running.run(self.log)
        except FileNotFoundError as error:
            hint = "install frazil in an environment of its own on the workers, and give its path as command="
            raise AirflowFailException(f"there is no program {self.command[0]!r} ({hint})") from error

    def _judged(self, finished: Finished, context: Context) -> Any:
        if finished.exit_code == BUSY and not self._is_tired(context):
            self.log.info("another run holds the pipeline; this task is put back for ten seconds")
            raise AirflowRescheduleException(datetime.now(UTC) + timedelta(seconds=10))
        if finished.exit_code:
            error = AirflowException if finished.retryable else AirflowFailException
            raise error(f"frazil {self.verb} ended with exit code {finished.exit_code}\n{finished.why()}")
        if finished.report is None:
            raise AirflowFailException(f"{self.command[0]} wrote no JSON\n{finished.why()}")
        return finished.report

    def _is_tired(self, context: Context) -> bool:
        first = context["ti"].get_first_reschedule_date(context)
        return first is not None and datetime.now(UTC) - first > self.wait_for_lock


class FrazilRunOperator(FrazilOperator):
    """Bring tables up to date: ``frazil run``. With nothing new it commits nothing, so it may run often.

    Every table with a new snapshot becomes an event of its asset (``table_asset``), with the snapshot's id and the
    run's. What a failed task has committed is announced by the next one that succeeds.

    Args:
        full_refresh: rebuild silver and marts from bronze. May be templated: ``"{{ params.full_refresh }}"``.
        fail_fast: begin no further table once one has failed.
    """

    verb = "run"
    template_fields = (*FrazilOperator.template_fields, "full_refresh")

    def __init__(self, *, full_refresh: bool | str = False, fail_fast: bool = False, **settings: Any) -> None:
        # The declaration as an asset: the place where Airflow keeps what a failed task has committed.
        self.declaration = Asset(name=f"frazil:{settings['project']}", uri=f"frazil:{settings['project']}")
        self.alias = tables_of(settings["project"])
        inlets, outlets = settings.pop("inlets", None) or [], settings.pop("outlets", None) or []
        super().__init__(inlets=[*inlets, self.declaration], outlets=[*outlets, self.alias], **settings)
        self.full_refresh = full_refresh
        self.fail_fast = fail_fast

    def options(self) -> list[str]:
        """Return the flags of a run."""
        wants_all = str(self.full_refresh).strip().lower() == "true"
        return [*(["--full-refresh"] if wants_all else []), *(["--fail-fast"] if self.fail_fast else [])]

    def execute(self, context: Context) -> Any:
        """Run, and announce what was committed; return the report of the run.

        Raises:
            AirflowRescheduleException: another run holds the pipeline, and there is time left to wait for it.
            AirflowFailException: it failed, and would fail again.
            AirflowException: it failed, and may succeed later.
        """
        finished = self._call()
        store, key = context["asset_state_store"][self.declaration], f"{self.dag_id}.{self.task_id}"
        unannounced = {**store.get(key, {}), **dict(commits(finished.report or {}))}
        if unannounced:
            store.set(key, unannounced)
        report = self._judged(finished, context)
        for table, extra in unannounced.items():
            context["outlet_events"][self.alias].add(table_asset(report["pipeline"], table), extra)
        if unannounced:
            store.delete(key)
        return report


class FrazilCheckOperator(FrazilOperator):
    """Prove that the tables say what the changes say: ``frazil check``. Fails without retries if they do not.

    Args:
        source: compare the marts with the tables at their source instead.
    """

    verb = "check"

    def __init__(self, *, source: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self.source = source

    def options(self) -> list[str]:
        """Return the flag of the comparison with the source."""
        return ["--source"] if self.source else []


class FrazilTestOperator(FrazilOperator):
    """Test the rules of contracts over the rows of the marts: ``frazil test``."""

    verb = "test"


class FrazilMaintainOperator(FrazilOperator):
    """Compact, expire snapshots, remove orphan files, compute statistics: ``frazil maintain``."""

    verb = "maintain"
