"""Spark settings of a pipeline, in the form that a platform accepts."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, assert_never

from frazil.catalog.conf import EXTENSIONS, SECRET_SETTINGS
from frazil.errors import DeclarationError
from frazil.spark.jars import iceberg_runtime, jars_for
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
"""Iceberg's client jars of stores; the client of S3 is in the pipeline's own jars."""
_VARIABLE: Final = re.compile(r"\$\{env:([^}]*)\}")


class LocalLakeError(DeclarationError):
    """The lake is on a local disk that the platform's machines do not share."""

    code = "FZ114"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConf:
    """Spark settings for a pipeline.

    Attributes:
        platform: the platform.
        spark: version of Spark, such as ``4.1``.
        settings: name -> value, without the catalog: Frazil adds it at run time, so that no secret is exported.
        jars: Maven coordinates of the jars that Spark needs in addition to its own.
        environment: variables of the declaration that the driver needs.
        text: all settings in the platform's form.
    """

    platform: Platform
    spark: str
    settings: Mapping[str, str]
    jars: tuple[str, ...]
    environment: tuple[str, ...]
    text: str = ""


def spark_conf(pipeline: Pipeline, platform: Platform, spark: str) -> SparkConf:
    """Return the settings for a pipeline on a platform; starts no JVM, and resolves no secret.

    Args:
        pipeline: the declaration; its catalog and warehouse determine the jars.
        platform: the platform; standalone, Kubernetes and Dataproc get a properties file, the others JSON.
        spark: version of the platform's Spark, such as ``4.0``.

    Raises:
        LocalLakeError: the lake is on a local disk that the platform's machines do not share.
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
            # The user of Spark's images has no home folder for Ivy's cache.
            settings |= {"spark.jars.packages": ",".join(jars), "spark.jars.ivy": "/tmp/.ivy2"}  # noqa: S108 - theirs
        case "glue" | "databricks":
            pass  # these platforms get their jars in another way
        case _:
            assert_never(platform)
    made = SparkConf(platform=platform, spark=spark, settings=settings, jars=jars, environment=names)
    return replace(made, text=_FORMS.get(platform, _properties)(made))


def _coordinates(pipeline: Pipeline, spark: str) -> tuple[str, ...]:
    """Return the coordinates of the jars, including Iceberg's client of the warehouse's store."""
    jars = [f"{jar.group}:{jar.name}:{jar.version}" for jar in jars_for(pipeline, spark)]
    place = warehouse(pipeline).uri
    client = _CLIENTS.get(split(place)[0].scheme) if is_store(place) else None
    return (*jars, *([f"org.apache.iceberg:{client}:{iceberg_runtime(spark).version}"] if client else []))


def _properties(conf: SparkConf) -> str:
    """Return the file for ``spark-submit --properties-file``, or for ``gcloud dataproc jobs submit pyspark``."""
    return "\n".join([*_comments(conf), *(f"{name}={_escaped(value)}" for name, value in conf.settings.items())]) + "\n"


def _comments(conf: SparkConf) -> Iterator[str]:
    yield f"# Spark {conf.spark}. The catalog is not here: Frazil adds it when it runs."
    if conf.platform == "kubernetes":
        yield "# spark.kubernetes.container.image: yours, with Python 3.11 or newer and frazil."
    if conf.environment:
        yield f"# The driver's environment needs {', '.join(conf.environment)}."


def _escaped(value: str) -> str:
    """Return a value for a properties file, with backslashes escaped."""
    return value.replace("\\", "\\\\")


def _emr(conf: SparkConf) -> str:
    """Return the configuration of an EMR cluster, or a job's ``applicationConfiguration``."""
    parts: list[object] = [{"Classification": "spark-defaults", "Properties": dict(conf.settings)}]
    return _json(parts)


def _glue(conf: SparkConf) -> str:
    """Return the default arguments of a Glue job, which has one argument for all settings."""
    files = ",".join(f"{_FOLDER}/{name}-{version}.jar" for _, name, version in (jar.split(":") for jar in conf.jars))
    settings = " --conf ".join(f"{name}={value}" for name, value in conf.settings.items())
    return _json({"DefaultArguments": {"--extra-jars": files, "--conf": settings}})


def _databricks(conf: SparkConf) -> str:
    """Return a part of a cluster's definition, with an access mode that does not use Spark Connect."""
    # A library is installed after the extensions are loaded; an init script copies the jars before that.
    cluster = {
        "data_security_mode": "SINGLE_USER",
        "spark_conf": dict(conf.settings),
        "init_scripts": [{"volumes": {"destination": _SCRIPT}}],
    }
    return _json({"new_cluster": cluster})


def _json(value: object) -> str:
    return json.dumps(value, indent=2) + "\n"


_FORMS: Final = {"emr": _emr, "glue": _glue, "databricks": _databricks}
"""Forms of platforms that do not accept a properties file."""
