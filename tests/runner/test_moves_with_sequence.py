"""KEY-CHANGE and ORDER: both records that Debezium writes of a change of key have one place in the declared order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.runner.test_departures import DEBEZIUM

import frazil
from frazil import api
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DECLARATION = f"""\
pipeline: sequenced
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {{{DEBEZIUM}}}
    keys: [id]
    sequence_by: [no]
    columns: [{{name: id, type: int}}, {{name: no, type: int}}, {{name: v}}]
    marts: [{{kind: current}}, {{kind: history, name: past}}]
    max_late_fraction: 1
"""


def _told(at_offset: int, key: int, value: dict[str, object] | None, header: tuple[str, int] | None = None) -> str:
    """Return a message; the first digit of its offset is its partition."""
    headers = [] if header is None else [[f"__debezium.{header[0]}", json.dumps({"id": header[1]})]]
    return json.dumps(
        {
            "topic": "t",
            "partition": at_offset // 10,
            "offset": at_offset % 10,
            "key": json.dumps({"id": key}),
            "value": None if value is None else json.dumps(value),
            "headers": headers,
        }
    )


def _change(op: str, lsn: int, before: dict[str, object] | None, after: dict[str, object] | None) -> dict[str, object]:
    source = {"lsn": lsn, "sequence": f'["{lsn}","{lsn}"]', "ts_ms": 1000 * lsn}
    return {"op": op, "before": before, "after": after, "source": source}


OLD, NEW, OTHER = {"id": 1, "no": 10, "v": "a"}, {"id": 2, "no": 40, "v": "a"}, {"id": 1, "no": 30, "v": "b"}
KEY_ALONE = {"id": 1, "no": None, "v": None}


@pytest.mark.laws
@pytest.mark.long
@pytest.mark.parametrize(
    ("order", "image"),
    [
        pytest.param(("own", "create"), KEY_ALONE, id="own, create: the key alone"),
        pytest.param(("both",), OLD, id="both: the old row", marks=pytest.mark.laws),
        *(
            pytest.param(order, image, id=f"{', '.join(order)}: {name}", marks=pytest.mark.laws)
            for order, image, name in (
                (("own", "create"), OLD, "the old row"),
                (("create", "own"), KEY_ALONE, "the key alone"),
                (("create", "own"), OLD, "the old row"),
                (("both",), KEY_ALONE, "the key alone"),
            )
        ),
    ],
)
def test_a_row_that_left_its_key_ends_once_at_the_sequence_of_the_change(
    order: tuple[str, ...], image: dict[str, object], spark: SparkSession, tmp_path: Path
) -> None:
    """A row with a time between the old and the new one comes to the key later, so the history tells the two apart."""
    del spark
    own = [_told(2, 1, _change("d", 400, image, None), ("newkey", 2)), _told(3, 1, None)]
    create = [_told(11, 2, _change("c", 400, None, NEW), ("oldkey", 1))]
    files = {"own": own, "create": create, "both": own + create}
    arriving = [[_told(1, 1, _change("c", 100, None, OLD))], *(files[name] for name in order)]
    arriving.append([_told(4, 1, _change("c", 500, None, OTHER))])
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    for number, lines in enumerate(arriving):
        (tmp_path / "landing" / f"{number}.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        pipeline = frazil.load(tmp_path)
        frazil.run(pipeline, spark=spark_session(pipeline))

    rows = api.query(tmp_path, "SELECT id, no, v, epoch(valid_to)::int FROM past ORDER BY id, no").rows
    assert [tuple(row) for row in rows] == [(1, 10, "a", 500), (1, 30, "b", 500), (2, 40, "a", None)]
    assert [finding for finding in api.check(tmp_path) if finding.ok is False] == []
