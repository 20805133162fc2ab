"""What the lakes of the tests stand on: catalogs of three kinds, an object store, and clocks that can be wrong."""

from __future__ import annotations

import copy
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from urllib.parse import urlsplit

import psycopg
from moto.backends import get_backend
from moto.core.exceptions import JsonRESTError
from moto.core.responses import EmptyResult
from moto.glue.responses import GlueResponse
from moto.server import ThreadedMotoServer

from frazil.errors import StorageError
from frazil.spec.model.stores import Store, store_access
from frazil.storage.store_client import delete, get, keys, put

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

    from frazil.spec.model.stores import StoreAccess
    from frazil.testing.postgres import PostgresServer
    from frazil.testing.s3 import S3Server

Catalog: TypeAlias = Literal["jdbc", "rest", "glue"]
CATALOGS: Final[tuple[Catalog, ...]] = ("jdbc", "rest", "glue")
_REGION: Final = "us-east-1"
_PROBE: Final = "probe"
_PATIENCE_SECONDS: Final = 120
_UPDATING: Final = threading.Lock()
_ACCOUNT: Final = "123456789012"
"""The account of moto's Glue."""
_TABLES: Final = (b"iceberg_tables", b"iceberg_namespace_properties")
"""The tables of a JDBC catalog."""


class _Glue:
    """A Glue that moto plays in this process; its tables outlive a restart."""

    def __init__(self) -> None:
        self.port = 0
        self.start()

    @property
    def uri(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, where it was before."""
        self._server = ThreadedMotoServer("127.0.0.1", self.port, verbose=False)
        self._server.start()
        self.port = self._server.get_host_and_port()[1]

    def kill(self) -> None:
        """Let it answer no more."""
        self._server.stop()
        assert self._server._server is not None
        self._server._server.server_close()  # moto leaves the port taken


def _update_table(self: GlueResponse) -> EmptyResult:
    """Update a table as AWS does: a request that names a version is refused where the table has another one.

    moto takes any, so the last writer would win.
    """
    wanted, changed = self.parameters.get("VersionId"), self.parameters["TableInput"]
    with _UPDATING:
        table = self.glue_backend.get_table(self.parameters["DatabaseName"], changed["Name"])
        if wanted is not None and wanted != table.as_dict()["VersionId"]:
            words = "Update table failed due to concurrent modifications."
            raise JsonRESTError("ConcurrentModificationException", words)
        table.update(changed)
    return EmptyResult()


@dataclass(frozen=True, slots=True)
class Backup:
    """A lake as it was: all objects of its bucket, and what its catalog had."""

    objects: Mapping[str, bytes]
    tables: Any


@dataclass(frozen=True, slots=True)
class Places:
    """The servers on 127.0.0.1 that two hosts share."""

    s3: S3Server
    postgres: PostgresServer
    glue: _Glue

    def lake(self, catalog: Catalog, name: str) -> dict[str, Any]:
        """Make an empty place in the store and in the catalog, and return what is declared of the lake and its store.

        Secrets are in the files ``secret``, ``login`` and ``password`` beside the declaration.
        """
        store = self._store() | {"secret_access_key": "${file:secret}"}
        warehouse = f"s3://{name}/" if catalog == "rest" else f"s3://{name}/lake"
        (self.s3.make_table_bucket if catalog == "rest" else self.s3.make_bucket)(name)
        declared = {"warehouse": warehouse, "catalog": self._catalog(catalog, name)}
        return {"lake": declared, "stores": {f"s3://{name}": store}}

    def _store(self) -> dict[str, str]:
        return {
            "endpoint": self.s3.endpoint,
            "region": _REGION,
            "access_key_id": self.s3.access_key_id,
            "secret_access_key": self.s3.secret_access_key,
        }

    def forget(self, catalog: Catalog, name: str) -> None:
        """Delete a lake's bucket: the store has room for two hundred."""
        if catalog == "rest":
            self.s3.shell(f"s3tables.bucket -delete -name {name} -account 000000000000")
        self.s3.shell(f"s3.bucket.delete -name {name}")

    def back_up(self, catalog: Catalog, name: str) -> Backup:
        """Copy a lake that nobody writes; not one of the REST catalog, which has no way back."""
        access = self._access(name)
        found = [one["path"] for some in keys(access, "") for one in some]
        objects = {key: bytes(get(access, key).bytes()) for key in found}
        if catalog == "glue":
            return Backup(objects, copy.deepcopy({**_glue_tables()}))
        with psycopg.connect(self.postgres.url_of(name)) as session, session.cursor() as cursor:
            tables = {}
            for table in _TABLES:
                with cursor.copy(b"COPY %b TO STDOUT" % table) as rows:
                    tables[table] = b"".join(bytes(row) for row in rows)
            return Backup(objects, tables)

    def restore(self, catalog: Catalog, name: str, backup: Backup) -> None:
        """Set a lake back to what it was; nobody may work with it meanwhile."""
        access = self._access(name)
        delete(access, [one["path"] for some in keys(access, "") for one in some if one["path"] not in backup.objects])
        for key, content in backup.objects.items():
            put(access, key, content)
        if catalog == "glue":
            _glue_tables().clear()
            _glue_tables().update(copy.deepcopy(backup.tables))
            return
        with psycopg.connect(self.postgres.url_of(name)) as session, session.cursor() as cursor:
            for table, rows in backup.tables.items():
                cursor.execute(b"TRUNCATE %b" % table)
                with cursor.copy(b"COPY %b FROM STDIN" % table) as into:
                    into.write(rows)

    def _access(self, bucket: str) -> StoreAccess:
        store = Store.model_validate(self._store())
        return store_access(f"s3://{bucket}", {f"s3://{bucket}": store}, Path())

    def secrets(self) -> dict[str, str]:
        """Return the secrets of each lake, by the names of their files."""
        return {
            "secret": self.s3.secret_access_key,
            "login": f"{self.s3.access_key_id}:{self.s3.secret_access_key}",
            "password": self.postgres.password,
        }

    def _catalog(self, catalog: Catalog, name: str) -> dict[str, Any]:
        match catalog:
            case "jdbc":
                with psycopg.connect(self.postgres.url, autocommit=True) as session:
                    session.execute(f"DROP DATABASE IF EXISTS {name}".encode())
                    session.execute(f"CREATE DATABASE {name}".encode())
                address = urlsplit(self.postgres.url)
                uri = f"jdbc:postgresql://{address.hostname}:{address.port}/{name}"
                return {"type": "jdbc", "uri": uri, "user": address.username, "password": "${file:password}"}
            case "rest":
                properties = {
                    "rest.auth.type": "oauth2",
                    "credential": "${file:login}",
                    "oauth2-server-uri": f"{self.s3.catalog_uri}/v1/oauth/tokens",
                }
                return {"type": "rest", "uri": self.s3.catalog_uri, "properties": properties}
            case "glue":
                get_backend("glue").reset()  # all lakes have the same names in it
                properties = {"glue.endpoint": self.glue.uri, "glue.region": _REGION, "client.region": _REGION}
                return {"type": "glue", "properties": properties}

    def fail(self, what: Catalog | Literal["store"], seconds: float) -> None:
        """Kill the server of a catalog, or the store, and start it again after a while."""
        servers: dict[str, PostgresServer | S3Server | _Glue] = {"jdbc": self.postgres, "glue": self.glue}
        server = servers.get(what, self.s3)
        server.kill()
        sleep(seconds)
        server.start()
        # The ports of the store answer before its parts have found each other.
        until = monotonic() + _PATIENCE_SECONDS
        while not self._takes_objects():
            assert monotonic() < until, "the store does not come back"
            sleep(0.1)

    def _takes_objects(self) -> bool:
        with suppress(StorageError):
            put(self._access(_PROBE), "probe", b"")
            return True
        return False


def _glue_tables() -> Any:
    """Return the databases of moto's Glue, with their tables."""
    return get_backend("glue")[_ACCOUNT][_REGION].databases


@contextmanager
def places(s3: S3Server, postgres: PostgresServer, patch: pytest.MonkeyPatch) -> Iterator[Places]:
    """Have all servers while the block lasts, with a login of Glue in this process's environment."""
    patch.setattr(GlueResponse, "update_table", _update_table)
    for name, text in {"ACCESS_KEY_ID": "A", "SECRET_ACCESS_KEY": "B", "REGION": _REGION}.items():
        patch.setenv(f"AWS_{name}", text)
    s3.make_bucket(_PROBE)
    glue = _Glue()
    try:
        yield Places(s3, postgres, glue)
    finally:
        glue.kill()
