from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from frazil.errors import JarError
from frazil.spark.jars import (
    AWS,
    POSTGRESQL,
    Jar,
    default_jars,
    iceberg_runtime,
    is_ready,
    jar_folder,
    jars_for,
    ready_jars,
)
from frazil.spec import DmsFiles, JdbcCatalog, Lake, Pipeline, ServiceCatalog, Table

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = b"a jar, as far as anyone looks"
PINNED = Jar("org.example", "jar", "1.0", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())

# A mirror is a folder here: what Ivy reads is the user's own settings file, and no network is touched.
SETTINGS = """
<ivysettings>
  <settings defaultResolver="mirror"/>
  <resolvers>
    <filesystem name="mirror" m2compatible="true">
      <artifact pattern="{mirror}/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"/>
    </filesystem>
  </resolvers>
</ivysettings>
"""


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FRAZIL_CACHE", f"{tmp_path / 'cache'}")
    jar_folder().mkdir(parents=True)


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    (tmp_path / "settings.xml").write_text(SETTINGS.format(mirror=tmp_path / "mirror"))
    monkeypatch.setenv("FRAZIL_IVY_SETTINGS", f"{tmp_path / 'settings.xml'}")
    place = tmp_path / "mirror" / "org" / "example" / "jar" / "1.0" / "jar-1.0.jar"
    place.parent.mkdir(parents=True)
    return place


def lake(warehouse: str, catalog: JdbcCatalog | ServiceCatalog | None = None) -> Pipeline:
    table = Table(name="t", source=DmsFiles(path=("landing",)), keys=("id",))
    where = Lake(warehouse=warehouse) if catalog is None else Lake(warehouse=warehouse, catalog=catalog)
    return Pipeline(pipeline="p", lake=where, tables=(table,))


def test_only_what_the_lake_needs_is_asked_for() -> None:
    on_postgresql = JdbcCatalog(type="jdbc", uri="jdbc:postgresql://db/lake")
    on_sqlite = JdbcCatalog(type="jdbc", uri="jdbc:sqlite:lake.db")

    assert jars_for(lake("lake")) == default_jars()
    assert jars_for(lake("lake", on_sqlite)) == default_jars()
    assert jars_for(lake("lake", on_postgresql)) == (*default_jars(), POSTGRESQL)
    assert jars_for(lake("s3://bucket/lake", on_postgresql)) == (*default_jars(), POSTGRESQL, AWS)
    assert jars_for(lake("lake", ServiceCatalog(type="glue"))) == (*default_jars(), AWS)


@pytest.mark.parametrize(
    ("spark", "name"),
    [("3.5.6", "runtime-3.5_2.12"), ("4.0.5", "runtime-4.0_2.13"), ("4.1.4-amzn-0", "runtime-4.1_2.13")],
)
def test_iceberg_is_the_one_for_the_version_of_spark(spark: str, name: str) -> None:
    assert iceberg_runtime(spark).name == f"iceberg-spark-{name}"


@pytest.mark.parametrize("spark", ["3.4.4", "4.10.0", "4.2.0.dev1", "5"])
def test_an_untested_spark_is_refused_with_the_way_out(spark: str) -> None:
    with pytest.raises(JarError, match=rf"Spark {spark}\n  hint: Frazil was tried with Spark 3.5, 4.0, 4.1"):
        iceberg_runtime(spark)


@pytest.mark.process
def test_a_jar_comes_from_the_users_mirror_once(mirror: Path) -> None:
    mirror.write_bytes(CONTENT)
    told: list[str] = []

    first = ready_jars([PINNED], tell=told.append)
    mirror.unlink()
    second = ready_jars([PINNED], tell=told.append)

    assert first == second == (jar_folder() / "jar-1.0.jar",)
    assert first[0].read_bytes() == CONTENT
    assert told == ["fetching jar-1.0.jar (0 MB)"]


@pytest.mark.process
def test_caches_that_link_to_one_folder_of_jars_have_the_same_paths(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.write_bytes(CONTENT)
    first = ready_jars([PINNED])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "jars").symlink_to(jar_folder())

    monkeypatch.setenv("FRAZIL_CACHE", f"{tmp_path / 'other'}")

    assert ready_jars([PINNED]) == first


@pytest.mark.process
def test_a_damaged_jar_is_fetched_again(mirror: Path) -> None:
    mirror.write_bytes(CONTENT)
    (path,) = ready_jars([PINNED])
    path.write_bytes(CONTENT.replace(b"jar", b"rat"))

    ready_jars([PINNED])

    assert path.read_bytes() == CONTENT


@pytest.mark.process
def test_a_jar_with_other_content_is_refused_and_both_sums_are_named(mirror: Path) -> None:
    mirror.write_bytes(b"something else")

    with pytest.raises(JarError) as caught:
        ready_jars([PINNED])

    assert f"expected SHA-256 {PINNED.sha256}" in caught.value.message
    assert f"found {hashlib.sha256(b'something else').hexdigest()}" in caught.value.message
    assert list(jar_folder().iterdir()) == []


@pytest.mark.process
def test_a_jar_that_cannot_be_had_names_its_coordinates_and_the_ways_out(mirror: Path) -> None:
    assert not mirror.exists()

    with pytest.raises(JarError, match=r"cannot fetch org\.example:jar:1\.0: .*not found") as caught:
        ready_jars([PINNED])

    assert caught.value.hint is not None
    assert "FRAZIL_IVY_SETTINGS" in caught.value.hint
    assert f"{jar_folder()}" in caught.value.hint


def test_a_jar_of_the_right_size_and_wrong_content_is_not_ready() -> None:
    path = jar_folder() / PINNED.file_name

    path.write_bytes(CONTENT)
    ready = is_ready(PINNED)
    path.write_bytes(bytes(len(CONTENT)))

    assert ready
    assert not is_ready(PINNED)
