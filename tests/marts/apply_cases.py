"""Cases for every backend that applies a batch, as they are drawn.

``I1a@1`` inserts key 1 with value a at second 1, ``U1@2`` sets NULL, ``D1@3`` deletes, ``D1/9@3`` does so at second 9
by its source, ``~U1@4`` does not carry the value. The state of the keys is before ``||``, the batch after it. All
cases of a set are one batch on one mart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from frazil.plan.policy import DEFAULT_POLICY, Policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Row = dict[str, Any]

START = datetime(2026, 1, 1, tzinfo=UTC)

IN_TIME = (
    "|| I1a@11",
    "I1a@1 || U1b@11",
    "I1a@1 || U1a@11",
    "I1a@1 || U1@11",
    "I1a@1 || D1@11",
    "I1a@1 || D1@11 D1@12",
    "I1a@1 || U1b@11 U1c@12",
    "I1a@1 || D1@11 I1b@12",
    "I1a@1 || U1b@11 D1@12",
    "I1a@1 D1@2 || D1@11",
    "I1a@1 D1@2 || I1a@11",
    "I1a@1 D1@2 || I1b@11 I1b@11",
    "|| I1a@11 D1@12",
    "|| D1@11",
    "|| D1@11 I1a@12",
    "D1@1 || I1a@11",
    "I1a@1 I2b@2 I3c@3 || U1b@11 D2@12",
)
"""The batch begins after all that was there."""
OVERLAPPING = ("I9z@20 ||", *(case.replace("@1 ||", "@10.5 ||") for case in IN_TIME))
"""It does not, but no change of it is late."""
LATE = (
    *OVERLAPPING,
    "I1a@1 || U1b@1",
    "I1a@1 U1c@13 || U1b@12",
    "I1a@1 U1c@13 || U1b@12 U1d@14",
    "I1a@1 U1c@13 || U1b@12 D1@14",
    "I1a@1 D1@13 || U1x@12",
    "I1a@1 D1@13 || U1x@12 I1b@14",
    "I1a@1 U1b@13 || D1@12",
    "D1@13 || I1a@12",
    "I1a@5 U1b@13 || U1c@4 U1d@6",
    "I1a@1 || D1/12@1",
    "I1a@1 || D1/0.5@1",
    "I1a@1 U1a@10 || D1@10",
    "I1a@1 D1/12@1 || U1b@11",
    "I1a@1 D1/12@1 || U1b@11 U1c@11.5 D1@13",
    "I1a@1 D1/30@1 I1b@2 || U1b@11 D1/12@11 D1/15@11",
    "I1a@1 D1/12@9 || D1/13@9",
    "D1/12@1 || I1a@11",
    "D1/12@1 || I1a@11 D1/11@11 I1a@11",
)
INCOMPLETE = (
    *IN_TIME,
    "I1a@1 || ~U1@11",
    "I1a@1 D1@2 || ~U1@11",
    "I1a@1 || ~U1@11 U1b@12",
    "|| ~U1@11 D1@12",
    "|| ~U1@11 ~U1@12",
    "I1a@1 || ~U1@11 ~U1@12",
    "I1a@1 || D1@11 ~U1@12",
    "I1a@1 || ~U1@11 D1@12 ~I1@13",
    "I1a@1 || U1b@11 ~U1@12 U1c@13 ~U1@14",
    "I1a@1 D1@2 I1b@3 || ~U1@11",
    "I1a@1 I2b@1 I3c@1 || ~U1@11 U2x@11 D3@11 ~U4@11",
    "D1@1 || ~U1@11",
    "I1a@1 ~U1@2 || ~U1@11 D1@12",
)
LATE_INCOMPLETE = (
    *INCOMPLETE,
    "I1a@1 U1c@13 || ~U1@12",
    "I1a@1 ~U1@13 || U1b@12",
    "I1a@1 ~U1@13 || ~U1@12 ~U1@14",
    "I1a@1 D1@13 || ~U1@12 ~I1@14",
    "I1a@1 ~U1@13 || D1@12",
)


def random_cases(seed: int, *, first: float, last: float, timed: bool = False) -> Iterator[str]:
    """Draw cases of three keys, the changes of whose batch lie between two seconds; ``timed``: with sources' times."""
    chance = Random(seed)
    for _ in range(25):
        before = [_change(chance, 1, 10, timed=timed) for _ in range(chance.randint(0, 6))]
        batch = [_change(chance, first, last, timed=timed) for _ in range(chance.randint(0, 6))]
        yield f"{' '.join(before)} || {' '.join(batch)}"


def _change(chance: Random, first: float, last: float, *, timed: bool) -> str:
    op = chance.choice("IUUUD")
    value = "" if op == "D" else chance.choice(["a", "b", "c", ""])
    if op == "D" and timed and chance.random() < 0.5:
        value = f"/{chance.randint(0, 40) / 2:g}"
    return f"{op}{chance.randint(1, 3)}{value}@{chance.randint(int(2 * first), int(2 * last)) / 2:g}"


def random_incomplete(seed: int, *, first: float, last: float, timed: bool = False) -> Iterator[str]:
    """As :func:`random_cases`, with upserts that do not carry the value."""
    chance = Random(seed)
    for case in random_cases(seed, first=first, last=last, timed=timed):
        yield " ".join(_narrowed(one) if chance.random() < 0.4 else one for one in case.split())


def _narrowed(change: str) -> str:
    return f"~{re.sub('[a-z]@', '@', change)}" if change[0] in "IU" else change


@dataclass(frozen=True)
class CaseSet:
    """Cases that are one batch.

    Attributes:
        cases: as they are drawn.
        policy: thresholds of the backends.
        in_driver: the batch is in the driver's memory already.
        recomputes: some keys must be recomputed, but where late changes simply drop out.
        partial: some changes do not carry every column.
    """

    cases: tuple[str, ...]
    policy: Policy = DEFAULT_POLICY
    in_driver: bool = False
    recomputes: bool = False
    partial: bool = False


LARGE = Policy(order_column_rows=0, single_task_changes=0, single_task_files=0)
SETS = {
    "in time": CaseSet((*IN_TIME, *random_cases(1, first=11, last=20)), in_driver=True),
    "overlapping": CaseSet(OVERLAPPING, in_driver=True),
    "overlapping, large": CaseSet(OVERLAPPING, LARGE),
    "late": CaseSet((*LATE, *random_cases(2, first=5, last=15, timed=True)), LARGE, recomputes=True),
    "incomplete": CaseSet((*INCOMPLETE, *random_incomplete(3, first=11, last=20)), in_driver=True, partial=True),
    "incomplete, large": CaseSet((*INCOMPLETE, *random_incomplete(4, first=11, last=20)), LARGE, partial=True),
    "incomplete, late": CaseSet(
        (*LATE_INCOMPLETE, *random_incomplete(5, first=5, last=15, timed=True)), LARGE, recomputes=True, partial=True
    ),
}


def changes_of(cases: Sequence[str]) -> Iterator[Row]:
    """Read drawn cases: rows of silver, of batch 1 what is there and of batch 2 what comes."""
    for number, case in enumerate(cases):
        for batch, drawn in enumerate(case.split("||"), start=1):
            for row, text in enumerate(drawn.split(), start=1):
                found = re.fullmatch(r"(~?)([IUD])(\d)([a-z]?)(?:/([\d.]+))?@([\d.]+)", text)
                narrow, op, key, value, source, second = found.groups()  # type: ignore[union-attr]
                yield {
                    "case": number,
                    "id": int(key),
                    "ts": START + timedelta(seconds=float(second)),
                    "value": value or None,
                    "_cdc_class": "delete" if op == "D" else "upsert",
                    # Of every other case the batch stands before what is there, so equal times are late.
                    "_cdc_position": f"1/{'-ba'[batch] if number % 2 else '-ab'[batch]}/",
                    "_cdc_row": row,
                    "_cdc_batch": batch,
                    "_cdc_known": ["case", "id", "ts"] if narrow else None,
                    "_cdc_source_time": START + timedelta(seconds=float(source)) if source else None,
                }
