"""HANDOVER: the snapshots that are landed, and valid declarations of a handover."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from tests.sources.handovers import DUMPS, FORMS, declared, dump

from frazil.errors import DeclarationError
from frazil.sources.handover.capture import (
    LostFieldError,
    TakenFieldError,
    UnknownTimeError,
    compared_table,
    handover_captures,
)
from frazil.sources.kinds import rows_at_source, source_of
from frazil.sources.snapshot.capture import BadKeyError
from frazil.sources.snapshot.source import UnreadableDumpError
from frazil.sources.snapshot.taken import DumpChangedError
from frazil.spec.load.parse import parse_declaration
from frazil.spec.model.kinds.handover import Handover
from frazil.testing.changes import COLUMNS

if TYPE_CHECKING:
    from pathlib import Path


def test_nothing_is_landed_of_a_snapshot_whose_time_is_unknown(tmp_path: Path) -> None:
    [table] = declared(tmp_path, "dumps and dms").tables
    [capture] = handover_captures(declared(tmp_path, "dumps and dms"), [table])
    dump(tmp_path, "rows", [1])

    with pytest.raises(UnknownTimeError, match=r"nothing says when snapshot rows\.jsonl was taken"):
        capture.land(tmp_path, lambda _: None)

    (tmp_path / "dumps" / "rows.jsonl").rename(tmp_path / "dumps" / "2999-01-01.jsonl")
    with pytest.raises(UnknownTimeError, match="and its files are from"):
        capture.land(tmp_path, lambda _: None)
    assert not (tmp_path / "copies").exists()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{"id": 1}\n{"id": 1}\n', BadKeyError),
        ('{"id": 1}\n{"id": \n', UnreadableDumpError),
        ('{"id": 1, "__at": 1}\n', TakenFieldError),
        ('{"name": 1}\n', BadKeyError),
    ],
)
def test_a_snapshot_that_cannot_be_right_is_refused(text: str, error: type[Exception], tmp_path: Path) -> None:
    pipeline = declared(tmp_path, "dumps and dms")
    [capture] = handover_captures(pipeline, pipeline.tables)
    (tmp_path / "dumps" / "2026-01-01.jsonl").write_text(text, encoding="utf-8")

    with pytest.raises(error):
        capture.land(tmp_path, lambda _: None)
    assert not [*(tmp_path / "copies").rglob("*.parquet")]


def test_a_snapshot_that_changes_after_it_was_copied_is_refused(tmp_path: Path) -> None:
    """NOTHING-LOST: a part that came late was never read, and its rows were deleted."""
    pipeline = declared(tmp_path, "dumps and dms")
    [capture] = handover_captures(pipeline, pipeline.tables)
    (tmp_path / "dumps" / "2026-01-01").mkdir()
    (tmp_path / "dumps" / "2026-01-01" / "0.jsonl").write_text('{"id": 1}\n')
    capture.land(tmp_path, lambda _: None)
    (tmp_path / "dumps" / "2026-01-01" / "1.jsonl").write_text('{"id": 2}\n')

    with pytest.raises(DumpChangedError):
        capture.land(tmp_path, lambda _: None)


def test_a_snapshot_without_a_field_that_an_earlier_one_has_is_refused(tmp_path: Path) -> None:
    """MISSING-IS-NOT-NULL: the column became NULL in every row."""
    pipeline = declared(tmp_path, "dumps and dms")
    [capture] = handover_captures(pipeline, pipeline.tables)
    (tmp_path / "dumps" / "2026-01-01.csv").write_text("id,note,other\n1,a,b\n")
    capture.land(tmp_path, lambda _: None)
    (tmp_path / "dumps" / "2026-01-02.csv").write_text("id,other\n1,b\n")

    with pytest.raises(LostFieldError, match=r"has no field 'note', and snapshot 2026-01-01\.csv has"):
        capture.land(tmp_path, lambda _: None)
    (tmp_path / "dumps" / "2026-01-02.csv").write_text("id,note\n1,\n")
    assert capture.land(tmp_path, lambda _: None).files == 1


@pytest.mark.parametrize("form", FORMS)
def test_nothing_of_a_handover_is_plain(form: str, tmp_path: Path) -> None:
    """What is typed without Spark would not know of a snapshot in the same batch."""
    [table] = declared(tmp_path, form).tables
    fields = ("__at", "__snapshot", "__snapshot_step", "audit_event_id", "audit_operation", "raw_problem", *COLUMNS)

    assert source_of(table).meaning({name: name for name in fields}, "_cdc_position").plain is None


@pytest.mark.parametrize(
    ("snapshots", "changes", "compared"),
    [
        ("{kind: snapshot, path: ./dumps}", "{kind: dms, path: ./landing}", None),
        ("{kind: snapshot, url: x, table: y, every_minutes: 1}", "{kind: dms, path: ./landing}", "snapshot"),
        (
            "{kind: snapshot, url: x, table: y, every_minutes: 1}",
            "{kind: audit_log, url: x, log: l, table: y}",
            "audit_log",
        ),
        ("{kind: dms, path: ./loads}", "{kind: audit_log, url: x, log: l, table: y}", "audit_log"),
        ("{kind: dms, path: ./loads}", "{kind: audit_log, path: ./landing, table: y}", None),
    ],
)
def test_a_handover_is_compared_where_one_of_its_parts_has_a_table(
    snapshots: str, changes: str, compared: str | None, tmp_path: Path
) -> None:
    if "url: x, log" in changes:
        changes = changes.replace("}", ", landing: ./log}")
    [table] = declared(tmp_path, "dumps and dms").tables
    given = {
        **table.source.model_dump(mode="json"),
        "snapshots": yaml.safe_load(snapshots),
        "changes": yaml.safe_load(changes),
    }
    table = table.model_copy(update={"source": Handover.model_validate(given)})
    part, elsewhere = compared_table(table), table.source.landed_in("/elsewhere")

    assert (part and part.source.kind) == compared
    assert (rows_at_source(table) is None) == (compared is None)
    assert (elsewhere is not None) == ("url: x, log" in changes)
    if elsewhere is not None:
        assert elsewhere.changes.landing == "/elsewhere"
        assert elsewhere.landing.startswith("/elsewhere/")


def test_a_snapshot_is_landed_once(tmp_path: Path) -> None:
    pipeline = declared(tmp_path, "dumps and dms")
    [capture] = handover_captures(pipeline, pipeline.tables)
    dump(tmp_path, "2026-01-01", [1, 2])
    dump(tmp_path, "2026-01-02", [1, 2])

    assert capture.land(tmp_path, lambda _: None).records == 6
    assert capture.land(tmp_path, lambda _: None).files == 0


@pytest.mark.parametrize(
    ("part", "other", "problem"),
    [
        ("keys: [id]", "keys: [id]\n    sequence_by: [ts]", "has sequence_by"),
        ("time: ts, ", "", "nothing says when a change"),
        ("columns: [", 'columns: ["*", ', "declares no columns of its own"),
        ("path: ./dumps", "path: ./dumps, landing: ./x", "landing of the snapshots"),
        ("{kind: snapshot, path: ./dumps, settle_seconds: 0}", "{kind: snapshot, url: x, table: y}", "at every run"),
        ("landing: ./copies", "landing: ./landing/copies", "shares a folder with changes"),
        ("path: ./dumps", "path: ./copies/things", "lie in one folder with copies"),
        (DUMPS, "{kind: dms, path: [./a, ./b]}", "are not in one folder"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused(part: str, other: str, problem: str) -> None:
    text = """
pipeline: handover
lake: {warehouse: ./lake}
tables:
  - name: things
    source:
      {kind: handover, snapshots: SNAPSHOTS, time: ts, landing: ./copies,
      changes: {kind: dms, path: ./landing, header: true}}
    keys: [id]
    columns: [{name: id, type: int}, {name: ts, type: timestamp}]
""".replace("SNAPSHOTS", DUMPS)
    parse_declaration(text)

    with pytest.raises(DeclarationError, match=problem):
        parse_declaration(text.replace(part, other))
