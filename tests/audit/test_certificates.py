"""Certificates: changed, removed and foreign files and commits are reported."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from frazil import api
from frazil.audit.certificates import CertificateStore
from frazil.errors import FrazilWarning
from frazil.failpoints import FailpointReached

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.shop import Shop

    from frazil.serve.check.finding import Finding

KEY = "0123456789abcdef"


def certifying(shop: Shop, **settings: str) -> Shop:
    pipeline = shop.pipeline.model_copy(update={"certificates": True, **settings})
    return replace(shop, pipeline=pipeline.at(shop.pipeline.folder))


def wrong(shop: Shop, *, known: Sequence[str] = ()) -> list[str]:
    return [_line(one) for one in found(shop, known=known) if one.ok is False]


def found(shop: Shop, *, known: Sequence[str] = ()) -> tuple[Finding, ...]:
    return api.check_certificates(shop.pipeline, known=known)


def _line(finding: Finding) -> str:
    return f"{finding.table}: {finding.detail}"


def unsure(shop: Shop) -> list[str]:
    return [_line(one) for one in found(shop) if one.ok is None]


def files(shop: Shop) -> list[Path]:
    return sorted((shop.pipeline.folder / "lake" / ".frazil" / "certificates" / "shop").iterdir())


def digest(shop: Shop) -> str:
    store = CertificateStore.of(shop.pipeline)
    assert store is not None
    newest = store.newest()
    assert newest is not None
    return newest.digest


@pytest.mark.long
def test_changed_removed_reordered_or_forged_certificates_are_reported(shop: Shop) -> None:
    shop = certifying(shop)
    for number in range(3):
        shop.land(f"{number}.csv", f"I,{number},2026-01-01 00:00:0{number},a", f"U,0,2026-01-02 00:00:0{number},b")
        shop.run()
    first, second, third = files(shop)
    assert wrong(shop, known=[digest(shop)]) == unsure(shop) == []
    told = [json.loads(file.read_bytes())["sources"]["orders"]["changes"] for file in files(shop)]
    assert [(one["batch"], one["rows"], one["restated"]) for one in told] == [
        (1, 2, True),
        (2, 4, False),
        (3, 6, False),
    ]
    assert "2.csv" in told[2]["through"]
    assert len(found(shop)) == 1 + 5 + 1  # the certificates, each table, the changes

    content = second.read_bytes()
    second.unlink()
    assert wrong(shop)[0] == "certificates: certificate 2 is missing"
    second.write_bytes(content.replace(b'"batch":2', b'"batch":7', 1))
    assert wrong(shop)[0] == "certificates: certificate 2 was changed"
    # Its bytes and its name changed together: the next one holds the hash of another.
    second.unlink()
    forged = CertificateStore.of(shop.pipeline)
    assert forged is not None
    said = json.loads(content)
    forged.write({**said, "act": "maintain"}, b"")
    assert wrong(shop)[0] == "certificates: certificate 3 was not made after certificate 2 as it is"
    files(shop)[1].unlink()
    second.write_bytes(content)
    one, three = first.read_bytes(), third.read_bytes()
    first.write_bytes(three)
    third.write_bytes(one)
    assert wrong(shop)[:2] == ["certificates: certificate 1 was changed", "certificates: certificate 3 was changed"]
    first.write_bytes(one)
    third.unlink()
    noted = third.name.partition("-")[2].removesuffix(".json")
    assert wrong(shop, known=[noted])[0].startswith("certificates: no certificate has the hash")
    third.write_bytes(three)
    assert wrong(shop) == []

    strange = forged.write({"number": 4, "previous": noted, "state": {"tables": {"marts.orders": 7}}}, b"")
    assert wrong(shop) == ["marts.orders: a certificate is not of a form that Frazil writes"]
    assert shop.run_again() == 0  # what cannot be certified stops no run
    next(file for file in files(shop) if strange in file.name).unlink()

    mart = shop.pipeline.folder / "lake" / "marts" / "orders"
    changed = max(mart.rglob("data/*.parquet"), key=lambda path: path.stat().st_mtime)
    content = changed.read_bytes()
    changed.write_bytes(content[:50] + bytes([content[50] ^ 1]) + content[51:])
    assert wrong(shop) == [f"marts.orders: 1 file changed: data/{changed.name}"]
    changed.write_bytes(content)
    assert wrong(shop) == []

    forged.write({"number": 4, "previous": noted, "state": {"tables": {"marts.orders": 7}}}, b"")
    with pytest.warns(FrazilWarning, match="certificate cannot be written"):
        api.maintain(shop.pipeline, spark=shop.session)


@pytest.mark.laws
def test_a_foreign_commit_is_reported_until_the_table_is_rebuilt(shop: Shop) -> None:
    shop = certifying(shop)
    shop.land("1.csv", "I,1,2026-01-01 00:00:00,a", "I,2,2026-01-01 00:00:00,a")
    shop.run()

    shop.session.sql("UPDATE lake.marts.orders SET note = 'forged' WHERE id = 1")

    [told] = wrong(shop)
    assert told.startswith("marts.orders: written by somebody else: snapshot ")
    shop.land("2.csv", "I,3,2026-01-03 00:00:00,a")
    shop.run()  # a run does not certify what it has not written
    [told] = wrong(shop)
    assert told.startswith("marts.orders: before certificate 2 written by somebody else: snapshot ")
    api.rebuild(shop.pipeline, spark=shop.session)
    assert wrong(shop) == []
    shop.session.sql("DELETE FROM lake.silver.orders_changes WHERE id = 2")
    assert [line.partition(": ")[0] for line in wrong(shop)] == ["silver.orders_changes"] * 2
    assert wrong(shop)[1].endswith("2 now, 3 then")


@pytest.mark.laws
def test_commands_leave_certificates_and_a_killed_run_shows(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEAL", KEY)
    shop = certifying(shop, certificate_key="${env:SEAL}")
    for number in range(2):
        shop.land(f"{number}.csv", f"I,{number},2026-01-01 00:00:0{number},a", "U,0,2026-01-02 00:00:00,b")
        shop.run()
    shop.land("3.csv", "I,3,2026-01-03 00:00:00,a")
    monkeypatch.setenv("FRAZIL_FAILPOINT", "certificate.before_write:raise")
    with pytest.raises(FailpointReached):
        shop.run()
    monkeypatch.delenv("FRAZIL_FAILPOINT")

    assert wrong(shop) == []
    assert "marts.orders: 1 snapshot newer than the newest certificate: frazil run writes another" in unsure(shop)
    shop.run()  # nothing new, and its certificate covers what the killed run left
    assert wrong(shop) == unsure(shop) == []
    assert any("left by runs that were killed" in one.detail for one in found(shop))
    count = len(files(shop))
    shop.run()
    assert len(files(shop)) == count

    api.maintain(shop.pipeline, spark=shop.session)
    api.rollback(shop.pipeline, api.rollback_plan(shop.pipeline, "orders", "batch:2"), spark=shop.session)
    api.erase(shop.pipeline, "orders", keys=["1"], spark=shop.session)
    acts = [json.loads(path.read_bytes())["act"] for path in files(shop)[count:]]
    assert acts == ["maintain"] * (len(acts) - 2) + ["rollback", "erase"]
    assert len(acts) > 2
    assert wrong(shop) == unsure(shop) == []
    monkeypatch.setenv("SEAL", "another key, as long")
    assert len(wrong(shop)) == count + len(acts)
    monkeypatch.delenv("SEAL")
    assert KEY not in files(shop)[-1].read_text(encoding="utf-8")
