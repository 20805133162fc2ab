"""The DAGs of the examples, as Airflow itself reads and runs them, with the real engine as their command."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from airflow.models.asset import AssetEvent, AssetModel
from airflow.models.dagbag import DagBag
from airflow.models.renderedtifields import RenderedTaskInstanceFields
from airflow.utils.session import create_session
from sqlalchemy import select

from conftest import current_snapshot

if TYPE_CHECKING:
    from airflow.sdk import DAG


def dags_of(example: Path) -> dict[str, DAG]:
    bag = DagBag(dag_folder=str(example / "dag.py"), bundle_path=example.parent, bundle_name="dags-folder")
    assert bag.import_errors == {}
    return dict(bag.dags)


def events(like: str) -> list[tuple[str, dict[str, Any]]]:
    """Every event of assets whose address begins so, oldest first."""
    with create_session() as session:
        found = select(AssetModel.uri, AssetEvent.extra).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        rows = session.execute(found.where(AssetModel.uri.startswith(like)).order_by(AssetEvent.id)).all()
    return [(row.uri, row.extra) for row in rows]


@pytest.mark.parametrize("example", ["airbnb"], indirect=True)
def test_a_group_has_a_task_for_each_table_and_announces_what_it_committed(example: Path) -> None:
    dag = dags_of(example)["airbnb"]
    assert dag.task_dict.keys() == {"tables.hosts", "tables.gold"}
    assert dag.task_dict["tables.gold"].upstream_task_ids == {"tables.hosts"}
    assert dag.test().state == "success"
    first = events("iceberg://airbnb/")
    announced = dict(first)
    assert "iceberg://airbnb/gold/hosts_by_country" in announced
    for mart in ("hosts", "hosts_history"):
        told = announced[f"iceberg://airbnb/marts/{mart}"]["snapshot_id"]
        assert told == current_snapshot(example / "lake", f"marts/{mart}")
    assert dag.test().state == "success"
    assert events("iceberg://airbnb/") == first


@pytest.mark.parametrize("example", ["airbnb"], indirect=True)
def test_the_dags_of_the_readme_are_read(example: Path) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    (example / "dag.py").write_text("\n".join(blocks).replace("/data/airbnb", str(example)))
    dags = dags_of(example)
    assert dags["airbnb"].task_dict.keys() == {"tables.hosts", "tables.gold"}
    assert dags["dashboards"].task_dict.keys() == {"refresh"}


@pytest.mark.parametrize("example", ["products"], indirect=True)
def test_select_and_full_refresh_are_parameters(example: Path) -> None:
    dags = dags_of(example)
    assert dags["products"].test(run_conf={"select": "products"}).state == "success"
    assert len(events("iceberg://products/marts")) == 3
    gold = dags["products"].test(run_conf={"select": "stock_by_category"})
    assert gold.get_task_instance("run").xcom_pull(task_ids="run")["tables"] == []
    assert dags["products"].test(run_conf={"select": "", "full_refresh": True}).state == "success"
    assert len(events("iceberg://products/marts")) == 6
    assert dags["products_nightly"].test().state == "success"


@pytest.mark.parametrize("example", ["shop"], indirect=True)
def test_the_address_of_a_database_comes_from_a_connection(
    example: Path,
    shop_db: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", shop_db)
    dags = dags_of(example)
    assert dags.keys() == {"shop", "shop_nightly", "shop_mail"}
    run = dags["shop"].test()
    assert run.state == "success"
    shown = RenderedTaskInstanceFields.get_templated_fields(run.get_task_instance("run"))
    assert "SHOP_DB" in str(shown)
    password = urlsplit(shop_db).password
    assert password
    assert password not in f"{shown}{''.join(capfd.readouterr())}{caplog.text}"
    assert {"iceberg://shop/marts/orders", "iceberg://shop/marts/orders_history_scd2"} <= dict(
        events("iceberg://shop/")
    ).keys()
    assert dags["shop_nightly"].test().state == "success"
