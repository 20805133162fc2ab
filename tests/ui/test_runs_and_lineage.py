"""The pages of runs and lineage, and their drawings."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient

from frazil import api
from frazil.ui.app import Project, create_app
from frazil.ui.draw.charts import layered
from frazil.ui.draw.scale import WIDTH, time_axis
from frazil.ui.guard import Access, local_hosts

if TYPE_CHECKING:
    from pathlib import Path

BEGAN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def shown(project: Path, path: str) -> tuple[int, str]:
    """Return status and text of a page."""
    access = Access(port=80, hosts=local_hosts("127.0.0.1", 80) | {"testserver"})
    with TestClient(create_app(Project(project), access)) as client:
        client.cookies.set(access.cookie, access.session)
        answer = client.get(path)
        return answer.status_code, answer.text


def seconds(*numbers: float) -> list[dt.datetime]:
    return [BEGAN + dt.timedelta(seconds=number) for number in numbers]


def test_times_are_in_proportion_and_never_outside_the_axis() -> None:
    axis = time_axis(BEGAN, seconds(0, 5, 10, 99), seconds(10)[0])

    assert axis.ends == (0.0, WIDTH / 2, WIDTH, WIDTH)
    assert [second for _, second in axis.ticks] == [0, 5, 10]


def test_a_run_of_no_time_has_an_axis() -> None:
    assert time_axis(BEGAN, seconds(0), BEGAN).ends == (0.0,)


def test_a_node_is_right_of_all_that_it_is_made_of() -> None:
    drawn = layered({"a": (), "b": ("a",), "c": ("a",), "d": ("b", "a", "elsewhere"), "e": ()})

    places = {box.name: (box.x, box.y) for box in drawn.boxes}
    assert places["a"][0] < places["b"][0] == places["c"][0] < places["d"][0]
    assert len({*places.values()}) == 5
    assert len(drawn.paths) == 4
    assert layered({}).boxes == ()


LINES = """\
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - {name: t, keys: [id], source: {kind: dms, path: ./in, header: true}}
"""


def test_without_a_lake_there_are_no_runs_and_the_declared_lineage(tmp_path: Path) -> None:
    (tmp_path / "frazil.yml").write_text(LINES, encoding="utf-8")

    assert "No run left a record" in shown(tmp_path, "/runs")[1]
    assert "marts.t" in shown(tmp_path, "/lineage")[1]
    assert shown(tmp_path, "/runs/nosuch")[0] == 400
    assert shown(tmp_path, "/lineage?table=%3Cb%3E")[0] == 404


@pytest.mark.spark
def test_a_run_shows_its_commits_on_a_time_axis(project: Path) -> None:
    newest = api.runs(project)[0]

    listed, one = shown(project, "/runs"), shown(project, f"/runs/{newest.run_id}")

    assert listed[0] == one[0] == 200
    assert listed[1].count('<span class="tag good">done</span>') == 2
    assert f'href="/runs/{newest.run_id}"' in listed[1]
    assert one[1].count('<svg class="timeline"') == len(api.past_run(project).commits) > 3
    assert "marts.items_history" in one[1]
    assert "style=" not in one[1]  # the policy of the page forbids it


@pytest.mark.spark
def test_columns_of_an_aggregate_lead_to_those_of_its_mart(project: Path) -> None:
    status, text = shown(project, "/lineage?table=gold.prices")

    assert status == 200
    assert '<a href="/lineage?table=marts.items">marts.items</a>.price' in text
    assert 'class="gold here"' in text
