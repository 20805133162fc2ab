"""HANDOVER of DMS: a second full load agrees with the table, or stops it."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

import frazil
from frazil import api
from frazil.runner.report import RunFailedError
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.errors import FrazilError
    from frazil.runner.report import RunReport

TABLE: Final = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: t
    source: {{kind: dms, path: ./landing, header: true, settle_seconds: 0{more}}}
    keys: [id]
    {sequence}
    columns: [{{name: id, type: int}}, {{name: n, type: string}}, {{name: at, type: timestamp}}]
    marts:
      - {{kind: current}}
      - {{kind: history, name: t_history}}
"""
MADE: Final = "2026-01-01 00:00:00"
"""Time of each row, unless it says more."""


class Shop:
    """One table of DMS files, in a lake of its own."""

    def __init__(self, folder: Path, sequence: str = "") -> None:
        self.folder, self.sequence = folder, sequence or "effective_at: at"
        (folder / "landing").mkdir(parents=True)
        self.declare("")

    def declare(self, more: str) -> None:
        (self.folder / "frazil.yml").write_text(TABLE.format(more=more, sequence=self.sequence))

    def land(self, files: Mapping[str, str]) -> None:
        """Write files of rows such as ``1a 2b@5``, at five o'clock; those of a change begin with their op: ``U1a``."""
        for name, rows in files.items():
            self._write(name, rows)

    def _write(self, name: str, rows: str) -> None:
        path = self.folder / "landing" / f"{name}.csv"
        path.parent.mkdir(exist_ok=True)
        is_load = "LOAD" in name
        lines = ["id,n,at"] if is_load else ["op,id,n,at"]
        for row in rows.split():
            text, _, hour = row.partition("@")
            op, row_text = ("", text) if is_load else (f"{text[0]},", text[1:])
            at = MADE if not hour else f"2026-01-01 {int(hour):02}:00:00"
            lines.append(f"{op}{row_text[:-1]},{row_text[-1]},{at}")
        path.write_text("".join(f"{line}\n" for line in lines))

    def run(self) -> RunReport:
        pipeline = frazil.load(self.folder)
        return frazil.run(pipeline, spark=spark_session(pipeline))

    def refused(self) -> FrazilError:
        with pytest.raises(RunFailedError) as refused:
            self.run()
        return refused.value.errors[0]

    def rows(self) -> str:
        found = api.query(self.folder, "SELECT id, n FROM t ORDER BY id").rows
        return " ".join(f"{key}{n}" for key, n in found)

    def wrong(self) -> list[str]:
        return [f"{finding}" for finding in api.check(self.folder) if finding.ok is False]


LOAD: Final = {"LOAD00000001": "1a 2b 3c"}
FIRST: Final = {**LOAD, "20260102-000000000": "U1x D2b"}
BY_TIME: Final = "sequence_by: [at]"


@pytest.mark.parametrize(
    ("runs", "said", "sequence"),
    [
        ([FIRST, {"again/LOAD00000001": "1y 3c 4d"}], '1 row with other values, such as {"id":1}', ""),
        ([FIRST, {"again/LOAD00000001": "1x"}], '1 row too few, such as {"id":3}', ""),
        ([FIRST, {"LOAD00000002": "1x 2b"}], "1 row that the table does not have, 1 row too few", ""),
        ([FIRST, {"again/LOAD00000001": "1x@5"}], '1 row too few, such as {"id":3}', BY_TIME),
        ([{**FIRST, "again/LOAD00000001": "1x 3d"}], "two full loads have the same keys", ""),
        ([FIRST, {"again/LOAD00000001": "1x 3c", "20260103-000000000": "U3z"}], "1 row with other", ""),
    ],
)
def test_a_second_full_load_that_differs_stops_the_table(
    runs: list[dict[str, str]], said: str, sequence: str, spark: SparkSession, tmp_path: Path
) -> None:
    del spark
    shop = Shop(tmp_path, sequence)
    for files in runs[:-1]:
        shop.land(files)
        shop.run()
    shop.land(runs[-1])

    error = shop.refused()

    assert (error.code, error.exit_code) == ("FZ417", 5)
    assert said in f"{error}"
    if len(runs) > 1:
        assert shop.rows() == "1x 3c"


@pytest.mark.parametrize(
    ("runs", "rows", "sequence"),
    [
        ([FIRST, {"again/LOAD00000001": "1x 3c 4d"}], "1x 3c 4d", ""),
        ([LOAD | {"20260102-000000000": "U1x U4z D5e"}, {"LOAD00000002": "4d 5e 6f"}], "1x 2b 3c 4z 6f", ""),
        ([FIRST, {"again/LOAD00000001": "1a 2b 3c"}], "1x 3c", ""),
        ([LOAD, {"again/LOAD00000001": "1a 2b 3c", "again/LOAD00000002": "3c 4d"}], "1a 2b 3c 4d", ""),
        ([LOAD | {"20260102-000000000": "U1x@1 U2y@9"}, {"again/LOAD00000001": "1z@5 2q@5 3c"}], "1z 2y 3c", BY_TIME),
    ],
    ids=["agrees", "late files of the first load", "a copy", "a copy in part", "newer by sequence"],
)
def test_other_full_loads_are_taken(
    runs: list[dict[str, str]], rows: str, sequence: str, spark: SparkSession, tmp_path: Path
) -> None:
    del spark
    shop = Shop(tmp_path, sequence)

    for files in runs:
        shop.land(files)
        shop.run()

    assert shop.rows() == rows
    assert shop.wrong() == []


def test_a_second_full_load_is_taken_when_its_other_files_are_there_or_changes_may_win(
    spark: SparkSession, tmp_path: Path
) -> None:
    del spark
    shop = Shop(tmp_path)
    shop.land(FIRST)
    shop.run()

    shop.land({"again/LOAD00000001": "1x"})
    shop.refused()
    shop.land({"again/LOAD00000002": "3c 4d"})
    shop.run()
    assert shop.rows() == "1x 3c 4d"

    shop.land({"third/LOAD00000001": "1q 5e"})
    shop.refused()
    shop.declare(", snapshots: partial")
    shop.run()
    assert shop.rows() == "1x 3c 4d 5e"
    assert shop.wrong() == []


@pytest.mark.parametrize("seed", range(4))
def test_no_run_with_a_second_full_load_leaves_a_wrong_table(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    del spark
    random, shop = Random(seed), Shop(tmp_path)
    held = dict.fromkeys(range(1, 9), "a")
    shop.land({"LOAD00000001": _load(held)})

    def change(count: int) -> str:
        changes = []
        for _ in range(count):
            key, value = random.randrange(1, 11), random.choice("bcde")
            if key in held and random.random() < 0.3:
                changes.append(f"D{key}{held.pop(key)}")
            else:
                held[key] = value
                changes.append(f"U{key}{value}")
        return " ".join(changes)

    shop.land({"20260102-000000000": change(5)})
    shop.run()
    lost = change(random.randrange(2))
    shop.land({"again/LOAD00000001": _load(held)})
    late = change(random.randrange(2))
    shop.land({"20260103-000000000": late})

    if lost or late:
        with suppress(RunFailedError):
            shop.run()
            assert shop.rows() == _load(held)
    else:
        shop.run()
        assert shop.rows() == _load(held)


def _load(held: Mapping[int, str]) -> str:
    return " ".join(f"{key}{held[key]}" for key in sorted(held))
