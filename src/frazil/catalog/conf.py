"""The catalog and the object store of a lake, in the settings of each library that reads or writes there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from frazil.spec import CATALOG, EmbeddedCatalog, JdbcCatalog
from frazil.spec.location import embedded_catalog, warehouse
from frazil.spec.model.stores import KEY, is_store, split, store_access
from frazil.spec.secrets import resolve
from frazil.storage.object_store import StoreAddress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.spec import Pipeline
    from frazil.spec.model.stores import StoreAccess

EXTENSIONS: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
"""What Spark's ``spark.sql.extensions`` must name."""

SECRET_SETTINGS: Final = "(?i)authorization|uri|password|secret|token|credential|(access|shared|account)[.-]?key"  # noqa: S105 - a pattern
"""Pattern of names of settings that Spark shows without their values."""

FILE_IO: Final = {
    "s3": "org.apache.iceberg.aws.s3.S3FileIO",
    "gs": "org.apache.iceberg.gcp.gcs.GCSFileIO",
    "abfss": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
}
"""Iceberg's own client of each store."""

_NAMES: Final = {
    "endpoint": "s3.endpoint",
    "path_style": "s3.path-style-access",
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "region": "client.region",
}
"""Settings of a store -> what Iceberg calls them."""


def lake_access(pipeline: Pipeline, address: str) -> StoreAccess:
    """Return how a file of the lake is reached: as ``stores`` says, and the catalog's own properties before that.

    Raises:
        DeclarationError: a reference leads nowhere.
    """
    catalog = pipeline.lake.catalog
    given = {} if isinstance(catalog, EmbeddedCatalog) else catalog.properties
    more = {
        ours: resolve(given[theirs], setting=f"lake.catalog.properties.{theirs}", folder=pipeline.folder)
        for ours, theirs in _NAMES.items()
        if theirs in given
    }
    return store_access(address, pipeline.stores, pipeline.folder, more=more)


class VendedAddress(str):
    """The address of a table's metadata file, from a catalog that hands out a login for each table.

    Attributes:
        folder: address of the table's folder, for which the login is.
        properties: the login, as Iceberg names its parts.
    """

    __slots__ = ("folder", "properties")

    folder: str
    properties: Mapping[str, str]

    def __new__(cls, text: str, folder: str, properties: Mapping[str, str]) -> Self:
        """Make an address of its text."""
        made = super().__new__(cls, text)
        made.folder, made.properties = folder, properties
        return made


def vended_login(properties: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """Return what a catalog hands out of how a table's store is reached.

    Args:
        properties: of the table's files, as the catalog gives them.
        known: what the catalog was asked with.

    Returns:
        Nothing where no key is handed out: the store is then reached as it is declared.
    """
    given = {name: text for name, text in properties.items() if name in _NAMES.values() and known.get(name) != text}
    if "s3.region" in properties:
        given.setdefault(_NAMES["region"], properties["s3.region"])
    return given if _NAMES["access_key_id"] in given else {}


def lake_address(pipeline: Pipeline, address: str) -> str:
    """Return an address of the lake's that knows how it is reached; a local one as it is."""
    if not is_store(address):
        return address
    access = lake_access(pipeline, address)
    if isinstance(address, VendedAddress):
        given = {ours: address.properties[theirs] for ours, theirs in _NAMES.items() if theirs in address.properties}
        kept = {name: text for name, text in access.settings if name not in KEY}
        below = f"{split(address.folder)[1].rstrip('/')}/"
        access = replace(access, below=below, settings=tuple(sorted((kept | given).items())))
    return StoreAddress(address, access)


def iceberg_properties(pipeline: Pipeline) -> dict[str, str]:
    """Return Iceberg's properties for the store of the warehouse; none of a local one. They can hold secrets.

    Raises:
        DeclarationError: a reference leads nowhere.
    """
    place = warehouse(pipeline).uri
    if not is_store(place):
        return {}
    access = lake_access(pipeline, place)
    return {"io-impl": FILE_IO[access.scheme]} | _OF_SCHEME[access.scheme](access)


def pyiceberg_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties as PyIceberg has them: it does not know the classes of Java, and names the region twice."""
    found = {name: text for name, text in properties.items() if not name.endswith("-impl") and name != "cache-enabled"}
    if "client.region" in found:
        found.setdefault("s3.region", found["client.region"])
    return found


def _s3(access: StoreAccess) -> dict[str, str]:
    found = {theirs: value for ours, theirs in _NAMES.items() if ours != "path_style" and (value := access.get(ours))}
    if access.path_style:
        found["s3.path-style-access"] = "true"
    # Without a region Java's client searches the machine for seconds; stores other than Amazon's accept any.
    return {"client.region": "us-east-1"} | found if "s3.endpoint" in found else found


def _gs(access: StoreAccess) -> dict[str, str]:
    del access  # Google's client finds the key by $GOOGLE_APPLICATION_CREDENTIALS
    return {}


def _abfss(access: StoreAccess) -> dict[str, str]:
    found: dict[str, str] = {}
    if key := access.get("account_key"):
        found |= {"adls.auth.shared-key.account.name": access.account, "adls.auth.shared-key.account.key": key}
    if token := access.get("sas_token"):
        found[f"adls.sas-token.{access.account}.dfs.core.windows.net"] = token
    return found


_OF_SCHEME: Final = {"s3": _s3, "gs": _gs, "abfss": _abfss}


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
