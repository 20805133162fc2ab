"""What is shown of proofs, of a query's rows and of a check's progress, to people and to a pipe."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from frazil.cli import console
from frazil.cli.commands.prove import show_proofs
from frazil.cli.console import fitted, grid
from frazil.cli.progress import CheckProgress, Progress
from frazil.serve.check.finding import Finding
from frazil.serve.query.query import QueryError, _check_reading, is_star


def finding(ok: bool | None, *, table: str = "t", detail: str = "so", **more: Any) -> Finding:  # noqa: FBT001
    return Finding(source_table=table, law="ORDER", table=f"marts.{table}", ok=ok, detail=detail, **more)


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_proofs_stand_by_table_and_failed_ones_first(capsys: pytest.CaptureFixture[str]) -> None:
    show_proofs(
        [
            finding(True),
            finding(None, detail="not yet"),
            finding(False, detail="no file", code="FZ300", hint="frazil run --full-refresh --select t"),
            finding(True, table="u"),
        ]
    )

    assert printed(capsys) == [
        "t: 1 proof fails, 1 proof holds, 1 proof undecided",
        "  WRONG  ORDER  marts.t  [FZ300] no file",
        "         hint: frazil run --full-refresh --select t",
        "  ?      ORDER  marts.t  not yet",
        "  ok     ORDER  marts.t  so",
        "",
        "u: 1 proof holds",
        "  ok     ORDER  marts.u  so",
        "",
    ]


def test_unproven_parts_are_the_last_line_of_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    unseen = finding(None, detail="compared with its files", hint="frazil check --source --select t")
    show_proofs([finding(True), finding(True, table="u")], [unseen])

    assert printed(capsys) == [
        "t: 1 proof holds",
        "  ok     ORDER  marts.t  so",
        "  compared with its files: frazil check --source --select t",
        "",
        "u: 1 proof holds",
        "  ok     ORDER  marts.u  so",
        "",
    ]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console.out, "width", 40)


@pytest.mark.usefixtures("narrow")
def test_a_grid_that_fits_stays_one(capsys: pytest.CaptureFixture[str]) -> None:
    fitted(["id", "name"], [[1, "snow"], [2, None]])

    lines = printed(capsys)
    assert [line for line in lines if "snow" in line or "NULL" in line] == [" 1    snow", " 2    NULL"]


def test_no_value_and_a_text_of_the_same_letters_look_different(capsys: pytest.CaptureFixture[str]) -> None:
    fitted(["name", "note"], [["NULL", None]])

    assert printed(capsys)[-2].split() == ["'NULL'", "NULL"]


def test_counts_have_separators_and_data_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    grid(None, ["rows", "snapshot"], [[62365, 80022717]], right=["rows"])
    fitted(["rows"], [[62365]])

    assert [line.split() for line in printed(capsys) if "6" in line] == [["62,365", "80022717"], ["62365"]]


def test_long_data_is_cut_and_what_frazil_says_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    fitted(["raw"], [["x" * 100]])
    grid(None, ["found"], [["x" * 100]])

    cut, whole = (line.strip() for line in printed(capsys) if "x" in line)
    assert cut == f"{'x' * 59}…"
    assert whole == "x" * 100


@pytest.mark.usefixtures("narrow")
def test_a_wide_grid_is_turned_as_many_rows_beside_one_another_as_fit(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["number", "description", "where it was seen"]
    rows = [[number, f"wet snow {number}", "in the mountains"] for number in (1, 2, 3)]

    fitted(names, rows)

    blocks = "\n".join(printed(capsys)).strip("\n").split("\n\n")
    assert len(blocks) == 3
    assert blocks[0].splitlines() == [
        " number              1",
        " description         wet snow 1",
        " where it was seen   in the mountains",
    ]

    fitted(["number", "a longer name"], [[1, "aaaa"], [2, "b b"], [3, "c" * 30]])

    blocks = "\n".join(printed(capsys)).strip("\n").split("\n\n")
    assert [line.split() for line in blocks[0].splitlines()] == [
        ["number", "1", "2"],
        ["a", "longer", "name", "aaaa", "b", "b"],
    ]
    assert len(blocks) == 2


@pytest.mark.usefixtures("narrow")
def test_words_of_a_turned_grid_are_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["precipitation", "accumulates", "overnight", "everywhere"]

    fitted(["reason"], [[" ".join(words)]])

    text = capsys.readouterr().out
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize(
    ("sql", "star"),
    [
        ("select * from t", True),
        ("from t where id = 1", True),
        ("select t.*, u.* from t join u using (id)", True),
        ("select * exclude (a) from (select _cdc_row, a, b from t) order by 1 limit 3", True),
        ("with t as (select 1) select * from t", True),
        ("select *, _cdc_row from t", False),
        ("select _cdc_row from t", False),
        ("select columns('.*') from t", False),
        ("select id from (select * from t)", False),
        ("select * from t union all select * from t", False),
    ],
)
def test_bookkeeping_was_not_asked_for_where_the_outermost_select_is_a_star(sql: str, *, star: bool) -> None:
    assert is_star(sql) is star


def test_a_word_of_sql_in_place_of_a_table_has_the_table_as_a_hint() -> None:
    with pytest.raises(QueryError, match=r"not SQL(.|\n)*did you mean 'marts\.orders'"):
        _check_reading("select * from order", ["marts.orders"])
    with pytest.raises(QueryError) as raised:
        _check_reading("select * fro orders", ["marts.orders"])
    assert raised.value.hint is None


def test_elsewhere_than_on_a_terminal_lines_come_ten_seconds_apart(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    with CheckProgress(clock=lambda: now[0]) as shown:
        for second in range(31):
            now[0] = second
            shown.began("t", "count the records") if second % 7 == 0 else shown.progressed("t", f"{second} %")

    assert capsys.readouterr().err.splitlines() == [
        "t: count the records 10 %",
        "t: count the records 20 %",
        "t: count the records 30 %",
    ]


def test_with_json_nothing_is_said_on_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    with CheckProgress(quiet=True, clock=lambda: now[0]) as shown:
        now[0] = 100.0
        shown.began("t", "count the records")

    assert capsys.readouterr().err == ""


def test_elsewhere_than_on_a_terminal_a_command_says_that_it_starts_spark_and_what_it_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Progress(first="start Spark") as shown:
        shown.step("maintain marts.orders")

    assert capsys.readouterr().err.splitlines() == ["start Spark", "maintain marts.orders"]


def test_the_seconds_of_a_step_go_on_between_two_events() -> None:
    now, terminal = [0.0], Console(width=80)
    shown = Progress(first=None, clock=lambda: now[0])
    shown.began("orders", "normalize")

    now[0] = 12.0
    with terminal.capture() as said:
        terminal.print(shown._grid())

    assert " ".join(said.get().split()[1:]) == "orders normalize 12 s"
