"""A cut over many tables: a ledger of double entries that is spread over them balances in each."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.failing import run_fails_with

import frazil
from frazil import api
from frazil.catalog.lock import lock
from frazil.errors import BusyError
from frazil.failpoints import FailpointReached
from frazil.iceberg.time_travel import ExpiredPointError, PointError, utc_text
from frazil.past import CutExistsError, CutNameError
from frazil.serve import cuts
from frazil.serve.cuts import Cut, NotLevelError
from frazil.serve.state import state
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

LAKE = "lake: {warehouse: ./lake}\nupkeep: {expire_after_days: 0, retain_last: 1}"
GOLD = "gold: [{name: total, sql: 'select sum(balance) as total from {{ branch_0 }}'}]"


class Bank:
    """Accounts in one table for each branch, and a log of transfers between accounts of any two of them.

    Every transfer is a transaction: two updates, whole in one file. So all balances together are always 0.
    """

    def __init__(self, folder: Path, branches: int, spark: SparkSession) -> None:
        del spark  # only there so that Java runs
        self.folder, self.branches, self.events, self.lot = folder, branches, 0, Random(branches)
        self.balances = {(branch, account): 0 for branch in range(branches) for account in range(3)}
        tables = "\n".join(
            f"  - {{name: branch_{branch}, source: {{kind: audit_log, path: ./log, table: branch_{branch}}}, "
            f"keys: [account], marts: [{{kind: current}}], "
            "columns: [{name: account, type: int}, {name: balance, type: int}]}"
            for branch in range(branches)
        )
        (folder / "log").mkdir()
        (folder / "frazil.yml").write_text(f"pipeline: bank\n{LAKE}\ntables:\n{tables}\n{GOLD}\n")
        self.session = spark_session(frazil.load(folder))

    def deliver(self, transfers: int) -> None:
        """Let a file with some transfers arrive."""
        lines = []
        for _ in range(transfers):
            giver, taker = self.lot.sample(sorted(self.balances), 2)
            amount = self.lot.randint(1, 100)
            for (branch, account), change in ((giver, -amount), (taker, amount)):
                self.balances[branch, account] += change
                self.events += 1
                lines.append(
                    {
                        "audit_event_id": self.events,
                        "audit_operation": "U",
                        "audit_timestamp": "2026-01-01 00:00:00",
                        "tbl_name": f"branch_{branch}",
                        "raw_data": {"account": account, "balance": self.balances[branch, account]},
                    }
                )
        path = self.folder / "log" / f"{self.events:06}.jsonl"
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")

    def run(self, *select: str) -> None:
        frazil.run(self.folder, spark=self.session, select=select)

    def cut(self, name: str, wait_seconds: float = 0.0) -> Cut:
        return api.cut(self.folder, name, spark=self.session, wait_seconds=wait_seconds)

    def total(self, as_of: str | None = None) -> int:
        parts = " union all ".join(f"select balance from branch_{branch}" for branch in range(self.branches))
        found = api.query(self.folder, f"select sum(balance) from ({parts})", as_of=as_of).rows[0][0]
        return int(Decimal(found))

    def first_half(self) -> Iterable[str]:
        return [f"branch_{branch}" for branch in range(self.branches // 2)]


@pytest.mark.long
@pytest.mark.parametrize("branches", [2, pytest.param(20, marks=pytest.mark.laws)])
def test_the_totals_of_a_ledger_balance_at_every_cut_in_the_middle_of_its_stream(
    branches: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = Bank(tmp_path, branches, spark)
    bank.deliver(20 * branches)
    monkeypatch.setenv("FRAZIL_FAILPOINT", "bronze.before_publish:raise")
    with run_fails_with(FailpointReached):
        bank.run()
    with pytest.raises(NotLevelError, match="no mart or aggregate was written yet"):
        bank.cut("first")
    monkeypatch.delenv("FRAZIL_FAILPOINT")
    bank.run()
    monkeypatch.setenv("FRAZIL_FAILPOINT", "cut.after_tag:raise")
    with pytest.raises(FailpointReached):
        bank.cut("first")
    monkeypatch.delenv("FRAZIL_FAILPOINT")
    with pytest.raises(PointError, match="is not part of the cut 'first'"):
        bank.total(as_of="first")

    # A cut that was killed is ended by the next, and files that wait for all tables alike are no hindrance.
    bank.deliver(20)
    assert len(bank.cut("first").tables) == branches + 1
    bank.run(*bank.first_half())

    # In the middle of a run some tables are ahead.
    assert bank.total() != 0
    assert bank.total(as_of="first") == 0
    with pytest.raises(NotLevelError, match=r"branch_\d+ has taken log/\d+\.jsonl, and branch_\d+ has not"):
        bank.cut("second")
    assert [cut.name for cut in api.cuts(bank.folder)] == ["first"]

    bank.run()
    with lock(frazil.load(bank.folder)), pytest.raises(BusyError, match="held by another run"):
        bank.cut("second")
    with pytest.raises(CutExistsError, match=r"there is a cut 'first' already, and marts\.branch_\d+ has changed"):
        bank.cut("first")
    bank.cut("second")
    bank.deliver(20)
    bank.run(*bank.first_half())

    assert bank.total() != 0
    assert [bank.total(as_of=name) for name in ("first", "second")] == [0, 0]

    def state_after_a_run(*asked: Any) -> Any:
        bank.run()
        return state(*asked)

    # A lock that does not reach to the machine of another run: it commits between two looks.
    monkeypatch.setattr(cuts, "state", state_after_a_run)
    with pytest.raises(NotLevelError, match="a run committed meanwhile"):
        cuts.level_heads(frazil.load(bank.folder))
    api.drop_cut(bank.folder, "first", spark=bank.session)
    assert [cut.name for cut in api.cuts(bank.folder)] == ["second"]


@pytest.mark.long
def test_what_a_cut_keeps_does_not_expire_and_spark_reads_it_by_its_name(spark: SparkSession, tmp_path: Path) -> None:
    bank = Bank(tmp_path, 2, spark)
    began = []
    for name in ("kept", None):
        bank.deliver(20)
        bank.run()
        began.append(utc_text(dt.datetime.now(dt.UTC)))
        if name is not None:
            bank.cut(name)
    bank.deliver(20)
    bank.run()

    api.maintain(bank.folder, spark=bank.session)

    with pytest.raises(ExpiredPointError):
        bank.total(as_of=began[1])
    assert bank.total(as_of="kept") == 0
    in_spark = bank.session.sql("SELECT sum(balance) FROM lake.marts.branch_0 VERSION AS OF 'kept'").collect()[0][0]
    sql = "select sum(balance), max(total) from branch_0, gold.total"
    assert api.query(bank.folder, sql, as_of="kept").rows == [(in_spark, in_spark)]


@pytest.mark.parametrize("name", ["", "2026-01", "a b", "main", "frazil_run_1", "a" * 65, "ä", "x;drop"])
def test_a_name_that_could_mean_something_else_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "frazil.yml").write_text(
        "pipeline: p\nlake: {warehouse: ./lake}\n"
        "tables: [{name: t, keys: [id], source: {kind: dms, path: ./x, header: true}}]\n"
    )

    with pytest.raises(CutNameError):
        api.cut(tmp_path, name)
