"""The log of Spark, which all sessions of a user share."""

from __future__ import annotations

from pathlib import Path

import pytest

from frazil.spark import jvm


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jvm, "_LOG_LIMIT_BYTES", 3)
    return tmp_path / "spark.log"


def test_a_long_log_is_removed_and_a_short_one_is_kept(log: Path) -> None:
    jvm._begin_again(log)
    log.write_text("abc")
    jvm._begin_again(log)
    assert log.exists()

    log.write_text("abcd")
    jvm._begin_again(log)
    assert not log.exists()


def test_a_log_that_another_session_removes_first_is_not_an_error(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write_text("abcd")
    unlink = Path.unlink

    def second(path: Path, *, missing_ok: bool = False) -> None:
        unlink(path)
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", second)
    jvm._begin_again(log)

    assert not log.exists()
