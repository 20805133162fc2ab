"""Spark's settings for the catalog of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.catalog.store_conf import iceberg_properties
from frazil.spec import CATALOG, EmbeddedCatalog, JdbcCatalog
from frazil.spec.location import embedded_catalog, warehouse
from frazil.spec.secrets import resolve

if TYPE_CHECKING:
    from frazil.spec import Pipeline

PREFIX: Final = f"spark.sql.catalog.{CATALOG}"

_SQLITE_SETTINGS: Final = "journal_mode=WAL&busy_timeout=30000&transaction_mode=IMMEDIATE"
"""Readers do not stop writers, and a writer waits for another before it begins: processes get along."""

_MANIFESTS: Final = {
    "io.manifest.cache-enabled": "true",
    "io.manifest.cache.max-total-bytes": f"{32 << 20}",  # of each session, and tables side by side have their own
    "io.manifest.cache.expiration-interval-ms": f"{10 * 60 * 1000}",
}
"""Iceberg keeps the manifests that it has read: they never change, and each batch needs those of the last ones."""


def catalog_conf(pipeline: Pipeline) -> dict[str, str]:
    """Write all ``spark.sql.catalog.lake*`` settings of a pipeline, references to secrets resolved.

    The result can hold secrets: it must not get onto a command line or into a log.

    Raises:
        DeclarationError: a reference to a secret leads nowhere, or the embedded catalog is to be on a store.
    """
    catalog, settings = pipeline.lake.catalog, {"warehouse": warehouse(pipeline).uri}
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
    settings |= (store := iceberg_properties(pipeline))
    if store:
        settings |= _MANIFESTS
    # No cache: a cached table would hide commits of other processes.
    settings["cache-enabled"] = "false"
    if settings["type"] == "rest":
        settings["header.X-Iceberg-Access-Delegation"] = (
            "vended-credentials"  # a catalog that hands out none ignores it
        )
    if not isinstance(catalog, EmbeddedCatalog):
        settings |= {name: _resolved(pipeline, f"properties.{name}", text) for name, text in catalog.properties.items()}
    return {PREFIX: "org.apache.iceberg.spark.SparkCatalog"} | {
        f"{PREFIX}.{name}": text for name, text in settings.items()
    }


def _resolved(pipeline: Pipeline, name: str, text: str) -> str:
    return resolve(text, setting=f"lake.catalog.{name}", folder=pipeline.folder)
