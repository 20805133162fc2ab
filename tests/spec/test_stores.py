"""How object stores are reached: the matching entry for an address, and invalid declarations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frazil.errors import DeclarationError, DeclarationProblems
from frazil.spec.load.parse import parse_declaration
from frazil.spec.model.stores import Store, is_store, split, store_access

if TYPE_CHECKING:
    from pathlib import Path

TABLE = """
tables:
  - {name: t, source: {kind: dms, path: landing, header: true}, keys: [id], columns: [{name: id, type: int}]}
"""


def region(address: str, folder: Path, **stores: str) -> str | None:
    declared = {prefix.replace("_", "/"): Store(region=name) for prefix, name in stores.items()}
    return store_access(address, declared, folder).get("region")


def test_the_longest_beginning_of_an_address_counts_and_only_at_the_end_of_a_part(tmp_path: Path) -> None:
    stores = {"s3://": "any", "s3://lake": "lake", "s3://lake/shop": "shop"}

    assert region("s3://lake/shop/marts", tmp_path, **stores) == "shop"
    assert region("s3://lake/shop", tmp_path, **stores) == "shop"
    assert region("s3://lake/shops/marts", tmp_path, **stores) == "lake"
    assert region("s3a://lake/x", tmp_path, **stores) == "lake"
    assert region("s3://lakes/shop", tmp_path, **stores) == "any"
    assert region("gs://lake/shop", tmp_path, **stores) is None


def test_the_environment_says_what_is_not_declared_and_half_a_login_is_never_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "theirs")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "theirs")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "theirs")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("LAKE_SECRET", "ours")
    stores = {"s3://lake": Store(access_key_id="ours", secret_access_key="${env:LAKE_SECRET}")}  # noqa: S106

    lake, other = (store_access(f"s3://{bucket}/x", stores, tmp_path) for bucket in ("lake", "other"))

    assert dict(lake.settings) == {"access_key_id": "ours", "secret_access_key": "ours", "region": "eu-west-1"}
    login = ("access_key_id", "secret_access_key", "session_token")
    assert [other.get(name) for name in login] == ["theirs", "theirs", "theirs"]


def test_secrets_are_not_shown_and_a_reference_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    stores = {"s3://lake": Store(access_key_id="a", secret_access_key="${file:secret}")}  # noqa: S106
    with pytest.raises(DeclarationError, match=r"stores\.s3://lake\.secret_access_key"):
        store_access("s3://lake/x", stores, tmp_path)

    (tmp_path / "secret").write_text("hush\n")

    access = store_access("s3://lake/x", stores, tmp_path)
    assert access.get("secret_access_key") == "hush"
    assert "hush" not in repr(access)


def test_the_bucket_is_part_of_the_path_where_there_is_an_endpoint_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    def style(**settings: object) -> bool:
        return store_access("s3://lake", {"s3://lake": Store(**settings)}, tmp_path).path_style  # type: ignore[arg-type]

    assert not style()
    assert style(endpoint="https://storage:9000")
    assert not style(endpoint="https://storage:9000", path_style=False)


def test_addresses_of_the_same_store_have_one_form() -> None:
    assert [is_store(text) for text in ("s3a://b/k", "gs://b", "hdfs://n/f", "/s3:/x", "file:///x")] == [
        *(True, True),
        *(False,) * 3,
    ]
    access, key = split("abfss://raw@account.dfs.core.windows.net/a/b")
    assert (access.bucket, access.account, key) == ("raw", "account", "a/b")
    assert split("s3n://bucket/a//b")[0].root == "s3://bucket"


def test_every_mistake_in_stores_is_found() -> None:
    text = """
pipeline: p
lake: {warehouse: lake}
stores:
  ./landing: {region: x}
  s3://one: {access_key_id: A}
  s3://two: {access_key_id: A, secret_access_key: plain-text}
  gs://three: {region: eu-west-1}
"""

    with pytest.raises(DeclarationProblems) as caught:
        parse_declaration(text + TABLE)

    problems = "\n".join(caught.value.problems)
    assert "'./landing' is not an address of an object store" in problems
    assert "'s3://one' has half a key" in problems
    assert "'secret_access_key' is a secret in plain text" in problems
    assert "plain-text" not in problems
    assert "'region' is a setting of s3://, and 'gs://three' has another scheme" in problems


def test_tables_know_the_stores_of_their_pipeline_and_are_not_changed_by_it() -> None:
    pipeline = parse_declaration("pipeline: p\nlake: {warehouse: lake}\nstores: {s3://b: {region: r}}" + TABLE)

    [table] = pipeline.tables

    assert table.stores == pipeline.stores
    assert table.model_copy(update={"keys": ("id",)}).stores == pipeline.stores
    other = pipeline.model_validate({**pipeline.model_dump(), "stores": {}})
    assert other.tables[0].stores == {}
