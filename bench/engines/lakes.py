"""A lake for each catalog, store and format version, and the servers that they stand on."""

from __future__ import annotations

import json
import os
import urllib.request
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import psycopg
from moto.server import ThreadedMotoServer

from bench.engines.orders import deliver
from frazil.testing.postgres import postgres_server
from frazil.testing.s3 import s3_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.engines.kinds import Kind
    from frazil.testing.postgres import PostgresServer
    from frazil.testing.s3 import S3Server

_REGION: Final = "us-east-1"
_BUCKET: Final = "lakes"
"""All lakes of S3 share it, but those of the REST catalog: the server has room for a few buckets only."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers on 127.0.0.1 while lakes are tried."""

    s3: S3Server
    postgres: PostgresServer
    glue: str
    """Address of the Glue of moto."""


@contextmanager
def servers() -> Iterator[Servers]:
    """Run all servers while the block lasts, with their logins in this process's environment."""
    with ExitStack() as held:
        s3, postgres = held.enter_context(s3_server()), held.enter_context(postgres_server())
        s3.make_bucket(_BUCKET)
        moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        moto.start()
        held.callback(moto.stop)
        host, port = moto.get_host_and_port()
        # Clients of Glue look here; moto takes any key.
        os.environ |= {"AWS_ACCESS_KEY_ID": s3.access_key_id, "AWS_SECRET_ACCESS_KEY": s3.secret_access_key}
        os.environ |= {"AWS_REGION": _REGION, "AWS_DEFAULT_REGION": _REGION}
        os.environ |= {"LAKE_KEY_ID": s3.access_key_id, "LAKE_SECRET": s3.secret_access_key}
        os.environ |= {"LAKE_LOGIN": f"{s3.access_key_id}:{s3.secret_access_key}", "LAKE_PASSWORD": postgres.password}
        yield Servers(s3, postgres, f"http://{host}:{port}")


@dataclass(slots=True)
class Lake:
    """A pipeline of one table and two marts, with what has arrived so far."""

    kind: Kind
    folder: Path
    batch: int = 0

    def deliver(self) -> None:
        """Land the next batch."""
        self.batch += 1
        deliver(self.folder / "landing", self.batch)


def make(kind: Kind, below: Path, on: Servers) -> Lake:
    """Declare a lake in a new folder, and make the database or the bucket that its catalog needs."""
    folder = below / kind.name
    folder.mkdir(parents=True)
    bucket = kind.name if kind.catalog == "rest" else _BUCKET
    declared: dict[str, Any] = {
        "pipeline": "shop",
        "lake": {"warehouse": "./lake" if kind.store == "disk" else f"s3://{bucket}/{kind.name}"},
        # All that may go goes, so that bookmarks are seen to stay.
        "upkeep": {"expire_after_days": 0, "retain_last": 1},
        "tables": [_orders(kind.format_version)],
    }
    if kind.store == "s3":
        declared["stores"] = {
            f"s3://{bucket}": {
                "endpoint": on.s3.endpoint,
                "region": _REGION,
                "access_key_id": "${env:LAKE_KEY_ID}",
                "secret_access_key": "${env:LAKE_SECRET}",
            }
        }
    declared["lake"] |= _catalog(kind, folder, on)
    (folder / "frazil.yml").write_text(json.dumps(declared), encoding="utf-8")
    return Lake(kind, folder)


def _orders(format_version: int) -> dict[str, Any]:
    return {
        "name": "orders",
        "source": {"kind": "dms", "path": "landing", "header": True},
        "keys": ["id"],
        "sequence_by": ["updated_at"],
        "columns": [
            {"name": "id", "type": "int"},
            {"name": "updated_at", "type": "timestamp"},
            {"name": "total", "type": "decimal(8,2)"},
            {"name": "status"},
        ],
        "marts": [{"kind": kind, "format_version": format_version} for kind in ("current", "history")],
    }


def _catalog(kind: Kind, folder: Path, on: Servers) -> dict[str, Any]:
    """Return what is declared of the lake besides the warehouse; of REST that too."""
    match kind.catalog:
        case "sqlite" if kind.store == "disk":
            return {}
        case "sqlite":
            return {"catalog": {"type": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db"}}
        case "postgresql":
            database = kind.name.replace("-", "_")
            with psycopg.connect(on.postgres.url, autocommit=True) as session:
                session.execute(f"CREATE DATABASE {database}".encode())
            uri = f"jdbc:postgresql://127.0.0.1:{on.postgres.port}/{database}"
            return {"catalog": {"type": "jdbc", "uri": uri, "user": "postgres", "password": "${env:LAKE_PASSWORD}"}}
        case "rest":
            on.s3.make_table_bucket(kind.name)
            properties = {
                "rest.auth.type": "oauth2",
                "credential": "${env:LAKE_LOGIN}",
                "oauth2-server-uri": f"{on.s3.catalog_uri}/v1/oauth/tokens",
            }
            catalog = {"type": "rest", "uri": on.s3.catalog_uri, "properties": properties}
            return {"warehouse": f"s3://{kind.name}/", "catalog": catalog}
        case _:
            urllib.request.urlopen(f"{on.glue}/moto-api/reset", b"", timeout=10).close()  # noqa: S310 - of this process
            properties = {"glue.endpoint": on.glue, "glue.region": _REGION, "client.region": _REGION}
            if kind.store == "disk":
                properties["io-impl"] = "org.apache.iceberg.hadoop.HadoopFileIO"
            return {"catalog": {"type": "glue", "properties": properties}}
