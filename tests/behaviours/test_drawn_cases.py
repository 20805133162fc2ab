"""The acceptance cases, each drawn as it arrives and as it ends, in all four marts.

``I1a@1`` is an insert of key 1 with value a at second 1; ``U1@2`` sets NULL. ``|`` stands between files,
``||`` between runs. Files are named by their number in the drawing; ``3:`` gives another number, ``L:`` makes
a full load file, ``~`` one without the field ``value``, and ``=1`` delivers file 1 again under another name.

Current tables are drawn as ``1a``, with ``x@2`` behind what was deleted at second 2; histories as
``1a [1, 2)``, with ``x`` behind what is deleted. All cases share one table: one lake, three runs. The cases of this
file come first, then the ones in docs/guarantees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.docs.drawings import Drawing, drawings

import frazil
from frazil.spark.session import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

DECLARATION = """
pipeline: cases
lake: {warehouse: ./lake}
tables:
  - name: things
    source: {kind: dms, path: ./landing, header: true}
    keys: [case, id]
    sequence_by: [ts]
    columns:
      - {name: case, type: int}
      - {name: id, type: int}
      - {name: ts, type: timestamp}
      - {name: value, type: string}
    marts:
      - {kind: current, name: hard}
      - {kind: current, name: soft, deletes: soft}
      - {kind: history, name: close}
      - {kind: history, name: mark, deletes: mark}
"""


@dataclass(frozen=True)
class Case:
    """Arriving files, and the expected marts."""

    law: str
    arrives: str
    hard: str
    soft: str
    close: str
    mark: str


CASES = {
    "a load and five changes": Case(
        "ORDER",
        "L: I1a@1 I2a@1 I3a@1 || I5a@2 U2b@3 D3@4 I6a@5 U2c@6",
        "1a, 2c, 5a, 6a",
        "1a, 2c, 3a x@4, 5a, 6a",
        "1a [1, ), 2a [1, 3), 2b [3, 6), 2c [6, ), 3a [1, 4)x, 5a [2, ), 6a [5, )",
        "1a [1, ), 2a [1, 3), 2b [3, 6), 2c [6, ), 3a [1, 4), 3a [4, )x, 5a [2, ), 6a [5, )",
    ),
    "every change of a batch is a version": Case(
        "HISTORY", "I1a@1 U1b@2 U1c@3", "1c", "1c", *["1a [1, 2), 1b [2, 3), 1c [3, )"] * 2
    ),
    "files in reverse order": Case(
        "CONVERGE", "3: U1c@3 || 2: U1b@2 || 1: I1a@1", "1c", "1c", *["1a [1, 2), 1b [2, 3), 1c [3, )"] * 2
    ),
    "a late change splits the version it falls into": Case(
        "LATE", "I1a@1 U1c@3 || U1b@2", "1c", "1c", *["1a [1, 2), 1b [2, 3), 1c [3, )"] * 2
    ),
    "a late change does not overwrite": Case(
        "LATE", "U1c@3 || U1a@1 || U1b@2", "1c", "1c", *["1a [1, 2), 1b [2, 3), 1c [3, )"] * 2
    ),
    "a late update does not bring a deleted key back": Case(
        "NO-RESURRECTION",
        "I1a@1 D1@2 || U1x@1.5",
        "",
        "1x x@2",
        "1a [1, 1.5), 1x [1.5, 2)x",
        "1a [1, 1.5), 1x [1.5, 2), 1x [2, )x",
    ),
    "a delete before its insert": Case(
        "DELETES", "2: D1@2 || 1: I1a@1", "", "1a x@2", "1a [1, 2)x", "1a [1, 2), 1a [2, )x"
    ),
    "a delete without values, in its own run": Case(
        "DELETES", "I1a@1 || D1@2", "", "1a x@2", "1a [1, 2)x", "1a [1, 2), 1a [2, )x"
    ),
    "a delete of what was updated in the same run": Case(
        "DELETES",
        "I1a@1 || U1b@2 D1@3",
        "",
        "1b x@3",
        "1a [1, 2), 1b [2, 3)x",
        "1a [1, 2), 1b [2, 3), 1b [3, )x",
    ),
    "a second delete": Case("DELETES", "I1a@1 || D1@2 || D1@3", "", "1a x@3", "1a [1, 2)x", "1a [1, 2), 1a [2, )x"),
    "a key that comes back leaves a gap": Case(
        "DELETES",
        "I1a@1 || D1@2 || I1b@3",
        "1b",
        "1b",
        "1a [1, 2)x, 1b [3, )",
        "1a [1, 2), 1a [2, 3)x, 1b [3, )",
    ),
    "a key that comes back as it was": Case(
        "HISTORY",
        "I1a@1 D1@2 || I1a@3",
        "1a",
        "1a",
        "1a [1, 2)x, 1a [3, )",
        "1a [1, 2), 1a [2, 3)x, 1a [3, )",
    ),
    "a delete of an unknown key": Case("UNSEEN", "D1@5", "", "", "", ""),
    "a delete of an unknown key, then older values": Case(
        "UNSEEN", "D1@5 || D1@4 || 0: U1a@3", "", "1a x@5", "1a [3, 4)x", "1a [3, 4), 1a [4, )x"
    ),
    "an update of an unknown key": Case("UNSEEN", "U1b@2", "1b", "1b", "1b [2, )", "1b [2, )"),
    "an insert of a known key": Case("UNSEEN", "I1a@1 || I1b@2", "1b", "1b", *["1a [1, 2), 1b [2, )"] * 2),
    "a tie in one file": Case("ORDER", "U1a@5 U1b@5", "1b", "1b", "1b [5, )", "1b [5, )"),
    "a tie across files": Case("ORDER", "2: U1b@5 || 1: U1a@5", "1b", "1b", "1b [5, )", "1b [5, )"),
    "a tie of a load and a change": Case("ORDER", "1: U1b@5 || L: I1a@5", "1b", "1b", "1b [5, )", "1b [5, )"),
    "a tie that ends with a delete": Case(
        "HISTORY", "U1a@5 || D1@5", "", "1a x@5", "1a [5, 5)x", "1a [5, 5), 1a [5, )x"
    ),
    "a tie that begins with a delete": Case("ORDER", "D1@5 U1a@5", "1a", "1a", "1a [5, )", "1a [5, )"),
    "equal states are one version": Case(
        "HISTORY", "I1a@1 || U1a@2 || U1b@3", "1b", "1b", *["1a [1, 3), 1b [3, )"] * 2
    ),
    "a late change makes two equal states one": Case(
        "HISTORY", "I1a@1 U1b@3 || 0: U1b@2", "1b", "1b", *["1a [1, 2), 1b [2, )"] * 2
    ),
    "a file delivered twice": Case("ONCE", "I1a@1 || U1b@2 || =1", "1b", "1b", *["1a [1, 2), 1b [2, )"] * 2),
    "an explicit NULL": Case("MISSING-IS-NOT-NULL", "I1a@1 || U1@2", "1-", "1-", *["1a [1, 2), 1- [2, )"] * 2),
    "a column that is not carried": Case("MISSING-IS-NOT-NULL", "I1a@1 || ~U1@2", "1a", "1a", "1a [1, )", "1a [1, )"),
    "a value that arrives after the change that does not carry it": Case(
        "MISSING-IS-NOT-NULL", "I1a@1 || 3: ~U1@3 || 2: U1b@2", "1b", "1b", *["1a [1, 2), 1b [2, )"] * 2
    ),
    "a column that is not carried after a delete": Case(
        "MISSING-IS-NOT-NULL",
        "I1a@1 D1@2 || ~U1@3",
        "1-",
        "1-",
        "1a [1, 2)x, 1- [3, )",
        "1a [1, 2), 1a [2, 3)x, 1- [3, )",
    ),
}

DRAWN = [*drawings()]
ARRIVE = [*(case.arrives for case in CASES.values()), *(drawing.arrives for drawing in DRAWN)]

Marts = dict[str, dict[int, list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def marts(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Marts:
    """Mart -> case -> rows, once all cases have arrived."""
    folder = tmp_path_factory.mktemp("cases")
    (folder / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    pipeline = frazil.load(folder)
    del spark  # Java runs, with the settings of the tests; this lake gets a session of its own
    session = spark_session(pipeline)
    deliveries = [[*files(number, arrives)] for number, arrives in enumerate(ARRIVE)]
    for run in range(3):
        for number, delivered in enumerate(deliveries):
            for name, content in (file for at, *file in delivered if at == run):
                path = folder / "landing" / f"{number}" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
        frazil.run(pipeline, spark=session)
    found: Marts = {}
    for mart in ("hard", "soft", "close", "mark"):
        found[mart] = {number: [] for number in range(len(ARRIVE))}
        for row in session.table(f"lake.marts.{mart}").toArrow().to_pylist():
            found[mart][row["case"]].append(row)
    return found


def files(number: int, drawing: str) -> Iterator[tuple[int, str, str]]:
    """Read a drawing: run, file name and content of each file."""
    contents: list[str] = []
    for run, files_of_run in enumerate(drawing.split("||")):
        for file in re.split(r"\|", files_of_run):
            label, narrow, records = re.fullmatch(r"\s*(?:(\w+):)?\s*(~?)(.*?)\s*", file).groups()  # type: ignore[union-attr]
            if again := re.fullmatch(r"=(\d+)", records):
                yield run, "9.csv", contents[int(again[1]) - 1]
                continue
            lines = ["op,case,id,ts" + ("" if narrow else ",value")]
            for text in records.split():
                op, key, value, second = re.fullmatch(r"([IUD])(\d)([a-z]?)@([\d.]+|-)", text).groups()  # type: ignore[union-attr]
                time = "NULL" if second == "-" else f"2026-01-01 00:00:{float(second):09.6f}"
                line = f"{op},{number},{key},{time}"
                lines.append(line if narrow else f"{line},{value or 'NULL'}")
            contents.append("\n".join([*lines, ""]))
            name = "LOAD00000001" if label == "L" else label or f"{len(contents)}"
            yield run, f"{name}.csv", contents[-1]


@pytest.mark.parametrize("name", CASES)
def test_the_marts_end_as_drawn(name: str, marts: Marts) -> None:
    """Each case cites the law it shows; a failure names it."""
    case, number = CASES[name], list(CASES).index(name)

    drawn = {mart: draw(marts[mart][number]) for mart in marts}

    assert drawn == {"hard": case.hard, "soft": case.soft, "close": case.close, "mark": case.mark}, case.law


@pytest.mark.parametrize("drawing", DRAWN, ids=lambda drawing: drawing.place)
def test_the_marts_end_as_the_docs_draw_them(drawing: Drawing, marts: Marts) -> None:
    number = len(CASES) + DRAWN.index(drawing)

    assert {mart: draw(marts[mart][number]) for mart in drawing.marts} == drawing.marts


def test_the_marts_agree(marts: Marts) -> None:
    """AGREE: current = soft where not is_deleted = history where is_current and not is_deleted."""

    def living(mart: str) -> list[tuple[Any, ...]]:
        rows = [row for rows in marts[mart].values() for row in rows]
        return sorted(
            (row["case"], row["id"], row["ts"], row["value"] or "")
            for row in rows
            if not row.get("is_deleted") and row.get("is_current", True)
        )

    assert living("hard") == living("soft") == living("close") == living("mark")


def draw(rows: list[dict[str, Any]]) -> str:
    def second(time: Any) -> str:
        return "" if time is None else f"{time.second + time.microsecond / 1e6:g}"

    def one(row: dict[str, Any]) -> tuple[Any, ...]:
        begin = f"{row['id']}{row['value'] or '-'}"
        if "valid_from" in row:
            end = " " if row["valid_to"] is None else f" {second(row['valid_to'])}"
            assert row["is_current"] == (row["valid_to"] is None)
            return (
                row["id"],
                row["valid_from"],
                row["valid_to"] is None,
                f"{begin} [{second(row['valid_from'])},{end}){'x' * row['is_deleted']}",
            )
        return row["id"], None, True, begin + (f" x@{second(row['deleted_at'])}" if row.get("is_deleted") else "")

    return ", ".join(text for *_, text in sorted(map(one, rows)))
