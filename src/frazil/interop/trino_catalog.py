"""Trino's catalog settings for the lake of a pipeline."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from frazil.errors import DeclarationError
from frazil.spec import CATALOG, EmbeddedCatalog, JdbcCatalog
from frazil.spec.location import embedded_catalog, warehouse
from frazil.spec.model.stores import declared_store
from frazil.spec.secrets import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.spec import Pipeline

_REFERENCE: Final = re.compile(r"\$\{env:(\w+)\}")
_ANY_REFERENCE: Final = re.compile(r"\$\{(?:env|file):[^}]*\}")
_REST: Final = {
    "warehouse": "iceberg.rest-catalog.warehouse",
    "credential": "iceberg.rest-catalog.oauth2.credential",
    "token": "iceberg.rest-catalog.oauth2.token",
    "oauth2-server-uri": "iceberg.rest-catalog.oauth2.server-uri",
    "scope": "iceberg.rest-catalog.oauth2.scope",
}
_S3: Final = {
    "s3.endpoint": "s3.endpoint",
    "s3.path-style-access": "s3.path-style-access",
    "s3.access-key-id": "s3.aws-access-key",
    "s3.secret-access-key": "s3.aws-secret-key",
    "client.region": "s3.region",
}


_STORE: Final = {
    "endpoint": "s3.endpoint",
    "path_style": "s3.path-style-access",
    "access_key_id": "s3.aws-access-key",
    "secret_access_key": "s3.aws-secret-key",
    "region": "s3.region",
}
"""Setting of a declared store -> Trino's name of it."""
_GLUE: Final = {
    "client.region": "hive.metastore.glue.region",
    "glue.endpoint": "hive.metastore.glue.endpoint-url",
}


class UnknownToTrinoError(DeclarationError):
    """Trino does not support a setting of the pipeline's catalog."""

    code = "FZ110"


def trino_catalog(pipeline: Pipeline) -> dict[str, str]:
    """Return the settings of a catalog of Trino's Iceberg connector, as named in Trino 476.

    Args:
        pipeline: the declaration.

    Returns:
        Setting -> value. References ``${env:X}`` become ``${ENV:X}``, which Trino resolves.

    Raises:
        UnknownToTrinoError: a setting is a reference to a file, or a temporary key, which Trino does not support.
    """
    lake, found = pipeline.lake, {"connector.name": "iceberg"}
    place = warehouse(pipeline).uri
    properties = {} if isinstance(lake.catalog, EmbeddedCatalog) else dict(lake.catalog.properties)
    match lake.catalog:
        case EmbeddedCatalog():
            found |= _jdbc(place, f"jdbc:sqlite:{embedded_catalog(pipeline)}?{SQLITE_SETTINGS}", "org.sqlite.JDBC")
        case JdbcCatalog() as catalog:
            driver = "org.sqlite.JDBC" if catalog.uri.startswith("jdbc:sqlite:") else "org.postgresql.Driver"
            found |= _jdbc(place, catalog.uri, driver)
            found |= {"iceberg.jdbc-catalog.connection-user": catalog.user} if catalog.user else {}
            found |= {"iceberg.jdbc-catalog.connection-password": catalog.password} if catalog.password else {}
        case catalog if catalog.type == "rest":
            found |= {"iceberg.catalog.type": "rest", "iceberg.rest-catalog.uri": catalog.uri or ""}
            found["iceberg.rest-catalog.warehouse"] = place
            found |= {_REST[name]: text for name, text in properties.items() if name in _REST}
            if {"credential", "token"} & properties.keys():
                found["iceberg.rest-catalog.security"] = "OAUTH2"
        case catalog if catalog.type == "hive":
            found |= {"iceberg.catalog.type": "hive_metastore", "hive.metastore.uri": catalog.uri or ""}
        case _:
            found["iceberg.catalog.type"] = "glue"
            found |= {_GLUE[name]: text for name, text in properties.items() if name in _GLUE}
    if place.startswith(("s3://", "s3a://")):
        found |= {"fs.native-s3.enabled": "true"} | _store(pipeline, place)
        found |= {_S3[name]: text for name, text in properties.items() if name in _S3}
    else:
        found |= {"fs.native-local.enabled": "true", "local.location": "/"}
    if found["iceberg.catalog.type"] == "rest" and "s3.aws-access-key" not in found:
        # Without a declared login, the catalog must vend one for each table.
        found |= {"fs.native-s3.enabled": "true", "iceberg.rest-catalog.vended-credentials-enabled": "true"}
    return {name: _as_trinos(name, text) for name, text in found.items()}


SQLITE_SETTINGS: Final = "journal_mode=WAL&busy_timeout=30000&transaction_mode=IMMEDIATE"
"""The same settings as Spark's sessions use, so that processes can share the database."""


def catalog_text(pipeline: Pipeline, settings: Mapping[str, str]) -> str:
    """Return the settings as text of Trino's file ``etc/catalog/lake.properties``."""
    lines = [f"# The lake of pipeline {pipeline.pipeline}, for Trino 476: etc/catalog/{CATALOG}.properties"]
    if "org.sqlite.JDBC" in settings.values():
        lines.append("# The driver of SQLite is not Trino's: put sqlite-jdbc into plugin/iceberg.")
    return "\n".join([*lines, *(f"{name}={text}" for name, text in settings.items())]) + "\n"


def resolved(pipeline: Pipeline, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that Trino needs for the references in its settings."""
    names = {name for text in settings.values() for name in re.findall(r"\$\{ENV:(\w+)\}", text)}
    return {name: resolve(f"${{env:{name}}}", setting="lake.catalog", folder=pipeline.folder) for name in names}


def _jdbc(place: str, uri: str, driver: str) -> dict[str, str]:
    return {
        "iceberg.catalog.type": "jdbc",
        # Rows of the catalog database have the catalog name that Spark uses.
        "iceberg.jdbc-catalog.catalog-name": CATALOG,
        "iceberg.jdbc-catalog.driver-class": driver,
        "iceberg.jdbc-catalog.connection-url": uri,
        "iceberg.jdbc-catalog.schema-version": "V1",
        "iceberg.jdbc-catalog.default-warehouse-dir": place,
    }


def _store(pipeline: Pipeline, place: str) -> dict[str, str]:
    """Return the settings in ``stores`` for the bucket of a warehouse, with Frazil's defaults."""
    prefix, declared = declared_store(place, pipeline.stores)
    if "session_token" in declared:
        raise UnknownToTrinoError(
            f"stores.{prefix}.session_token belongs to a temporary key, which Trino does not support",
            hint="remove the key from stores, so that Trino uses the login in its environment",
        )
    if "endpoint" in declared:
        declared = {"path_style": "true", "region": "us-east-1"} | declared
    return {_STORE[name]: text for name, text in declared.items() if name in _STORE}


def _as_trinos(name: str, text: str) -> str:
    found = _REFERENCE.sub(r"${ENV:\1}", text)
    if _ANY_REFERENCE.search(found):
        raise UnknownToTrinoError(
            f"{name} is a reference to a file, but Trino supports only references to the environment",
            hint="put the secret into an environment variable and write ${env:NAME}",
        )
    return found
