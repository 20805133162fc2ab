"""Columns of personal data: valid declarations, matching fields, and the key of their hashes."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any

import pytest
from tests.spec.declared import ID, TS, found, pipeline, table

from frazil.errors import DeclarationError
from frazil.spec.pii import PiiKeyError, key_check, pii_fields, pii_key, stored_keys

if TYPE_CHECKING:
    from pathlib import Path

KEY = "0123456789abcdef"
KEY_OF_ENV = "${env:PII_KEY}"


def with_column(pii_key: str | None = KEY_OF_ENV, **column: Any) -> str:
    columns = [ID, TS, {"name": "email", **column}]
    return found(pipeline(table(columns=columns), pii_key=pii_key))


@pytest.mark.parametrize("way", ["drop", "mask", "hmac"])
def test_text_outside_the_key_allows_every_treatment(way: str) -> None:
    assert with_column(pii=way) == ""


def test_hashes_need_a_key_which_is_a_reference() -> None:
    assert "pii_key is missing" in with_column(pii_key=None, pii="hmac")
    told = with_column(pii_key="very secret words", pii="hmac")
    assert "plain text" in told
    assert "very secret" not in told
    assert with_column(pii_key=None, pii="mask") == ""


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"pii": "hmac", "type": "bigint"}, "pii: hmac makes texts"),
        ({"pii": "mask", "expr": "lower(mail)"}, "made by an expr"),
        ({"pii": "hmac", "pattern": "@"}, "pattern of column 'email'"),
        ({"pii": "hmac", "accepted_values": ["a"]}, "accepted_values of column 'email'"),
        ({"pii": "drop", "nullable": False}, "its values are NULL"),
    ],
)
def test_settings_that_need_the_stored_value_are_refused(column: dict[str, Any], words: str) -> None:
    assert words in with_column(**column)


def test_keys_can_only_be_hashed_and_order_not_treated_at_all() -> None:
    texts = {"name": "id", "type": "string"}
    told = found(pipeline(table(columns=[{**texts, "pii": "mask"}, {**TS, "pii": "drop"}])))

    assert "makes all keys one" in told
    assert "orders the changes" in told
    assert found(pipeline(table(columns=[{**texts, "pii": "hmac"}, TS]), pii_key=KEY_OF_ENV)) == ""
    assert "takes no pii" in found(pipeline(table(columns=[ID, TS, {"name": "*", "pii": "mask"}])))


def test_the_fields_of_a_column_are_its_old_names_and_the_values_before_a_change_too() -> None:
    columns = [ID, TS, {"name": "eMail", "pii": "hmac"}, {"name": "phone", "pii": "drop"}]
    one = table(
        columns=columns,
        renames={"mail": "email"},
        source={"kind": "dms", "path": "landing", "before_image_prefix": "BI_"},
    )
    log = {"kind": "audit_log", "path": "landing", "table": "hosts", "data": "raw", "old_data": "old"}

    plain = {"email": "hmac", "mail": "hmac", "phone": "drop"}
    assert pii_fields(pipeline(one).tables[0]) == plain | {f"bi_{name}": way for name, way in plain.items()}
    logged = pii_fields(pipeline(table(columns=columns, source=log)).tables[0])
    assert (logged["raw"], logged["old"], logged["old_email"]) == ("drop", "drop", "hmac")
    assert pii_fields(pipeline(table(source=log)).tables[0]) == {}


@pytest.mark.parametrize(
    "source",
    [
        {"kind": "postgres", "url": "postgresql://h/db", "table": "public.hosts", "landing": "l"},
        {
            "kind": "sharded",
            "shards": {"a": {"kind": "postgres", "url": "postgresql://h/a", "table": "h", "landing": "l"}},
        },
    ],
)
def test_old_keys_of_captured_sources_are_meant_too(source: dict[str, Any]) -> None:
    columns = [{"name": "id", "pii": "hmac"}, TS]
    assert pii_fields(pipeline(table(columns=columns, source=source)).tables[0]) == {"id": "hmac", "__old_id": "hmac"}


def test_given_keys_are_hashed_as_the_lake_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PII_KEY", KEY)
    columns = [{"name": "id", "pii": "hmac"}, TS, {"name": "shop"}]
    declared = pipeline(table(columns=columns, keys=["shop", "id"]), pii_key=KEY_OF_ENV)
    digest = hmac.new(KEY.encode(), b"bob@example.org", hashlib.sha256).hexdigest()

    assert stored_keys(declared, declared.tables[0], [("3", "bob@example.org"), ("4", digest)]) == [
        ("3", digest),
        ("4", digest),
    ]
    assert key_check(pii_key(declared)) != key_check(b"another key, as long")
    open_table = pipeline(table())
    assert stored_keys(open_table, open_table.tables[0], [["7"]]) == [("7",)]


def test_a_short_or_missing_key_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PII_KEY", "short")
    with pytest.raises(PiiKeyError, match="5 bytes") as caught:
        pii_key(pipeline(table(), pii_key=KEY_OF_ENV))
    assert "short" not in str(caught.value).replace("shorter", "")
    (tmp_path / "pii.key").write_text(f"{KEY}\n", encoding="utf-8")
    assert pii_key(pipeline(table(), pii_key="${file:pii.key}").at(tmp_path)) == KEY.encode()
    with pytest.raises(DeclarationError, match="cannot be read"):
        pii_key(pipeline(table(), pii_key="${file:none.key}").at(tmp_path))


def test_the_key_of_certificates_is_a_reference_and_there_are_certificates() -> None:
    told = found(pipeline(table(), certificates=True, certificate_key="very secret words"))
    assert "certificate_key" in told
    assert "very secret words" not in told
    assert "no certificates" in found(pipeline(table(), certificate_key=KEY_OF_ENV))
    assert found(pipeline(table(), certificates=True, certificate_key=KEY_OF_ENV)) == ""
