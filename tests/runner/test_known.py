"""HISTORY, in two times, on a lake: the state of Monday as known on Tuesday."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.failing import run_fails_with

import frazil
from frazil import api
from frazil.errors import DeclarationProblems
from frazil.failpoints import FailpointReached
from frazil.plan.policy import DEFAULT_POLICY, Policy
from frazil.runner.options import RunOptions
from frazil.spark.session import spark_session
from frazil.spec.check.check import check_declaration
from frazil.spec.load.parse import parse_declaration

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: prices
    source: {kind: dms, path: ./landing, header: true}
    keys: [id]
    sequence_by: [ts]
    columns: [{name: id, type: int}, {name: price, type: int}, {name: ts, type: timestamp}]
    marts: [{kind: current}, {kind: history, name: prices_known, bitemporal: true}]
"""

POLICIES = (DEFAULT_POLICY, Policy(strategy="overwrite"), Policy(strategy="delete_append"))


def land(folder: Path, name: str, *records: str) -> None:
    (folder / "landing").mkdir(exist_ok=True)
    (folder / "landing" / f"2026010{name}-000000000.csv").write_text("\n".join(("Op,id,price,ts", *records, "")))


def run(folder: Path, policy: Policy = DEFAULT_POLICY) -> int:
    """Run it, and return how many changes were late."""
    pipeline = frazil.load(folder)
    [table] = frazil.run(pipeline, spark=spark_session(pipeline), options=RunOptions(policy=policy)).tables
    assert [finding for finding in api.check(folder) if finding.ok is False] == []
    return max((mart.late for mart in table.marts), default=0)


def known(folder: Path) -> list[tuple[Any, ...]]:
    """Return the rows with days in place of times, and with batches in place of times of knowledge."""
    sql = """
        WITH moments AS (
            SELECT known_from AS moment FROM marts.prices_known UNION SELECT known_to FROM marts.prices_known
        ),
        numbered AS (
            SELECT moment, row_number() OVER (ORDER BY moment) AS number FROM moments WHERE moment IS NOT NULL
        )
        SELECT id, price, day(valid_from), day(valid_to), f.number, t.number, is_current
        FROM marts.prices_known JOIN numbered f ON f.moment = known_from
        LEFT JOIN numbered t ON t.moment = known_to ORDER BY ALL"""
    return [tuple(row) for row in api.query(folder, sql).rows]


def everything(folder: Path) -> list[str]:
    return sorted(map(repr, api.query(folder, "SELECT * FROM marts.prices_known").rows))


@pytest.mark.laws
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("policy", [POLICIES[0], *(pytest.param(one, marks=pytest.mark.laws) for one in POLICIES[1:])])
def test_late_changes_add_what_is_known_and_overwrite_nothing(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, policy: Policy
) -> None:
    del spark  # only there so that Java runs
    (tmp_path / "frazil.yml").write_text(DECLARATION)
    land(tmp_path, "1", "I,1,10,2026-01-01 00:00:00", "I,2,20,2026-01-01 00:00:00")
    run(tmp_path, policy)
    land(tmp_path, "2", "U,1,14,2026-01-04 00:00:00", "D,2,20,2026-01-02 00:00:00")
    run(tmp_path, policy)
    land(tmp_path, "3", "U,1,12,2026-01-02 00:00:00")
    monkeypatch.setenv("FRAZIL_FAILPOINT", "mart.before_publish:raise")
    with run_fails_with(FailpointReached):
        run(tmp_path, policy)
    monkeypatch.delenv("FRAZIL_FAILPOINT")
    assert run(tmp_path, policy) == 1

    rows = known(tmp_path)
    assert rows == [
        (1, 10, 1, 2, 3, None, False),
        (1, 10, 1, 4, 2, 3, False),
        (1, 10, 1, None, 1, 2, False),
        (1, 12, 2, 4, 3, None, False),
        (1, 14, 4, None, 2, None, True),
        (2, 20, 1, 2, 2, None, False),
        (2, 20, 1, None, 1, 2, False),
    ]
    [[tuesday]] = api.query(tmp_path, "SELECT min(known_to) FROM marts.prices_known").rows
    believed = f"""
        SELECT price FROM marts.prices_known WHERE id = 1
        AND valid_from <= '2026-01-03' AND (valid_to IS NULL OR valid_to > '2026-01-03')
        AND known_from <= '{tuesday}' AND (known_to IS NULL OR known_to > '{tuesday}')"""
    assert api.query(tmp_path, believed).rows == [(10,)]
    before = everything(tmp_path)
    api.rebuild(tmp_path, spark=spark_session(frazil.load(tmp_path)))
    assert everything(tmp_path) == before
    assert all(rule.broken == 0 for rule in api.test(tmp_path))

    # What comes again is nothing new; a history becomes a plain one, and a bitemporal one again, by a rebuild.
    land(tmp_path, "4", *["U,1,12,2026-01-02 00:00:00"] * 2)
    run(tmp_path, policy)
    assert known(tmp_path) == rows
    (tmp_path / "frazil.yml").write_text(DECLARATION.replace(", bitemporal: true", ""))
    run(tmp_path, policy)
    [[versions]] = api.query(tmp_path, "SELECT count(*) FROM marts.prices_known").rows
    assert versions == len([row for row in rows if row[5] is None])
    (tmp_path / "frazil.yml").write_text(DECLARATION)
    run(tmp_path, policy)
    assert known(tmp_path) == rows

    # What somebody else writes there is seen.
    session = spark_session(frazil.load(tmp_path))
    begins = "(SELECT min(known_from) FROM lake.marts.prices_known)"
    session.sql(f"UPDATE lake.marts.prices_known SET known_from = {begins} WHERE id = 1 AND price = 10")
    wrong = [finding.detail for finding in api.check(tmp_path) if finding.ok is False]
    assert [detail for detail in wrong if detail.startswith("2 versions have an impossible time of knowledge")]


def test_what_is_forgotten_cannot_be_known() -> None:
    text = DECLARATION.replace("sequence_by: [ts]", "sequence_by: [ts]\n    retention: {changes_days: 30}")
    with pytest.raises(DeclarationProblems, match="bitemporal, and the table has a retention"):
        check_declaration(parse_declaration(text))
