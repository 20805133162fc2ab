"""Landing files of several tables, and whether they reach one position together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from frazil.sources.audit_log.capture import LogCapture
from frazil.sources.capture import LandsTogether
from frazil.sources.postgres.landed.landing import LOAD, RELOAD, CaptureState, Landing
from frazil.spec import AuditLog

if TYPE_CHECKING:
    from pathlib import Path

PLACES = (("public", "debits"), ("public", "credits"))
TABLES = tuple(".".join(place) for place in PLACES)


@pytest.mark.parametrize(
    ("state", "rows", "is_whole"),
    [
        ({"position": 20}, {"debits": f"{LOAD}{10:016X}", "credits": f"{LOAD}{20:016X}"}, True),
        ({"position": 20, "until": 30}, {"debits": f"{LOAD}{10:016X}", "credits": f"{LOAD}{20:016X}"}, False),
        ({"position": 20}, {"debits": f"{LOAD}{10:016X}", "credits": f"{LOAD}{21:016X}"}, False),
        ({"position": 20}, {"debits": f"{LOAD}{10:016X}"}, False),
        ({"position": 5, "era": 1}, {"debits": f"{LOAD}{10:016X}", "credits": f"{LOAD}g0001-{5:016X}"}, True),
        ({"position": 5, "era": 1}, {"debits": f"{LOAD}{10:016X}", "credits": f"{LOAD}g0001-{6:016X}"}, False),
        (
            {"position": 20, "stopped": TABLES[:1]},
            {"debits": f"{LOAD}{10:016X}", "credits": f"{LOAD}{20:016X}"},
            False,
        ),
        ({"position": 20, "tables": TABLES[:1]}, {"debits": f"{LOAD}{10:016X}", "credits": f"{LOAD}{20:016X}"}, False),
        (None, {}, False),
    ],
)
def test_the_files_of_a_slot_are_complete_if_none_is_beyond_its_position(
    state: dict[str, Any] | None, rows: dict[str, str], *, is_whole: bool, tmp_path: Path
) -> None:
    landing = Landing(tmp_path, "frazil")
    if state is not None:
        landing.keep(CaptureState(system="1", database="shop", **{"tables": TABLES, **state}))
    for table, name in rows.items():
        (landing.table("public", table) / name).mkdir(parents=True)

    assert landing.is_whole(PLACES) is is_whole


def test_rows_that_were_read_again_beyond_the_position_are_not_whole(tmp_path: Path) -> None:
    landing = Landing(tmp_path, "frazil")
    landing.keep(CaptureState(system="1", database="shop", position=20, tables=TABLES))
    for _, table in PLACES:
        (landing.table("public", table) / f"{LOAD}{10:016X}").mkdir(parents=True)
    assert landing.is_whole(PLACES)

    (landing.table("public", "debits") / f"{RELOAD}{25:016X}").mkdir()

    assert not landing.is_whole(PLACES)


def test_the_files_of_a_log_are_whole_when_no_turn_died_before_its_bookmark(tmp_path: Path) -> None:
    tables = ("public.debits", "public.credits")
    log: dict[str, Any] = {"url": "postgresql://h/d", "log": "public.log", "landing": "landing"}
    capture = LogCapture(tables, tuple(AuditLog(table=table, **log) for table in tables))
    root = tmp_path / "landing"
    (root / tables[0]).mkdir(parents=True)
    assert isinstance(capture, LandsTogether)
    assert not capture.is_whole(tmp_path)

    (root / ".public.log.bookmark.json").write_text(json.dumps({"number": 1}), encoding="utf-8")
    (root / tables[0] / "000000001-00000000000000000001.parquet").touch()
    assert capture.is_whole(tmp_path)

    (root / tables[0] / "000000002-00000000000000000002.parquet").touch()
    assert not capture.is_whole(tmp_path)
