"""Operators, each of which calls the command ``frazil`` in its own process."""

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
    """Base of all operators: calls the command, and maps its exit code to Airflow's states.

    The task fails with retries after exit codes 3 and 4 (source or storage did not answer), a signal, or a retryable
    error. It fails without retries after all other errors, which need a person. While another run holds the pipeline
    (exit code 7), the task is rescheduled and frees its slot.

    Args:
        project: the declaration, or its folder, as a path on the worker.
        select: tables, marts, aggregates, layers or patterns, as a list or separated by commas; empty for all. May be a
            template: ``"{{ params.select }}"``.
        command: program that starts Frazil: ``("frazil",)``, its path in another environment, or ``spark-submit`` with
            its settings and a script.
        env: environment variables for the command, in addition to those of the worker, such as
            ``{{ conn.shop.get_uri() }}``.
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
        """Return the arguments after the verb, without project and selection."""
        return []

    def execute(self, context: Context) -> Any:
        """Call the command, and return its JSON.

        Raises:
            AirflowRescheduleException: another run holds the pipeline, and ``wait_for_lock`` is not over.
            AirflowFailException: the command failed, and a retry would not help.
            AirflowException: the command failed, and may succeed later.
        """
        return self._judged(self._call(), context)

    def on_kill(self) -> None:
        """End the command when Airflow clears the task or its time is over."""
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
            raise AirflowFailException(f"program {self.command[0]!r} does not exist ({hint})") from error

    def _judged(self, finished: Finished, context: Context) -> Any:
        if finished.exit_code == BUSY and not self._is_tired(context):
            self.log.info("another run holds the pipeline; this task is rescheduled in ten seconds")
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
    """Bring tables up to date: ``frazil run``. Without new files it commits nothing, so it may run often.

    Every table with a new snapshot emits an event of its asset (``table_asset``), with the IDs of the snapshot and the
    run. After a failed task, the next task that succeeds emits the events of both.

    Args:
        full_refresh: rebuild silver and marts from bronze. May be a template: ``"{{ params.full_refresh }}"``.
        fail_fast: start no other table after a failure.
    """

    verb = "run"
    template_fields = (*FrazilOperator.template_fields, "full_refresh")

    def __init__(self, *, full_refresh: bool | str = False, fail_fast: bool = False, **settings: Any) -> None:
        # An asset of the declaration: Airflow stores the commits of failed tasks in its state.
        self.declaration = Asset(name=f"frazil:{settings['project']}", uri=f"frazil:{settings['project']}")
        self.alias = tables_of(settings["project"])
        inlets, outlets = settings.pop("inlets", None) or [], settings.pop("outlets", None) or []
        super().__init__(inlets=[*inlets, self.declaration], outlets=[*outlets, self.alias], **settings)
        self.full_refresh = full_refresh
        self.fail_fast = fail_fast

    def options(self) -> list[str]:
        """Return the options of ``frazil run``."""
        wants_all = str(self.full_refresh).strip().lower() == "true"
        return [*(["--full-refresh", "--yes"] if wants_all else []), *(["--fail-fast"] if self.fail_fast else [])]

    def execute(self, context: Context) -> Any:
        """Run, emit an event for each committed table, and return the report of the run.

        Raises:
            AirflowRescheduleException: another run holds the pipeline, and ``wait_for_lock`` is not over.
            AirflowFailException: the run failed, and a retry would not help.
            AirflowException: the run failed, and may succeed later.
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
    """Prove that the tables match their changes: ``frazil check``. Fails without retries if they differ.

    Args:
        source: compare the marts with the tables at their sources instead.
    """

    verb = "check"

    def __init__(self, *, source: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self.source = source

    def options(self) -> list[str]:
        """Return the option that compares with the sources."""
        return ["--source"] if self.source else []


class FrazilTestOperator(FrazilOperator):
    """Test the rules of contracts on the rows of the marts: ``frazil test``."""

    verb = "test"


class FrazilMaintainOperator(FrazilOperator):
    """Compact files, expire snapshots, remove orphan files and compute statistics: ``frazil maintain``."""

    verb = "maintain"
