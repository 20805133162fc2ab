"""The jars Spark needs beside its own: named by coordinates, pinned by content.

They come through the Ivy that Spark brings along, once, into the cache folder; after that no network is
asked. Behind a mirror, ``$FRAZIL_IVY_SETTINGS`` names an ordinary Ivy settings file, which then decides where
jars come from. Without any network, put the files into the folder that the error names.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from frazil.errors import FrazilError, JarError, SparkMissingError
from frazil.host import cache_folder, keep_text
from frazil.spark.java import find_java
from frazil.spec import JdbcCatalog
from frazil.spec.location import warehouse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from frazil.spec import Pipeline


@dataclass(frozen=True, slots=True)
class Jar:
    """One pinned jar, or another file from a jar repository."""

    group: str
    name: str
    version: str
    size_bytes: int
    sha256: str
    extension: str = "jar"

    @property
    def file_name(self) -> str:
        """Name of its file, as repositories have it."""
        return f"{self.name}-{self.version}.{self.extension}"


_RUNTIMES: Final = {
    "3.5": Jar(
        "org.apache.iceberg",
        "iceberg-spark-runtime-3.5_2.12",
        "1.12.0",
        48_252_525,
        "8dd8c90e54ed1a20f2461309d047a255ee56382eb7c0a46162b27a4936fd86dc",
    ),
    "4.0": Jar(
        "org.apache.iceberg",
        "iceberg-spark-runtime-4.0_2.13",
        "1.11.0",
        47_926_285,
        "63c3b812549dc232c1920865ff42436df8604a9bbacd693930985c06bd97e6dc",
    ),
    "4.1": Jar(
        "org.apache.iceberg",
        "iceberg-spark-runtime-4.1_2.13",
        "1.12.0",
        48_309_426,
        "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
    ),
}
"""Iceberg for each version of Spark that Frazil runs on."""
SQLITE: Final = Jar(
    "org.xerial",
    "sqlite-jdbc",
    "3.54.1.0",
    12_132_578,
    "f8dce420a6016278497f4f0560f65602b9db858de141b541cf91a4644ebe4639",
)
POSTGRESQL: Final = Jar(
    "org.postgresql",
    "postgresql",
    "42.7.14",
    1_221_004,
    "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c",
)
AWS: Final = Jar(
    "org.apache.iceberg",
    "iceberg-aws-bundle",
    "1.12.0",
    69_034_612,
    "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
)
_WITHOUT_POMS: Final = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
"""For files with many dependencies, which Ivy must not resolve."""
_MODULE: Final = """\
<ivy-module version="2.0">
  <info organisation="frazil" module="files"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="{group}" name="{name}" rev="{version}" transitive="false" conf="default->*">
      <artifact name="{name}" type="{extension}" ext="{extension}"/>
    </dependency>
  </dependencies>
</ivy-module>
"""
_ELSEWHERE: Final = "set FRAZIL_CACHE to a folder that can be written"
_REASON: Final = re.compile("not found|Exception|Connection|Host")


def spark_version() -> str:
    """Return the version of PySpark.

    Raises:
        SparkMissingError: PySpark is not installed.
    """
    try:
        import pyspark  # noqa: PLC0415 - what only reads a lake works without
    except ModuleNotFoundError as error:
        raise SparkMissingError from error
    return pyspark.__version__


def iceberg_runtime(spark: str | None = None) -> Jar:
    """Return the jar of Iceberg for a version of Spark, by default the installed one.

    Raises:
        JarError: Frazil was not tested with this version.
    """
    spark = spark or spark_version()
    found = _RUNTIMES.get(".".join(spark.split(".")[:2]))
    if found is None:
        versions = ", ".join(_RUNTIMES)
        raise JarError(f"Frazil has no Iceberg for Spark {spark}", hint=f"Frazil was tried with Spark {versions}")
    return found


def default_jars(spark: str | None = None) -> tuple[Jar, ...]:
    """Return what a pipeline with the embedded catalog on a local disk needs."""
    return iceberg_runtime(spark), SQLITE


def jars_for(pipeline: Pipeline, spark: str | None = None) -> tuple[Jar, ...]:
    """Name the jars that a pipeline's catalog and warehouse need, always in the same order.

    SQLite's driver is always among them: most pipelines then share one set, and one start-up archive.

    Raises:
        JarError: Frazil has no Iceberg for this version of Spark.
    """
    catalog = pipeline.lake.catalog
    on_s3 = catalog.type == "glue" or warehouse(pipeline).uri.startswith(("s3://", "s3a://"))
    on_postgresql = isinstance(catalog, JdbcCatalog) and catalog.uri.startswith(("jdbc:postgresql:", "${"))
    return (*default_jars(spark), *((POSTGRESQL,) if on_postgresql else ()), *((AWS,) if on_s3 else ()))


def jar_folder() -> Path:
    """Return the cache folder of the jars."""
    return cache_folder() / "jars"


def is_ready(jar: Jar) -> bool:
    """Return whether the jar's file exists with the pinned content.

    The whole file is read only if its size or modification time has changed since the last full check.
    """
    path = jar_folder() / jar.file_name
    try:
        found = path.stat()
    except OSError:
        return False
    if found.st_size != jar.size_bytes:
        return False
    stamp, checked = path.with_suffix(".checked"), f"{jar.sha256} {found.st_mtime_ns}"
    if stamp.is_file() and stamp.read_text(encoding="ascii") == checked:
        return True
    if _sha256(path) != jar.sha256:
        return False
    with contextlib.suppress(OSError):  # a read-only cache is as good, only checked in full each time
        stamp.write_text(checked, encoding="ascii")
    return True


def ready_jars(jars: Iterable[Jar], *, tell: Callable[[str], object] = lambda _: None) -> tuple[Path, ...]:
    """Return the paths of ``jars``, fetching those that are missing or damaged.

    The paths are those behind links: Java's archive of classes is of the paths that it was made with.

    Args:
        jars: what is needed.
        tell: called with one line of text before each fetch.

    Raises:
        JarError: a jar cannot be fetched, or its content differs from the pinned one, twice.
        JavaError: a jar must be fetched, and no Java is found to run Ivy.
    """
    jars = tuple(jars)
    for jar in jars:
        if not is_ready(jar):
            tell(f"fetching {jar.file_name} ({jar.size_bytes / 1e6:.0f} MB)")
            _fetch(jar)
    folder = jar_folder().resolve()
    return tuple(folder / jar.file_name for jar in jars)


def _fetch(jar: Jar) -> None:
    folder = jar_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JarError(f"no jars can be kept in {folder}: {error.strerror}", hint=_ELSEWHERE) from error
    found = ""
    for _ in range(2):  # a proxy may cut a first download short; a second one that is wrong too is no accident
        with tempfile.TemporaryDirectory(dir=folder, prefix="fetch-") as work:
            arrived = _retrieve(jar, Path(work))
            found = _sha256(arrived)
            if found == jar.sha256:
                arrived.replace(folder / jar.file_name)
                is_ready(jar)
                return
    raise JarError(
        f"{jar.file_name} is not the pinned one: expected SHA-256 {jar.sha256}, found {found}",
        hint="look at the mirror or proxy it comes through",
    )


def _retrieve(jar: Jar, work: Path) -> Path:
    """Fetch the jar into ``work`` by Ivy, with a separate cache so that a damaged download is not reused."""
    command: list[str | Path] = [
        find_java().home / "bin" / "java",
        "-cp",
        _ivy(),
        "org.apache.ivy.Main",
        "-warn",
    ]
    settings = os.environ.get("FRAZIL_IVY_SETTINGS")
    if settings is None and jar.extension != "jar":
        settings = f"{keep_text(work / 'settings.xml', _WITHOUT_POMS)}"
    command += ["-settings", settings] if settings else []
    if jar.extension == "jar":
        command += ["-dependency", jar.group, jar.name, jar.version, "-notransitive", "-types", "jar", "bundle"]
    else:
        command += _by_file(jar, work)
    command += [
        "-cache",
        work / "cache",
        "-confs",
        "default",
        "-retrieve",
        f"{work}/[artifact]-[revision].[ext]",
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    arrived = work / jar.file_name
    if not arrived.is_file():
        said = f"{answer.stdout}\n{answer.stderr}".splitlines()
        reasons = " · ".join([line.strip() for line in said if _REASON.search(line)][:3])
        raise JarError(
            f"cannot fetch {jar.group}:{jar.name}:{jar.version}: {reasons or 'Ivy gives no reason'}",
            hint="behind a mirror set FRAZIL_IVY_SETTINGS to an Ivy settings file; "
            f"or put {jar.file_name} into {jar_folder()}",
        )
    return arrived


def _by_file(jar: Jar, work: Path) -> list[str | Path]:
    """Return Ivy's options for a file other than a jar, which needs a module file."""
    text = _MODULE.format(group=jar.group, name=jar.name, version=jar.version, extension=jar.extension)
    return ["-ivy", keep_text(work / "ivy.xml", text), "-types", jar.extension]


def _ivy() -> Path:
    spark = importlib.util.find_spec("pyspark")
    for folder in (spark and spark.submodule_search_locations) or ():
        for path in Path(folder, "jars").glob("ivy-*.jar"):
            return path
    raise JarError(
        "pyspark's own jars are missing", hint="install pyspark again: pip install --force-reinstall pyspark"
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


if __name__ == "__main__":
    try:
        ready_jars(default_jars(), tell=lambda line: sys.stdout.write(f"jars: {line}\n"))
    except FrazilError as error:
        sys.exit(f"{error}")
