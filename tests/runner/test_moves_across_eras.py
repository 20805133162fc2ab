"""KEY-CHANGE and ORDER: a key that changes its partition where only one of the two has seen a failover."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

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
pipeline: eras
lake: {{warehouse: ./lake}}
tables:
  - name: things
    source: {{{DEBEZIUM}}}
    keys: [id]
    columns: [{{name: id, type: int}}, {{name: v}}]
    marts: [{{kind: current}}]
"""


class Topic:
    """Messages of a topic of PostgreSQL with two partitions."""

    def __init__(self) -> None:
        self.offsets = Counter[int]()

    def tell(self, key: int, op: str, lsn: int, value: str = "", other: int = 0) -> dict[str, Any]:
        """Return a change; key 7 and key 6 share a partition. ``other`` is the key of the other record of a move."""
        partition, image = int(key > 1), {"id": key, "v": value}
        self.offsets[partition] += 1
        source = {"lsn": lsn, "sequence": f'["{lsn}","{lsn}"]', "snapshot": "false"}
        source["ts_ms"] = 1_767_225_600_000 + 1000 * (lsn if lsn < 900 else 0)
        change = {"op": op, "before": image if op == "d" else None, "after": None if op == "d" else image}
        name = f"__debezium.{'newkey' if op == 'd' else 'oldkey'}"
        return {
            "topic": "t",
            "partition": partition,
            "offset": self.offsets[partition],
            "key": json.dumps({"id": key}),
            "value": json.dumps(change | {"source": source}),
            "headers": [[name, json.dumps({"id": other})]] if other else [],
        }


@pytest.mark.long
def test_a_row_that_comes_to_a_key_after_one_left_for_another_era_stays(spark: SparkSession, tmp_path: Path) -> None:
    """The create's partition is in its second era, that of the old key in its first; the delete comes later."""
    del spark
    topic = Topic()
    before = [topic.tell(7, "c", 1000, "seven"), topic.tell(1, "c", 100, "one"), topic.tell(7, "u", 500, "seven")]
    create, delete = topic.tell(6, "c", 510, "__debezium_unavailable_value", 1), topic.tell(1, "d", 510, other=6)
    again = topic.tell(1, "c", 520, "new one")
    (tmp_path / "landing").mkdir()
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")

    for number, batch in enumerate(([*before, create], [delete, again])):
        lines = "".join(f"{json.dumps(one)}\n" for one in batch)
        (tmp_path / "landing" / f"{number}.jsonl").write_text(lines, encoding="utf-8")
        pipeline = frazil.load(tmp_path)
        frazil.run(pipeline, spark=spark_session(pipeline))

    assert dict(api.query(tmp_path, "SELECT id, v FROM things").rows) == {1: "new one", 6: "one", 7: "seven"}
    assert [finding for finding in api.check(tmp_path) if finding.ok is False] == []
