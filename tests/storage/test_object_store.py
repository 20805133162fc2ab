"""Objects of a store as files: what a pattern means, what a store's refusal means, and what a version is."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.catalog.conf import SECRET_SETTINGS, VendedAddress, iceberg_properties, lake_address, vended_login
from frazil.duck import StoreUnknownToDuckDBError, duckdb_secret
from frazil.spec import DmsFiles, JdbcCatalog, Lake, Pipeline, ServiceCatalog, Table
from frazil.spec.model.stores import Store, StoreAccess
from frazil.storage.object_store import StoreAddress, _part, _pattern
from frazil.storage.store_client import ObjectStoreError, config

S3 = StoreAccess(
    "s3", "lake", settings=(("access_key_id", "A"), ("region", "eu-west-1"), ("secret_access_key", "it's"))
)


@pytest.mark.parametrize(
    ("pattern", "key", "is_meant"),
    [
        ("a/*/b", "a/x/b/1.csv", True),
        ("a/*/b", "a/x/y/b/1.csv", False),
        ("a/*", "a/b/c/d.csv", True),
        ("a/**/d.csv", "a/b/c/d.csv", True),
        ("a/**/d.csv", "a/d.csv", True),
        ("a/**", "a/b/c", True),
        ("a/*.csv", "a/b.csv.gz", False),
        ("a/?.csv", "a/bb.csv", False),
        ("a/[a-c]1/x", "a/b1/x", True),
        ("a/[!a-c]1/x", "a/b1/x", False),
        ("a/b+.csv", "a/bb.csv", False),
        ("a/[.csv", "a/[.csv", True),
        ("a/[z-a]x", "a/zx", False),
        ("a/[z-ab]x", "a/bx", True),
        ("a/[z-ab]x", "a/zx", False),
        ("a/[!z-a]x", "a/qx", True),
        ("a/[!b]c", "a/c", False),
        ("a/[^b]c", "a/^c", True),
        ("a/[^b]c", "a/xc", False),
        ("a/[]b]c", "a/]c", True),
        ("a/[!]b]c", "a/bc", False),
        ("a/[b-]c", "a/-c", True),
        ("a/[\\]c", "a/\\c", True),
        ("a/[[]c", "a/[c", True),
        ("a/[a&&b~~c||d]e", "a/&e", True),
    ],
)
def test_a_pattern_means_what_it_means_on_a_disk(pattern: str, key: str, is_meant: bool, tmp_path: Path) -> None:  # noqa: FBT001
    (tmp_path / key).parent.mkdir(parents=True)
    (tmp_path / key).write_bytes(b"1")
    below = {Path(found) for found in glob(f"{tmp_path}/{pattern}", recursive=True)}  # noqa: PTH207 - as the storage of local files does

    assert bool(_pattern(pattern).fullmatch(key)) is is_meant
    assert bool(below & {tmp_path / key, *(tmp_path / key).parents}) is is_meant


@given(st.text("ab-!^][*?\\&", min_size=1, max_size=8), st.text("ab-!^][\\", min_size=1, max_size=3))
def test_any_part_of_a_pattern_means_what_it_means_to_fnmatch(pattern: str, name: str) -> None:
    assert bool(re.fullmatch(_part(pattern), name, re.DOTALL)) is fnmatchcase(name, pattern)


def test_an_address_is_its_text_and_brings_its_version_along_to_other_processes() -> None:
    address = StoreAddress("s3://lake/a.csv", S3, etag='"1"', size_bytes=7)

    there = pickle.loads(pickle.dumps(address))  # noqa: S301

    assert there == "s3://lake/a.csv"
    assert (there.access, there.etag, there.size_bytes, there.key) == (S3, '"1"', 7, "a.csv")
    assert "it's" not in repr(address)


@pytest.mark.parametrize(
    ("said", "words", "hint", "again"),
    [
        ("403 Forbidden: <Code>InvalidAccessKeyId</Code>", "does not know the key", "access_key_id", False),
        ("403 Forbidden: <Code>SignatureDoesNotMatch</Code>", "rejects the signature", "secret_access_key", False),
        ("403 Forbidden: <Code>RequestTimeTooSkewed</Code>", "clock wrong", "set the clock", False),
        ("404 Not Found: <Code>NoSuchBucket</Code>", "no such bucket", "never creates", False),
        ("400 Bad Request: <Code>AuthorizationHeaderMalformed</Code>", "another region", "region", False),
        ("403 Forbidden: ", "denies access", "clock", True),
        ("Generic S3 error: HTTP error: error sending request", "does not answer", "endpoint", True),
    ],
)
def test_a_refusal_says_what_to_look_at_and_whether_to_try_again(said: str, words: str, hint: str, again: bool) -> None:  # noqa: FBT001
    url = "http://host/lake?X-Amz-Signature=abc"

    error = ObjectStoreError("s3://lake/x", Exception(f"Error performing GET {url} in 1ms - Server returned {said}"))

    assert words in error.message
    assert hint in (error.hint or "")
    assert error.retryable is again
    assert "X-Amz" not in error.message


def pipeline(warehouse: str, **settings: Any) -> Pipeline:
    prefix = "/".join(warehouse.split("/")[:3])
    catalog = JdbcCatalog(type="jdbc", uri="jdbc:postgresql://db/lake", properties={"client.region": "of-catalog"})
    table = Table(name="t", source=DmsFiles(path=("landing",), header=True), keys=("id",))
    lake = Lake(warehouse=warehouse, catalog=catalog)
    return Pipeline(pipeline="p", lake=lake, tables=(table,), stores={prefix: Store(**settings)})


def test_icebergs_settings_have_the_stores_address_and_login() -> None:
    s3 = iceberg_properties(pipeline("s3://lake/shop", endpoint="http://h:1", access_key_id="A", region="of-stores"))
    settings = {"account_key": "k", "sas_token": "s"}
    azure = iceberg_properties(pipeline("abfss://raw@account.dfs.core.windows.net/x", **settings))

    assert s3 == {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": "http://h:1",
        "s3.path-style-access": "true",
        "s3.access-key-id": "A",
        "client.region": "of-catalog",
    }
    assert iceberg_properties(pipeline("gs://lake/shop")) == {"io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO"}
    assert azure == {
        "io-impl": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
        "adls.auth.shared-key.account.name": "account",
        "adls.auth.shared-key.account.key": "k",
        "adls.sas-token.account.dfs.core.windows.net": "s",
    }


@pytest.mark.parametrize(
    ("warehouse", "settings"),
    [
        ("s3://lake/shop", ("access_key_id", "secret_access_key", "session_token")),
        ("abfss://raw@account.dfs.core.windows.net/x", ("account_key", "sas_token")),
    ],
)
def test_spark_shows_no_property_that_has_a_secret_of_a_store(warehouse: str, settings: tuple[str, ...]) -> None:
    known = iceberg_properties(pipeline(warehouse, **{name: f"the {name}" for name in settings}))
    secret = [name for name, value in known.items() if value.startswith("the ")]

    assert len(secret) == len(settings)
    assert [name for name in secret if not re.search(SECRET_SETTINGS, f"spark.sql.catalog.lake.{name}")] == []


def test_obstores_settings_have_the_buckets_address_and_login() -> None:
    google = StoreAccess("gs", "lake", settings=(("service_account_file", "/key.json"),))
    azure = StoreAccess("abfss", "raw", "account", (("account_key", "k"), ("sas_token", "s")))

    assert config(google) == {"service_account": "/key.json"}
    assert config(azure) == {"account_name": "account", "account_key": "k", "sas_key": "s"}
    assert config(S3)["virtual_hosted_style_request"] is True


def test_duckdb_is_let_into_one_bucket_and_told_of_no_store_that_it_cannot_read() -> None:
    endpoint = StoreAccess("s3", "lake", settings=(*S3.settings, ("endpoint", "http://host:9000")))

    assert duckdb_secret(S3, "one") == (
        "CREATE SECRET one (TYPE 's3', REGION 'eu-west-1', KEY_ID 'A', SECRET 'it''s', "
        "URL_STYLE 'vhost', SCOPE ['s3://lake/', 's3a://lake/', 's3n://lake/'])"
    )
    below = replace(S3, below="marts/orders/")
    assert "SCOPE ['s3://lake/marts/orders/', 's3a://lake/marts/orders/'" in duckdb_secret(below, "one")
    assert "ENDPOINT 'host:9000', USE_SSL 'false', URL_STYLE 'path'" in duckdb_secret(endpoint, "one")
    with pytest.raises(StoreUnknownToDuckDBError):
        duckdb_secret(StoreAccess("gs", "lake"), "one")


@pytest.mark.parametrize(
    ("handed_out", "expected"),
    [
        (
            {"s3.access-key-id": "V", "s3.secret-access-key": "W", "s3.session-token": "T", "s3.region": "us-west-2"},
            {"access_key_id": "V", "secret_access_key": "W", "session_token": "T", "region": "us-west-2"},
        ),
        ({"s3.access-key-id": "V", "s3.secret-access-key": "W"}, {"access_key_id": "V", "secret_access_key": "W"}),
        ({"s3.endpoint": "http://elsewhere"}, None),
        ({}, None),
    ],
)
def test_a_login_that_a_catalog_hands_out_is_for_one_table_and_counts_before_what_is_declared(
    handed_out: dict[str, str], expected: dict[str, str] | None, tmp_path: Path
) -> None:
    catalog = ServiceCatalog(type="rest", uri="https://catalog", properties={"warehouse": "prod"})
    table = Table(name="orders", source=DmsFiles(path=("landing",)), keys=("id",))
    declared = {"region": "eu-west-1", "access_key_id": "A", "secret_access_key": "B", "session_token": "C"}
    pipeline = Pipeline(
        pipeline="shop",
        lake=Lake(warehouse="s3://lake", catalog=catalog),
        stores={"s3://lake": Store.model_validate(declared)},
        tables=(table,),
    ).at(tmp_path)
    login = vended_login({"warehouse": "prod", **handed_out}, {"warehouse": "prod"})
    location, folder = "s3://lake/marts/orders/metadata/1.json", "s3://lake/marts/orders"

    address = lake_address(pipeline, VendedAddress(location, folder, login) if login else location)

    assert bool(login) is (expected is not None)
    assert isinstance(address, StoreAddress)
    assert address == location
    assert dict(address.access.settings) == ({"region": "eu-west-1"} | expected if expected else declared)
    assert address.access.below == ("marts/orders/" if expected else "")
