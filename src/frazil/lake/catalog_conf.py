"""Spark's settings for the catalog of a pipeline, and where its warehouse is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from frazil.errors import DeclarationError
from frazil.lake.secrets import resolve
from frazil.spec import CATALOG, EmbeddedCatalog, JdbcCatalog

if TYPE_CHECKING:
    from frazil.spec import Pipeline

PREFIX: Final = f"spark.sql.catalog.{CATALOG}"

_SQLITE_SETTINGS: Final = "journal_mode=WAL&busy_timeout=30000&transaction_mode=IMMEDIATE"
"""Readers do not stop writers, and a writer waits for another before it begins: processes get along."""


def catalog_conf(pipeline: Pipeline) -> dict[str, str]:
    """Write all ``spark.sql.catalog.lake*`` settings of a pipeline, references to secrets resolved.

    The result can hold secrets: it must not get onto a command line or into a log.

    Raises:
        DeclarationError: a reference to a secret leads nowhere, or the embedded catalog is to be on a store.
    """
    catalog, settings = pipeline.lake.catalog, {"warehouse": warehouse_uri(pipeline)}
    match catalog:
        case EmbeddedCatalog():
            settings |= {
                "type": "jdbc",
                "uri": f"jdbc:sqlite:{embedded_catalog(pipeline)}?{_SQLITE_SETTINGS}",
            }
        case JdbcCatalog():
            settings |= {"type": "jdbc", "uri": _resolved(pipeline, "uri", catalog.uri)}
            if catalog.user is not None:
                settings["jdbc.user"] = _resolved(pipeline, "user", catalog.user)
            if catalog.password is not None:
                settings["jdbc.password"] = _resolved(pipeline, "password", catalog.password)
        case _:
            settings["type"] = catalog.type
            if catalog.uri is not None:
                settings["uri"] = _resolved(pipeline, "uri", catalog.uri)
    if settings["type"] == "jdbc":
        settings["jdbc.schema-version"] = "V1"  # with views
    if settings["warehouse"].startswith(("s3://", "s3a://")):
        settings["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
    # Tables are read again for each statement: a cached one would hide what another process has just
    # committed.
    settings["cache-enabled"] = "false"
    if not isinstance(catalog, EmbeddedCatalog):
        settings |= {name: _resolved(pipeline, f"properties.{name}", text) for name, text in catalog.properties.items()}
    return {PREFIX: "org.apache.iceberg.spark.SparkCatalog"} | {
        f"{PREFIX}.{name}": text for name, text in settings.items()
    }


def warehouse_folder(pipeline: Pipeline) -> Path | None:
    """Absolute path of the warehouse, or None when it is not on this machine's disk."""
    warehouse = resolve(pipeline.lake.warehouse, setting="lake.warehouse", folder=pipeline.folder)
    if warehouse.startswith("file:"):
        return Path(unquote(re.sub(r"^file:(//[^/]*(?=/))?", "", warehouse)))
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", warehouse):
        return None
    return (pipeline.folder / Path(warehouse).expanduser()).resolve()


def warehouse_uri(pipeline: Pipeline) -> str:
    """Address of the warehouse, always with a scheme, as other engines want it.

    A local path is not percent-encoded: Hadoop would take ``%20`` for the folder's name.
    """
    folder = warehouse_folder(pipeline)
    if folder is not None:
        return f"file://{folder.as_posix()}"
    return resolve(pipeline.lake.warehouse, setting="lake.warehouse", folder=pipeline.folder).rstrip("/")


def embedded_catalog(pipeline: Pipeline) -> Path:
    """Path of the SQLite file of the embedded catalog, whether it exists or not.

    Raises:
        DeclarationError: the warehouse is not on this disk, or its path has a ``?``, which ends a JDBC path.
    """
    folder = warehouse_folder(pipeline)
    if folder is None:
        raise DeclarationError(
            f"lake.warehouse: the embedded catalog cannot live at {pipeline.lake.warehouse}",
            hint="declare a catalog: jdbc, rest, glue or hive",
        )
    if "?" in f"{folder}":
        raise DeclarationError(f"lake.warehouse: {folder} has a question mark", hint="choose another folder")
    return folder / "catalog.db"


def _resolved(pipeline: Pipeline, name: str, text: str) -> str:
    return resolve(text, setting=f"lake.catalog.{name}", folder=pipeline.folder)
