"""What a run reports of a batch, drawn: the same in all four marts and with every strategy.

Arrivals are drawn as in ``test_drawn_cases.py``. Of each run ``+1`` is a key inserted, ``~1`` one updated, ``-1`` one
deleted and ``<1`` a late change. The second run begins after all that the first had, the third anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.behaviours.test_drawn_cases import DECLARATION, files
from tests.counting import Counts, Picture, counted, reported
from tests.properties.strategies import STRATEGIES, go_by

import frazil
from frazil.runner.options import RunOptions
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARTS = ("hard", "soft", "close", "mark")
CASES = {
    "new keys": ("I1a@1 I2b@1 || I3c@11", "+2 || +1"),
    "an update": ("I1a@1 || U1b@11", "+1 || ~1"),
    "an update that changes nothing": ("I1a@1 || U1a@11", "+1 || ~1"),
    "an insert of a known key": ("I1a@1 || I1b@11", "+1 || ~1"),
    "an update of an unseen key": ("I9z@1 || U1b@11", "+1 || +1"),
    "a delete": ("I1a@1 || D1@11", "+1 || -1"),
    "a delete of an unseen key": ("I9z@1 || D1@11", "+1 ||"),
    "a delete of a deleted key": ("I1a@1 D1@2 || D1@11", "||"),
    "a deleted key that comes back": ("I1a@1 D1@2 || I1b@11", "|| +1"),
    "a deleted key that comes back as it was": ("I1a@1 || D1@11 || I1a@21", "+1 || -1 || +1"),
    "two changes of a key in a batch": ("I1a@1 || U1b@11 U1c@12", "+1 || ~1"),
    "a delete and an insert of a key in a batch": ("I1a@1 || D1@11 I1b@12", "+1 || ~1"),
    "an update and a delete of a key in a batch": ("I1a@1 || U1b@11 D1@12", "+1 || -1"),
    "an insert and a delete of a new key in a batch": ("I9z@1 || I1a@11 D1@12", "+1 ||"),
    "a first load of changes": ("I1a@1 U1b@3 U1c@2 I2a@1 D2@2", "+1"),
    "a late update": ("I1a@1 || U1c@13 || U1b@12", "+1 || ~1 || <1"),
    "late changes on both sides of a version": ("I1a@5 || U1b@13 || U1c@4 U1d@6", "+1 || ~1 || <2"),
    "a late change that makes two equal states one": ("I1a@1 || U1b@13 || U1b@12", "+1 || ~1 || <1"),
    "a late update beside a newer one": ("I1a@1 || U1c@13 || U1b@12 U1d@14", "+1 || ~1 || ~1 <1"),
    "a late update beside a newer delete": ("I1a@1 || U1c@13 || U1b@12 D1@14", "+1 || ~1 || -1 <1"),
    "a late update of a deleted key": ("I1a@1 || D1@13 || U1x@12", "+1 || -1 || <1"),
    "a late delete": ("I1a@1 || U1b@13 || D1@12", "+1 || ~1 || <1"),
    "a late delete of a deleted key that comes back": ("I1a@1 || D1@13 || D1@12 I1b@14", "+1 || -1 || +1 <1"),
    "a delete before its insert": ("I9z@1 || D1@13 || I1a@12", "+1 || || <1"),
    "old changes of an unseen key are not late": ("I9z@1 || I9y@11 || U1b@3 U1c@2", "+1 || ~1 || +1"),
    "a file delivered again": ("I1a@1 || U1b@11 || =2", "+1 || ~1 ||"),
    "a change delivered again in a later file": ("I1a@1 || U1b@11 || U1b@11 I2a@11", "+1 || ~1 || +1 ~1"),
    "a change delivered again in an earlier file": ("I1a@1 || 5: U1b@11 || 4: U1b@11 I2a@11", "+1 || ~1 || +1 <1"),
}

Seen = list[tuple[dict[str, Counts], Picture, Picture]]


@pytest.fixture(
    scope="module",
    params=[
        "row_delta",
        *(pytest.param(strategy, marks=pytest.mark.laws) for strategy in STRATEGIES if strategy != "row_delta"),
    ],
)
def seen(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """Of each run what it reports, and the tables before and after it."""
    del spark  # only there so that Java runs
    folder = tmp_path_factory.mktemp("counts")
    (folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    pipeline = frazil.load(folder)
    session = spark_session(pipeline)
    arriving = [[*files(number, arrives)] for number, (arrives, _) in enumerate(CASES.values())]
    pictures, reports = [Picture.of(session, "things", MARTS)], []
    for run in range(3):
        for number, arrived in enumerate(arriving):
            for name, content in (file for at, *file in arrived if at == run):
                path = folder / "landing" / f"{number}" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
        reports.append(reported(frazil.run(pipeline, spark=session, options=RunOptions(policy=go_by(request.param)))))
        pictures.append(Picture.of(session, "things", MARTS))
    return list(zip(reports, pictures, pictures[1:], strict=False))


def drawn(counts: str) -> list[Counts]:
    """Read the drawn counts of each of three runs."""
    runs = [dict.fromkeys("+~-<", 0) | {word[0]: int(word[1:]) for word in run.split()} for run in counts.split("||")]
    return [Counts(*run.values()) for run in runs] + [Counts()] * (3 - len(runs))


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_each_case_counts_as_drawn_in_all_marts(name: str, seen: Seen) -> None:
    number = list(CASES).index(name)
    shown = [
        counted(before.where("case", number), after.where("case", number), ("case", "id"), ("ts",))
        for _, before, after in seen
    ]

    assert shown == [dict.fromkeys(MARTS, counts) for counts in drawn(CASES[name][1])]


@pytest.mark.long
def test_the_runs_report_what_is_drawn(seen: Seen) -> None:
    cases = [drawn(counts) for _, counts in CASES.values()]
    together = [Counts(*map(sum, zip(*run, strict=True))) for run in zip(*cases, strict=True)]

    assert [report for report, *_ in seen] == [dict.fromkeys(MARTS, counts) for counts in together]
