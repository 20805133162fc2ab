"""A lake on a real S3 server, by the command as users have it: what it writes, and what it reads without Java."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.end_to_end.command import frazil
from tests.end_to_end.vending import vending

from frazil import api
from frazil.catalog.conf import lake_access
from frazil.serve.query.query import QueryError
from frazil.spec.model.stores import store_access
from frazil.storage.store_client import ObjectStoreError, get, keys, put

if TYPE_CHECKING:
    from frazil.testing.s3 import S3Server

EXAMPLES = Path(__file__).parents[2] / "examples"
LOAD = "id,city,updated_at\n1,Oslo,2026-01-01 00:00:00\n"
CHANGES = "op,id,city,updated_at\nU,1,Bergen,2026-01-02 00:00:00\nD,2,,2026-01-02 00:00:00\n"


def declare(folder: Path, s3: S3Server, bucket: str, **settings: str) -> Path:
    """Write a declaration of a lake in a bucket, with a catalog in SQLite beside it."""
    store = {
        "endpoint": s3.endpoint,
        "region": "us-east-1",
        "access_key_id": s3.access_key_id,
        "secret_access_key": "${file:secret}",
        **settings,
    }
    (folder / "secret").write_text(s3.secret_access_key)
    orders = {
        "name": "orders",
        "source": {"kind": "dms", "path": "landing", "header": True},
        "keys": ["id"],
        "sequence_by": ["updated_at"],
        "columns": [{"name": "id", "type": "int"}, {"name": "city"}, {"name": "updated_at", "type": "timestamp"}],
        "marts": [{"kind": "current"}, {"kind": "history"}],
    }
    catalog = {"type": "jdbc", "uri": f"jdbc:sqlite:{folder}/catalog.db"}
    lake = {"warehouse": f"s3://{bucket}/shop", "catalog": catalog}
    declared = {"pipeline": "shop", "lake": lake, "stores": {f"s3://{bucket}": store}, "tables": [orders]}
    (folder / "frazil.yml").write_text(json.dumps(declared))
    (folder / "landing").mkdir(exist_ok=True)
    return folder


def test_a_lake_on_s3_is_written_read_without_java_and_kept_in_shape(s3: S3Server, tmp_path: Path) -> None:
    s3.make_bucket("whole")
    shop = declare(tmp_path, s3, "whole")
    (shop / "landing" / "LOAD00000001.csv").write_text(f"{LOAD}2,Rome,2026-01-01 00:00:00\n")

    assert "apply batch 1 to orders" in frazil(shop, "plan", java=False)
    frazil(shop, "run")
    (shop / "landing" / "20260102-000000000.csv").write_text(CHANGES)
    report = json.loads(frazil(shop, "run", "--json"))

    assert report["tables"][0]["outcome"] == "done"
    assert json.loads(frazil(shop, "run", "--json", java=False))["tables"][0]["outcome"] != "done"
    rows = api.query(shop, "select id, city from marts.orders order by id").rows
    assert rows == [(1, "Bergen")]
    assert "Bergen" in frazil(shop, "key", "orders", "1", java=False)
    assert "proofs hold" in frazil(shop, "check", java=False)
    assert "batch 2" in frazil(shop, "status", java=False)
    maintained = json.loads(frazil(shop, "maintain", "--json"))
    assert {"marts.orders", "marts.orders_history"} <= {one["table"] for one in maintained}
    assert all(proof.ok for proof in api.check(shop))
    assert records(s3, "whole") == ["end", "end", "start", "start"]


@pytest.mark.laws
def test_a_subject_is_erased_from_every_byte_on_s3(s3: S3Server, tmp_path: Path) -> None:
    s3.make_bucket("erased")
    shop = declare(tmp_path, s3, "erased")
    declared = json.loads((shop / "frazil.yml").read_text())
    declared["tables"][0]["columns"][0]["type"] = "string"
    (shop / "frazil.yml").write_text(json.dumps(declared | {"certificates": True}))
    rows = [f"{name}@example.org,{name}town,2026-01-01 00:00:00\n" for name in ("ann", "bob", "cyd")]
    (shop / "landing" / "LOAD00000001.csv").write_text("".join(["id,city,updated_at\n", *rows]))
    frazil(shop, "run")

    report = json.loads(frazil(shop, "erase", "--select", "orders", "--key", "bob@example.org", "--yes", "--json"))

    assert report["proof"]["found"] == []
    assert report["proof"]["bytes_searched"]
    assert report["proof"]["files"] > len(declared["tables"][0]["marts"])
    assert report["receipt"].startswith("s3://erased/shop/.frazil/erased/")
    access = lake_access(api.load(shop), "s3://erased/shop")
    left = [get(access, one["path"]).bytes() for some in keys(access, "shop") for one in some]
    assert not any(b"bob@example.org" in bytes(content) or b"bobtown" in bytes(content) for content in left)
    assert any(b"ann@example.org" in bytes(content) for content in left)
    assert api.query(shop, "select city from marts.orders order by 1").rows == [("anntown",), ("cydtown",)]
    assert [proof for proof in api.check(shop) if proof.ok is False] == []
    assert [proof for proof in api.check_certificates(shop) if not proof.ok] == []


ON_S3 = {
    "products": ("products", "shop/products", b"U,900,office,Stapler,%s,2999-01-01 00:00:00\n"),
    "airbnb": (
        "hosts",
        "airbnb_db/public/hosts_demo",
        b"op,last_updated_ts,id,since\nU,2999-01-01 00:00:00,%s,2999-01-01\n",
    ),
}
"""Example -> its table, the folder of its files, and a file of a record that goes to quarantine."""


@pytest.mark.laws
@pytest.mark.parametrize("example", ["airbnb", "products"])
def test_files_on_s3_become_a_lake_on_s3_as_the_example_says(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str
) -> None:
    table, folder, bad = ON_S3[example]
    raw_name, lake_name = f"raw-{example}", f"company-{example}"
    s3.make_bucket(raw_name)
    s3.make_bucket(lake_name)
    told = {
        "LANDING": f"s3://{raw_name}/dms",
        "LAKE": f"s3://{lake_name}/{example}",
        "CATALOG": f"jdbc:sqlite:{tmp_path}/catalog.db",
        "AWS_ACCESS_KEY_ID": s3.access_key_id,
        "AWS_SECRET_ACCESS_KEY": s3.secret_access_key,
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_REGION": "us-east-1",
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    shutil.copy(EXAMPLES / example / "on_s3.yml", tmp_path / "frazil.yml")
    raw, key = store_access(f"s3://{raw_name}", {}, tmp_path), f"dms/{folder}"
    files = sorted((EXAMPLES / example / "landing" / folder).iterdir(), reverse=True)
    put(raw, f"{key}/{files[0].name}", files[0].read_bytes())

    looked = {one["what"]: (one["ok"], one["detail"]) for one in json.loads(frazil(tmp_path, "doctor", "--json"))}
    assert looked[f"source of {table}"] == (True, f"s3://{raw_name}/{key}: listed, read")
    assert looked["warehouse"] == (True, f"s3://{lake_name}/{example}: listed, written, removed")
    assert "ingest 1 file" in frazil(tmp_path, "plan", java=False)
    frazil(tmp_path, "run")
    for file in files[1:]:
        put(raw, f"{key}/{file.name}", file.read_bytes())
    put(raw, f"{key}/29990101-000000000.csv", bad % b"many")
    report = json.loads(frazil(tmp_path, "run", "--json"))

    assert report["tables"][0]["outcome"] == "done"
    assert report["tables"][0]["files"] == len(files)  # the load is known
    assert json.loads(frazil(tmp_path, "run", "--json", java=False))["tables"][0]["outcome"] != "done"
    assert f"s3://{raw_name}/{key}/29990101-000000000.csv" in frazil(
        tmp_path, "quarantine", "--select", table, "--json", java=False
    )
    assert "proofs hold" in frazil(tmp_path, "check", java=False)
    put(raw, f"{key}/29990101-000000000.csv", bad % b"nine")
    assert "content changed after it was taken" in frazil(tmp_path, "run", code=8)


@pytest.mark.parametrize("example", ON_S3)
def test_an_example_on_s3_differs_from_the_local_one_in_its_places_alone(example: str) -> None:
    local, there = (yaml.safe_load((EXAMPLES / example / name).read_text()) for name in ("frazil.yml", "on_s3.yml"))
    for declared in (local, there):
        del declared["lake"], declared["tables"][0]["source"]["path"]

    assert there == local


@pytest.mark.laws
def test_a_rest_catalog_is_written_and_read_without_java(s3: S3Server, tmp_path: Path) -> None:
    s3.make_table_bucket("lakehouse")
    shop = declare(tmp_path, s3, "lakehouse")
    (shop / "login").write_text(f"{s3.access_key_id}:{s3.secret_access_key}")
    declared = json.loads((shop / "frazil.yml").read_text())
    login = {"credential": "${file:login}", "oauth2-server-uri": f"{s3.catalog_uri}/v1/oauth/tokens"}
    catalog = {"type": "rest", "uri": s3.catalog_uri, "properties": {"rest.auth.type": "oauth2", **login}}
    declared["lake"] = {"warehouse": "s3://lakehouse/", "catalog": catalog}
    (shop / "frazil.yml").write_text(json.dumps(declared))
    (shop / "landing" / "LOAD00000001.csv").write_text(f"{LOAD}2,Rome,2026-01-01 00:00:00\n")

    assert "apply batch 1 to orders" in frazil(shop, "plan", java=False)
    frazil(shop, "run")
    (shop / "landing" / "20260102-000000000.csv").write_text(CHANGES)
    frazil(shop, "run")

    assert json.loads(frazil(shop, "run", "--json", java=False))["tables"][0]["outcome"] != "done"
    assert api.query(shop, "select id, city from marts.orders").rows == [(1, "Bergen")]
    assert "Bergen" in frazil(shop, "key", "orders", "1", java=False)
    assert "batch 2" in frazil(shop, "status", java=False)
    assert "proofs hold" in frazil(shop, "check", java=False)
    maintained = json.loads(frazil(shop, "maintain", "--json"))
    assert {"marts.orders", "marts.orders_history"} <= {one["table"] for one in maintained}
    assert json.loads(frazil(shop, "run", "--json", java=False))["tables"][0]["outcome"] != "done"
    assert api.query(shop, "select id, city from marts.orders").rows == [(1, "Bergen")]


@pytest.mark.laws
def test_a_catalog_hands_out_the_logins_of_its_tables(s3: S3Server, tmp_path: Path) -> None:
    """No login of the store is declared: the catalog hands one out with each table."""
    s3.make_table_bucket("vended")
    shop = declare(tmp_path, s3, "vended")
    (shop / "login").write_text(f"{s3.access_key_id}:{s3.secret_access_key}")
    declared = json.loads((shop / "frazil.yml").read_text())
    login = {
        "s3.access-key-id": s3.access_key_id,
        "s3.secret-access-key": s3.secret_access_key,
        "s3.endpoint": s3.endpoint,
        "s3.path-style-access": "true",
        "client.region": "us-east-1",
    }
    with vending(s3.catalog_port, login) as uri:
        rest = {
            "credential": "${file:login}",
            "oauth2-server-uri": f"{uri}/v1/oauth/tokens",
            "warehouse": "s3://vended/",
        }
        catalog = {"type": "rest", "uri": uri, "properties": {"rest.auth.type": "oauth2", **rest}}
        del declared["stores"]
        declared["lake"] = {"warehouse": "s3://vended/", "catalog": catalog}
        (shop / "frazil.yml").write_text(json.dumps(declared))
        (shop / "landing" / "LOAD00000001.csv").write_text(f"{LOAD}2,Rome,2026-01-01 00:00:00\n")

        frazil(shop, "run")
        (shop / "landing" / "20260102-000000000.csv").write_text(CHANGES)
        frazil(shop, "run")

        assert json.loads(frazil(shop, "run", "--json", java=False))["tables"][0]["outcome"] != "done"
        assert json.loads(frazil(shop, "query", "--json", "select id, city from marts.orders", java=False)) == [
            {"id": 1, "city": "Bergen"}
        ]
        assert "Bergen" in frazil(shop, "key", "orders", "1", java=False)
        assert "batch 2" in frazil(shop, "status", java=False)
        assert "proofs hold" in frazil(shop, "check", java=False)


def records(s3: S3Server, bucket: str) -> list[str]:
    """Return which records of runs there are."""
    listed = s3.shell(f"fs.ls /buckets/{bucket}/shop/.frazil/runs")
    return sorted(line.split(".")[-2] for line in listed.splitlines() if line.endswith(".json"))


def test_a_query_reads_only_the_folders_of_the_lakes_tables(lake: Path) -> None:
    for outside in ("s3://readable/secret.txt", "s3://readable/shop/.frazil/x", "/etc/passwd"):
        with pytest.raises(QueryError, match="disabled by configuration"):
            api.query(lake, f"select * from read_text('{outside}'), orders")

    [[secret]] = api.query(lake, "select secret_string from duckdb_secrets(), orders limit 1").rows
    assert "secret=redacted" in f"{secret}"
    with pytest.raises(QueryError):
        api.query(lake, "select * from duckdb_secrets(redact=false), orders")


def test_a_mart_is_compared_with_a_dump_in_the_bucket(lake: Path) -> None:
    put(lake_access(api.load(lake), "s3://readable/shop"), "dumps/orders.csv", LOAD.encode())

    said = frazil(lake, "check", "--against", "s3://readable/dumps/orders.csv", java=False)

    assert "1 row here, 1 in s3://readable/dumps/orders.csv" in said


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"access_key_id": "nobody"}, "does not know the key"),
        ({"secret_access_key": "${file:frazil.yml}"}, "rejects the signature"),
        ({"endpoint": "http://127.0.0.1:1"}, "does not answer"),
    ],
)
def test_a_store_that_refuses_says_why_and_no_table_is_called_damaged(
    lake: Path, s3: S3Server, tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    wrong = declare(tmp_path, s3, "readable", **settings)
    (wrong / "catalog.db").write_bytes((lake / "catalog.db").read_bytes())

    with pytest.raises(ObjectStoreError, match=words) as caught:
        api.query(wrong, "select * from orders")

    assert s3.secret_access_key not in f"{caught.value}"
    with pytest.raises(ObjectStoreError, match=words):
        api.check(wrong)


@pytest.fixture(scope="module")
def lake(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with one batch."""
    s3.make_bucket("readable")
    shop = declare(tmp_path_factory.mktemp("readable"), s3, "readable")
    (shop / "landing" / "LOAD00000001.csv").write_text(LOAD)
    frazil(shop, "run")
    return shop
