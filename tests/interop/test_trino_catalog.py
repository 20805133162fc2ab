"""The catalog file for a Trino of the user's own."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest
from tests.hostile.situation import command

from frazil import api
from frazil.interop.trino import TrinoError, UnknownToTrinoError, catalog_text, trino_catalog
from frazil.spec import Pipeline

if TYPE_CHECKING:
    from pathlib import Path


DECLARATION = """
pipeline: shop
lake: {warehouse: ./lake}
tables: [{name: orders, source: {kind: dms, path: ./landing, header: true}, keys: [id]}]
"""


def pipeline(lake: dict[str, Any], **stores: dict[str, Any]) -> Pipeline:
    table = {"name": "orders", "source": {"kind": "dms", "path": "./landing"}, "keys": ["id"]}
    named = {f"s3://{bucket}": store for bucket, store in stores.items()}
    return Pipeline.model_validate({"pipeline": "shop", "lake": lake, "stores": named, "tables": [table]})


def of_the_store(settings: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in settings.items() if name.startswith("s3.")}


def test_the_embedded_catalog_is_named_as_sparks_rows_are(tmp_path: Path) -> None:
    settings = trino_catalog(pipeline({"warehouse": "./lake"}).at(tmp_path))

    assert settings == {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "jdbc",
        "iceberg.jdbc-catalog.catalog-name": "lake",
        "iceberg.jdbc-catalog.driver-class": "org.sqlite.JDBC",
        "iceberg.jdbc-catalog.connection-url": f"jdbc:sqlite:{tmp_path}/lake/catalog.db"
        "?journal_mode=WAL&busy_timeout=30000&transaction_mode=IMMEDIATE",
        "iceberg.jdbc-catalog.schema-version": "V1",
        "iceberg.jdbc-catalog.default-warehouse-dir": f"file://{tmp_path}/lake",
        "fs.native-local.enabled": "true",
        "local.location": "/",
    }


def test_a_database_and_a_store_are_said_with_references() -> None:
    catalog = {
        "type": "jdbc",
        "uri": "jdbc:postgresql://db:5432/lake",
        "user": "lake",
        "password": "${env:LAKE_PASSWORD}",
        "properties": {
            "s3.endpoint": "https://storage:9000",
            "s3.path-style-access": "true",
            "s3.access-key-id": "${env:KEY}",
            "s3.secret-access-key": "${env:SECRET}",
            "client.region": "eu-west-1",
            "something.of.spark": "1",
        },
    }

    settings = trino_catalog(pipeline({"warehouse": "s3://bucket/lake", "catalog": catalog}))

    assert settings["iceberg.jdbc-catalog.connection-password"] == "${ENV:LAKE_PASSWORD}"
    assert settings["iceberg.jdbc-catalog.default-warehouse-dir"] == "s3://bucket/lake"
    assert {name: text for name, text in settings.items() if name.startswith(("s3.", "fs."))} == {
        "fs.native-s3.enabled": "true",
        "s3.endpoint": "https://storage:9000",
        "s3.path-style-access": "true",
        "s3.aws-access-key": "${ENV:KEY}",
        "s3.aws-secret-key": "${ENV:SECRET}",
        "s3.region": "eu-west-1",
    }


def test_the_bucket_of_the_lake_is_reached_as_stores_says_but_for_what_the_catalog_says() -> None:
    store = {
        "endpoint": "https://storage:9000",
        "access_key_id": "${env:KEY}",
        "secret_access_key": "${env:SECRET}",
    }
    catalog = {"type": "jdbc", "uri": "jdbc:sqlite:/catalog.db", "properties": {"client.region": "eu-west-1"}}
    lake = {"warehouse": "s3://bucket/lake", "catalog": catalog}

    settings = trino_catalog(pipeline(lake, bucket=store, other={"region": "elsewhere"}))

    assert of_the_store(settings) == {
        "s3.endpoint": "https://storage:9000",
        "s3.path-style-access": "true",
        "s3.region": "eu-west-1",
        "s3.aws-access-key": "${ENV:KEY}",
        "s3.aws-secret-key": "${ENV:SECRET}",
    }
    assert settings["iceberg.jdbc-catalog.driver-class"] == "org.sqlite.JDBC"
    assert of_the_store(trino_catalog(pipeline(lake, bucket={"path_style": False}))) == {
        "s3.path-style-access": "false",
        "s3.region": "eu-west-1",
    }


def test_a_temporary_key_is_refused() -> None:
    key = dict.fromkeys(("access_key_id", "secret_access_key", "session_token"), "${env:X}")

    with pytest.raises(UnknownToTrinoError, match=r"stores\.s3://b\.session_token"):
        trino_catalog(pipeline({"warehouse": "s3://b/l", "catalog": {"type": "glue"}}, b=key))


@pytest.mark.parametrize(
    ("catalog", "expected"),
    [
        (
            {"type": "rest", "uri": "https://rest", "properties": {"warehouse": "w", "credential": "${env:C}"}},
            {
                "iceberg.catalog.type": "rest",
                "iceberg.rest-catalog.uri": "https://rest",
                "iceberg.rest-catalog.warehouse": "w",
                "iceberg.rest-catalog.oauth2.credential": "${ENV:C}",
                "iceberg.rest-catalog.security": "OAUTH2",
                "iceberg.rest-catalog.vended-credentials-enabled": "true",
            },
        ),
        (
            {"type": "rest", "uri": "https://rest"},
            {
                "iceberg.catalog.type": "rest",
                "iceberg.rest-catalog.uri": "https://rest",
                "iceberg.rest-catalog.warehouse": "s3://bucket/lake",
                "iceberg.rest-catalog.vended-credentials-enabled": "true",
            },
        ),
        (
            {"type": "rest", "uri": "https://rest", "properties": {"s3.access-key-id": "${env:K}"}},
            {
                "iceberg.catalog.type": "rest",
                "iceberg.rest-catalog.uri": "https://rest",
                "iceberg.rest-catalog.warehouse": "s3://bucket/lake",
                "s3.aws-access-key": "${ENV:K}",
            },
        ),
        (
            {"type": "hive", "uri": "thrift://hive:9083"},
            {"iceberg.catalog.type": "hive_metastore", "hive.metastore.uri": "thrift://hive:9083"},
        ),
        ({"type": "glue"}, {"iceberg.catalog.type": "glue"}),
        (
            {"type": "glue", "properties": {"glue.endpoint": "https://glue", "client.region": "eu-west-1"}},
            {
                "iceberg.catalog.type": "glue",
                "hive.metastore.glue.endpoint-url": "https://glue",
                "hive.metastore.glue.region": "eu-west-1",
                "s3.region": "eu-west-1",
            },
        ),
    ],
)
def test_services_are_said_in_trinos_words(catalog: dict[str, Any], expected: dict[str, str]) -> None:
    settings = trino_catalog(pipeline({"warehouse": "s3://bucket/lake", "catalog": catalog}))

    assert {
        name: text for name, text in settings.items() if name not in ("connector.name", "fs.native-s3.enabled")
    } == (expected)


def test_a_reference_to_a_file_is_refused_and_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("hunter2", encoding="utf-8")
    catalog = {"type": "jdbc", "uri": "jdbc:postgresql://db/lake", "password": f"${{file:{secret}}}"}

    with pytest.raises(UnknownToTrinoError) as refused:
        trino_catalog(pipeline({"warehouse": "s3://b/l", "catalog": catalog}))

    assert "hunter2" not in str(refused.value)


def test_the_command_prints_the_file(tmp_path: Path) -> None:
    (tmp_path / "frazil.yml").write_text(DECLARATION, encoding="utf-8")
    declared = api.load(tmp_path)

    said = command("export", "trino", f"{tmp_path}")
    as_json = command("export", "trino", f"{tmp_path}", "--json")

    assert said.stdout == catalog_text(declared, trino_catalog(declared))
    assert json.loads(as_json.stdout) == trino_catalog(declared)


def test_a_port_in_use_is_reported_before_any_download(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with (
            pytest.raises(TrinoError, match=f"port {port} of 127.0.0.1 is not free"),
            api.serve(pipeline({"warehouse": "./lake"}).at(tmp_path), port=port),
        ):
            pass
