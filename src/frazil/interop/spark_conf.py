"""The settings that a platform of Spark needs for a pipeline, in the form that it takes them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, assert_never

from frazil.errors import DeclarationError
from frazil.spark.jars import iceberg_runtime, jars_for
from frazil.spark.session import EXTENSIONS, SECRET_SETTINGS
from frazil.spec import EmbeddedCatalog
from frazil.spec.location import warehouse
from frazil.spec.model.stores import is_store, split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.spec import Pipeline

Platform: TypeAlias = Literal["standalone", "kubernetes", "emr", "glue", "databricks", "dataproc"]

_FOLDER: Final = "s3://BUCKET/jars"
_SCRIPT: Final = "/Volumes/CATALOG/SCHEMA/VOLUME/jars.sh"
_FAILURES: Final = "8"
_CLIENTS: Final = {"gs": "iceberg-gcp-bundle", "abfss": "iceberg-azure-bundle"}
"""Iceberg's clients of stores that are in no other jar; that of S3 is among those of the pipeline."""
_VARIABLE: Final = re.compile(r"\$\{env:([^}]*)\}")


class LocalLakeError(DeclarationError):
    """The machines of a platform do not share the disk that the lake is on."""

    code = "FZ114"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConf:
    """Settings of a session for a pipeline.

    Attributes:
        platform: whose they are.
        spark: version of Spark, such as ``4.1``.
        settings: name -> value. The catalog is not among them: Frazil adds it where it runs, so no secret leaves it.
        jars: coordinates of what Spark needs beside its own jars.
        environment: variables that the declaration refers to, which the driver needs.
        text: all of it, in the form that the platform takes.
    """

    platform: Platform
    spark: str
    settings: Mapping[str, str]
    jars: tuple[str, ...]
    environment: tuple[str, ...]
    text: str = ""


def spark_conf(pipeline: Pipeline, platform: Platform, spark: str) -> SparkConf:
    """Return the settings for a pipeline on a platform; starts no JVM, looks up no secret.

    Args:
        pipeline: gives the jars, by its catalog and warehouse.
        platform: standalone, Kubernetes and Dataproc take a file of properties, the others JSON.
        spark: version of the platform's Spark, such as ``4.0``.

    Raises:
        LocalLakeError: the lake is on a local disk, and the platform's machines share none.
        JarError: Frazil has no Iceberg for this Spark.
        DeclarationError: the warehouse refers to a variable that is not set.
    """
    is_local = isinstance(pipeline.lake.catalog, EmbeddedCatalog) or warehouse(pipeline).path is not None
    if is_local and platform != "standalone":
        raise LocalLakeError(
            f"{platform}: the lake is on a local disk, at {pipeline.lake.warehouse}, which other machines do not see",
            hint="declare a warehouse in an object store, and a catalog that several machines share",
        )
    jars = _coordinates(pipeline, spark)
    settings = {
        "spark.sql.extensions": EXTENSIONS,
        "spark.redaction.regex": SECRET_SETTINGS,
        "spark.task.maxFailures": _FAILURES,
    }
    names = tuple(sorted({*_VARIABLE.findall(pipeline.model_dump_json())}))
    match platform:
        case "standalone" | "dataproc" | "emr":
            settings |= {"spark.jars.packages": ",".join(jars)}
        case "kubernetes":
            # Images of Spark run as a user without a home folder, where Ivy would keep what it fetches.
            settings |= {"spark.jars.packages": ",".join(jars), "spark.jars.ivy": "/tmp/.ivy2"}  # noqa: S108 - theirs
        case "glue" | "databricks":
            pass  # these take jars another way
        case _:
            assert_never(platform)
    made = SparkConf(platform=platform, spark=spark, settings=settings, jars=jars, environment=names)
    return replace(made, text=_FORMS.get(platform, _properties)(made))


def _coordinates(pipeline: Pipeline, spark: str) -> tuple[str, ...]:
    """Name the jars, with those of Iceberg's client of the warehouse's store."""
    jars = [f"{jar.group}:{jar.name}:{jar.version}" for jar in jars_for(pipeline, spark)]
    place = warehouse(pipeline).uri
    client = _CLIENTS.get(split(place)[0].scheme) if is_store(place) else None
    return (*jars, *([f"org.apache.iceberg:{client}:{iceberg_runtime(spark).version}"] if client else []))


def _properties(conf: SparkConf) -> str:
    """Write a file for ``spark-submit --properties-file``, or that of ``gcloud dataproc jobs submit pyspark``."""
    return "\n".join([*_comments(conf), *(f"{name}={_escaped(value)}" for name, value in conf.settings.items())]) + "\n"


def _comments(conf: SparkConf) -> Iterator[str]:
    yield f"# Spark {conf.spark}. The catalog is not here: Frazil adds it when it runs."
    if conf.platform == "kubernetes":
        yield "# spark.kubernetes.container.image: yours, with Python 3.11 or newer and frazil."
    if conf.environment:
        yield f"# The driver's environment needs {', '.join(conf.environment)}."


def _escaped(value: str) -> str:
    """Write a value of a properties file, where a backslash begins an escape."""
    return value.replace("\\", "\\\\")


def _emr(conf: SparkConf) -> str:
    """Write the configuration of a cluster of EMR, or of a job's ``applicationConfiguration``."""
    parts: list[object] = [{"Classification": "spark-defaults", "Properties": dict(conf.settings)}]
    return _json(parts)


def _glue(conf: SparkConf) -> str:
    """Write default arguments of a job of Glue, which takes all settings as one."""
    files = ",".join(f"{_FOLDER}/{name}-{version}.jar" for _, name, version in (jar.split(":") for jar in conf.jars))
    settings = " --conf ".join(f"{name}={value}" for name, value in conf.settings.items())
    return _json({"DefaultArguments": {"--extra-jars": files, "--conf": settings}})


def _databricks(conf: SparkConf) -> str:
    """Write the part of a cluster, with the access mode in which a session is not one of Spark Connect."""
    # A library comes after the extensions are loaded; an init script puts the jars there before.
    cluster = {
        "data_security_mode": "SINGLE_USER",
        "spark_conf": dict(conf.settings),
        "init_scripts": [{"volumes": {"destination": _SCRIPT}}],
    }
    return _json({"new_cluster": cluster})


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


_FORMS: Final = {"emr": _emr, "glue": _glue, "databricks": _databricks}
"""How a platform takes settings, where not as a file of properties."""
