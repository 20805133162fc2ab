"""The last results of checks, which people see without proving again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.hostile.situation import command

from frazil import api
from frazil.serve.check.finding import Finding
from frazil.serve.checks import LAWS, SOURCE, keep_results, last_checks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.serve.conftest import Shop

    from frazil.spec import Pipeline

DECLARATION = """\
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - {name: orders, source: {kind: dms, path: ./landing, header: true}, keys: [id]}
"""


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    return api.load(tmp_path)


def found(*ended: bool | None, table: str = "orders") -> list[Finding]:
    return [Finding(source_table=table, law="ONCE", table="a secret", ok=ok, detail="a secret") for ok in ended]


def test_both_sorts_of_checks_of_each_table_are_kept_without_their_evidence(pipeline: Pipeline, tmp_path: Path) -> None:
    keep_results(pipeline, LAWS, [*found(True, True, None), *found(True, table="hosts")])
    keep_results(pipeline, SOURCE, found(False))
    keep_results(pipeline, LAWS, found(True, False))
    keep_results(pipeline, LAWS, [])

    kept = last_checks(pipeline)

    assert {
        name: (one.laws and (one.laws.held, one.laws.failed, one.laws.undecided)) for name, one in kept.items()
    } == {
        "orders": (1, 1, 0),
        "hosts": (1, 0, 0),
    }
    assert kept["orders"].source is not None
    assert kept["orders"].source.failed == 1
    assert kept["hosts"].source is None
    assert "secret" not in (tmp_path / "lake" / ".frazil" / "checks" / "latest.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["", "[]", '{"orders": 1}', '{"orders": {"laws": {"at": "x"}, "source": []}}'])
def test_a_file_that_cannot_be_read_is_as_if_nothing_was_checked(pipeline: Pipeline, tmp_path: Path, text: str) -> None:
    folder = tmp_path / "lake" / ".frazil" / "checks"
    folder.mkdir(parents=True)
    (folder / "latest.json").write_text(text, encoding="utf-8")

    assert all((one.laws, one.source) == (None, None) for one in last_checks(pipeline).values())
    keep_results(pipeline, LAWS, found(True))

    laws = last_checks(pipeline)["orders"].laws
    assert laws is not None
    assert laws.held == 1


def test_where_nothing_can_be_written_a_check_still_has_its_result(pipeline: Pipeline, tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("not a folder", encoding="utf-8")
    (tmp_path / ".frazil").write_text("not a folder either", encoding="utf-8")

    keep_results(pipeline, LAWS, found(True))

    assert last_checks(pipeline) == {}


@pytest.mark.long
@pytest.mark.spark
def test_status_says_when_a_table_was_proved_and_what_failed(undamaged_shop: Shop) -> None:
    shop = undamaged_shop  # its rows are changed here
    before = command("status", f"{shop.pipeline.folder}").text
    api.check(shop.pipeline)
    held = command("status", f"{shop.pipeline.folder}").text
    shop.session.sql("UPDATE lake.marts.items SET name = 'mine' WHERE id = 5")
    api.check(shop.pipeline)
    failed = command("status", f"{shop.pipeline.folder}").text

    assert "proofs at" not in before
    assert "held" in held
    assert "failed" not in held
    assert " failed, " in failed.partition("proofs at")[2]
