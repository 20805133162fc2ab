"""No row of bronze has a value of a column of personal data, from whatever file it came."""

from __future__ import annotations

import datetime as dt
import gzip
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.bronze.pii import Treatment, treatment_of, verify_key
from frazil.bronze.read import Batch, Correction, corrected_rows, records
from frazil.sources.kinds import source_of
from frazil.sources.ledger import Ledger
from frazil.spec import Pipeline
from frazil.spec.pii import PiiKeyError, hashed

if TYPE_CHECKING:
    from pathlib import Path

KEY = b"0123456789abcdef"
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PRIVATE = ("ann@example.org", "old@example.org", "+47 1234", "Main Street")
"""In every file below."""

_COLUMNS = [
    {"name": "email", "pii": "hmac"},
    {"name": "phone", "pii": "mask"},
    {"name": "street", "pii": "drop"},
    {"name": "city"},
    {"name": "ts", "type": "timestamp"},
]
_ROW = {"email": PRIVATE[0], "phone": PRIVATE[2], "street": PRIVATE[3], "city": "Oslo", "ts": "2026-01-01 00:00:00"}
_OLD = {**_ROW, "email": PRIVATE[1]}


def _csv(header: bool = True) -> bytes:  # noqa: FBT001, FBT002 - a test's shorthand
    head = "Op,email,phone,street,city,ts\n" if header else ""
    quoted = ",".join(f'"{text}"' for text in _ROW.values())
    bad = f"U,{PRIVATE[1]},{PRIVATE[3]}\n"
    odd = 'U,"' + PRIVATE[1] + '"x,' + PRIVATE[2] + ",,,\n"
    return f"{head}I,{','.join(_ROW.values())}\nU,{quoted}\n{bad}{odd}U,,,,Rome,\n".encode()


def _log(old: bool) -> dict[str, Any]:  # noqa: FBT001
    line = {
        "audit_event_id": 1,
        "audit_operation": "U",
        "audit_timestamp": "2026-01-01 00:00:00",
        "tbl_schema": "public",
        "tbl_name": "people",
        "raw_data": json.dumps(_ROW),
    }
    return line | ({"old": json.dumps(_OLD)} if old else {})


def _event() -> str:
    return json.dumps(
        {"op": "u", "before": _OLD, "after": _ROW, "source": {"schema": "public", "table": "people", "ts_ms": 1}}
    )


def _parquet(path: Path) -> None:
    rows = [{"Op": "I", **_ROW}, {"Op": "U", **_OLD}]
    pq.write_table(pa.Table.from_pylist(rows), path)


KINDS: dict[str, tuple[dict[str, Any], str, bytes]] = {
    "dms": ({"kind": "dms", "header": True}, "20260101-000000000.csv", _csv()),
    "dms without header": ({"kind": "dms"}, "20260101-000000000.csv", _csv(header=False)),
    "dms packed": ({"kind": "dms", "header": True}, "20260101-000000000.csv.gz", gzip.compress(_csv())),
    "audit log": (
        {"kind": "audit_log", "table": "public.people", "old_data": "old"},
        "log.jsonl",
        f"{json.dumps(_log(old=True))}\n{PRIVATE[0]} is no JSON\n".encode(),
    ),
    "debezium": (
        {"kind": "debezium", "table": "public.people"},
        "events.jsonl",
        f'{_event()}\n{{"op": "u", "{PRIVATE[1]}"\n'.encode(),
    ),
}


def _pipeline(source: dict[str, Any]) -> Pipeline:
    table = {"name": "people", "source": source, "keys": ["email"], "sequence_by": ["ts"], "columns": _COLUMNS}
    return Pipeline.model_validate({"pipeline": "shop", "lake": {"warehouse": "lake"}, "tables": [table]})


def _rows(declared: Pipeline, folder: Path, treatment: Treatment | None) -> list[dict[str, Any]]:
    source = source_of(declared.tables[0])
    files = source.find_new(folder, Ledger()).files
    assert files
    batch = Batch(source=source, columns=source.columns(files, ()), number=1, arrived_at=NOW, treatment=treatment)
    pieces = [piece for file in files for piece in records(file, batch)]
    assert all(piece.schema == batch.schema for piece in pieces)
    return [row for piece in pieces for row in piece.to_pylist()]


def _treatment(declared: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Treatment:
    monkeypatch.setenv("PII_KEY", KEY.decode())
    found = treatment_of(declared.model_copy(update={"pii_key": "${env:PII_KEY}"}), declared.tables[0])
    assert found is not None
    return found


@pytest.mark.parametrize("name", KINDS)
def test_no_row_has_a_private_value_whatever_the_kind_of_source(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, file, content = KINDS[name]
    (tmp_path / file).write_bytes(content)
    declared = _pipeline({**source, "path": "."}).at(tmp_path)

    as_they_came = repr(_rows(declared, tmp_path, None))
    rows = _rows(declared, tmp_path, _treatment(declared, monkeypatch))

    assert all(word in as_they_came for word in PRIVATE)
    assert [word for word in PRIVATE if word in repr(rows)] == []
    first = next(row for row in rows if row["_cdc_kind"] == "record")
    assert (first["email"], first["phone"], first["street"]) == (hashed(KEY, PRIVATE[0]), "***", None)
    assert first["city"] == "Oslo"
    assert {row["_cdc_kind"] for row in rows} == ({"record", "file"} | ({"bad"} if "bad" in as_they_came else set()))


def test_parquet_files_are_treated_and_null_stays_null(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _parquet(tmp_path / "20260101-000000000.parquet")
    declared = _pipeline({"kind": "dms", "path": ".", "format": "parquet"}).at(tmp_path)

    rows = _rows(declared, tmp_path, treatment := _treatment(declared, monkeypatch))

    assert [word for word in PRIVATE if word in repr(rows)] == []
    assert [row["email"] for row in rows[:2]] == [hashed(KEY, PRIVATE[0]), hashed(KEY, PRIVATE[1])]
    nulls = treatment.treated(pa.table({"email": pa.nulls(2, pa.string()), "phone": ["x", None]}))
    assert nulls.to_pylist() == [{"email": None, "phone": "***"}, {"email": None, "phone": None}]


def test_a_record_that_a_person_corrected_is_treated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = _pipeline({"kind": "dms", "path": ".", "header": True})
    treatment, columns = _treatment(declared, monkeypatch), ("Op", "email", "phone")
    batch = Batch(source=source_of(declared.tables[0]), columns=columns, number=1, arrived_at=NOW)
    values = [PRIVATE[0], hashed(KEY, PRIVATE[0])]
    given = [
        Correction(file="f", row=row, position="1/f", fields={"Op": "U", "email": value, "phone": "***"}, text=value)
        for row, value in enumerate(values)
    ]

    rows = treatment.treated(corrected_rows(given, batch), again=True).to_pylist()

    assert [row["email"] for row in rows] == [hashed(KEY, PRIVATE[0])] * 2
    assert [row["_cdc_raw"] for row in rows] == [None, None]


def test_another_key_is_noticed_and_none_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = _pipeline({"kind": "dms", "path": ".", "header": True})
    treatment = _treatment(declared, monkeypatch)

    verify_key(declared.tables[0], {}, treatment)
    verify_key(declared.tables[0], treatment.bookmark, treatment)
    with pytest.raises(PiiKeyError, match="another key"):
        verify_key(declared.tables[0], treatment.bookmark, Treatment(ways=treatment.ways, key=b"another key, as long"))
    assert KEY.decode() not in repr(treatment) + repr(treatment.bookmark)
    assert Treatment(ways={"phone": "mask"}).bookmark == {}
