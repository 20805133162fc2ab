"""The log of Spark, which all sessions of a user share, and the user that may start it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from frazil.errors import SessionError
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


def test_a_user_whom_the_system_does_not_know_cannot_start_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user is a number."""
    jvm.verify_user()

    monkeypatch.setattr(os, "geteuid", lambda: 1_234_567_890)

    with pytest.raises(SessionError, match="user 1234567890 has no name on this machine") as refused:
        jvm.verify_user()
    assert "RUN useradd --uid 1234567890 frazil" in (refused.value.hint or "")
