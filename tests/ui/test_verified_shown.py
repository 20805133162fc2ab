"""The page of a table shows up to when it was found equal to its source."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from starlette.testclient import TestClient

from frazil import api
from frazil.serve.check.finding import Finding, Look
from frazil.serve.checks import keep_looks
from frazil.ui.app import Project, create_app
from frazil.ui.guard import Access, local_hosts

if TYPE_CHECKING:
    from pathlib import Path

DECLARATION = """\
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - {name: orders, source: {kind: postgres, url: "${env:X}", table: public.orders, landing: ./landing}, keys: [id]}
verify: {every: 1d}
"""


def look(days_ago: float, *differing: str) -> Look:
    finding = Finding(source_table="orders", law="SOURCE", table="marts.orders", ok=not differing, detail="")
    began_at = dt.datetime.now(dt.UTC) - dt.timedelta(days=days_ago)
    return Look(finding=finding, began_at=began_at, source='public.orders "at" 0/1', differing=frozenset(differing))


def test_a_table_shows_its_mark_and_whether_it_falls_behind(tmp_path: Path) -> None:
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    pipeline, access = api.load(tmp_path), Access(port=80, hosts=local_hosts("127.0.0.1", 80) | {"testserver"})

    texts = []
    with TestClient(create_app(Project(tmp_path), access)) as client:
        client.cookies.set(access.cookie, access.session)
        for one in (look(3, "a"), look(2.5), look(0)):
            keep_looks(pipeline, [one])
            texts.append(client.get("/tables/orders").text.partition("Verified through")[2].partition("</div>")[0])

    never, late, fresh = texts
    assert "never equal" in never
    assert 'class="tag late" title="public.orders &#34;at&#34; 0/1">equal' in late
    assert 'class="tag good"' in fresh
