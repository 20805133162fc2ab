"""The rules of spec/check for gold, the lake and its secrets: messages and places."""

from __future__ import annotations

from typing import Any

import pytest
from tests.spec.declared import found, pipeline


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select 1; select 2", "it must be one statement"),
        ("select * from {{ hsots }}", "reads 'hsots', which is not a mart or an aggregate; did you mean 'hosts'?"),
        ("select * from {{ itself }}", "reads itself: itself reads itself; leave one of these out"),
        ("select * from {{ round }}", "reads itself: itself reads round reads itself; leave one of these out"),
        ("select reflect('a', 'b') from {{ hosts }}", "function reflect is not allowed"),
    ],
)
def test_gold_is_one_select_over_marts_and_other_gold(sql: str, message: str) -> None:
    gold = [{"name": "itself", "sql": sql}, {"name": "round", "sql": "select count(*) as n from {{ itself }}"}]

    text = found(pipeline(gold=gold))

    assert text.startswith("gold.0.sql: sql of gold 'itself'")
    assert message in text


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("select count(*) as n from {{ hosts }}", "it must have a GROUP BY"),
        ("select name, count(*) as n from {{ by_name }} group by name", "by_name is an aggregate"),
    ],
)
def test_incremental_gold_has_groups_of_one_mart(sql: str, message: str) -> None:
    gold = [
        {"name": "itself", "sql": sql, "materialized": "incremental"},
        {
            "name": "by_name",
            "sql": "select name, count(*) as n from {{ hosts }} group by name",
            "materialized": "incremental",
        },
    ]

    text = found(pipeline(gold=gold))

    assert text.startswith("gold.0.materialized: gold 'itself' cannot be incremental")
    assert message in text
    assert text.endswith("declare materialized: table")
    assert "gold.1" not in text


# Lake and secrets


def test_a_lake_has_a_warehouse_and_a_rest_catalog_an_address() -> None:
    assert "the lake has no warehouse" in found(pipeline(lake={"warehouse": " "}))
    assert "the rest catalog has no uri" in found(pipeline(lake={"warehouse": "l", "catalog": {"type": "rest"}}))


JDBC = {"type": "jdbc", "uri": "jdbc:postgresql://db/lake"}
REST = {"type": "rest", "uri": "https://catalog"}


@pytest.mark.parametrize(
    "catalog",
    [
        {**JDBC, "password": "hunter2"},
        {**JDBC, "password": "${env:A}hunter2"},
        {**JDBC, "uri": "jdbc:postgresql://me:hunter2@db/lake"},
        {**JDBC, "uri": "jdbc:postgresql://db/lake?user=me&password=hunter2"},
        {**REST, "properties": {"credential": "id:hunter2"}},
        {**REST, "properties": {"s3.secret-access-key": "hunter2"}},
        {**REST, "properties": {"header.Authorization": "Bearer hunter2"}},
    ],
)
def test_a_secret_in_plain_text_is_reported_without_its_value(catalog: dict[str, Any]) -> None:
    text = found(pipeline(lake={"warehouse": "lake", "catalog": catalog}))

    assert "in plain text" in text
    assert "${env:" in text
    assert "hunter2" not in text


@pytest.mark.parametrize(
    "catalog",
    [
        {**JDBC, "user": "me", "password": "${env:LAKE_PASSWORD}"},
        {**JDBC, "password": "${file:/run/secrets/lake}"},
        {**JDBC, "uri": "jdbc:postgresql://me:${env:P}@db/lake"},
        {
            **REST,
            "properties": {"credential": "${env:ID}:${env:SECRET}", "oauth2-server-uri": "https://login"},
        },
        {**REST, "properties": {"header.Authorization": "Bearer ${env:T}", "s3.access-key-id": "AKIA"}},
        {**REST, "properties": {"token-refresh-enabled": "true"}},
    ],
)
def test_a_reference_to_a_secret_is_right(catalog: dict[str, Any]) -> None:
    assert found(pipeline(lake={"warehouse": "lake", "catalog": catalog})) == ""


def test_a_reference_must_be_one_that_is_known() -> None:
    text = found(pipeline(lake={"warehouse": "lake", "catalog": {**JDBC, "password": "${evn:LAKE}"}}))

    assert "has a reference that is not known: ${evn:…; known are ${env:NAME} and ${file:path}" in text
