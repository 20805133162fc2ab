"""Hosts, from a file that lands to gold: Airflow watches the folder, and runs when something has arrived."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, AssetOrTimeSchedule, AssetWatcher, CronTriggerTimetable, task
from frazil_airflow.assets import table_asset
from frazil_airflow.files import NewFilesTrigger
from frazil_airflow.group import frazil_group

PROJECT = Path(__file__).resolve().parent
LANDING = PROJECT / "landing"

landing = Asset(
    "airbnb_landing",
    uri=LANDING.as_uri(),
    watchers=[AssetWatcher(name="new_files", trigger=NewFilesTrigger(path=str(LANDING), poll_seconds=5))],
)
gold = table_asset("airbnb", "gold.hosts_by_country")

# Once an hour without an event too: what an event is missed for is found all the same.
hourly = AssetOrTimeSchedule(timetable=CronTriggerTimetable("0 * * * *", timezone="UTC"), assets=[landing])

with DAG("airbnb", schedule=hourly, max_active_runs=1, tags=["frazil"], doc_md=__doc__):
    frazil_group("tables", project=str(PROJECT))

with DAG(
    "airbnb_dashboards", schedule=[gold], tags=["frazil"], doc_md="Runs when gold has changed, and knows its snapshot."
):

    @task
    def refresh(triggering_asset_events: Any) -> list[str]:
        """Return the snapshots to show: a dashboard's refresh stands here."""
        return [event.extra["snapshot_id"] for event in triggering_asset_events[gold]]

    refresh()
