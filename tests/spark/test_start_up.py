"""The archive that makes Java start faster is created once, also with concurrent sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.spark.java import JavaHome
from frazil.spark.jvm import start_up_options

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def test_one_session_makes_the_archive_and_others_go_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = options_in(tmp_path, monkeypatch)

    assert any(one.startswith("-XX:ArchiveClassesAtExit=") for one in options())
    assert options() == []


def test_an_archive_that_vanishes_during_the_search_is_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = options_in(tmp_path, monkeypatch)
    # As a file that its session has renamed after the folder was listed: there is a name, and nothing behind it.
    (tmp_path / "cache" / "start-up").mkdir(parents=True)
    (tmp_path / "cache" / "start-up" / "0123456789abcdef.jsa.part.7").symlink_to(tmp_path / "gone")

    assert any(one.startswith("-XX:ArchiveClassesAtExit=") for one in options())


def options_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Return what chooses the options for a Java with classes of its own, with a cache in a folder."""
    monkeypatch.setenv("FRAZIL_CACHE", f"{tmp_path / 'cache'}")
    monkeypatch.delenv("FRAZIL_START_UP_ARCHIVE", raising=False)
    archive = tmp_path / "java" / "lib" / "server" / "classes.jsa"
    archive.parent.mkdir(parents=True)
    archive.touch()
    java = JavaHome(tmp_path / "java", "17.0.15", "test")
    return lambda: start_up_options(java, [], [])
