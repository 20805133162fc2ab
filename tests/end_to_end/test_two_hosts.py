"""Two hosts on one object store, which no lock reaches: what they do at once leaves the lake right (ONCE, ERASE)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from tests.end_to_end.host import Host
from tests.end_to_end.places import Places, places
from tests.end_to_end.two_captures import new_captures
from tests.end_to_end.two_hosts import new_history

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.testing.postgres import PostgresServer
    from frazil.testing.s3 import S3Server

SHORT, LONG, CAPTURES = (31,), range(1000, 1200), range(2000, 2040)
"""Seeds: one whose hosts are killed, and not stopped, as others wait for the lease of a stopped one; and all."""


@pytest.fixture(scope="module")
def hosts(servers: Places, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    """Two hosts, each with its own home, cache and session."""
    assert servers  # hosts inherit the login of Glue
    both = (Host(tmp_path_factory.mktemp("first")), Host(tmp_path_factory.mktemp("second")))
    yield both
    for host in both:
        host.close()


@pytest.fixture(scope="module")
def servers(s3: S3Server, postgres: PostgresServer) -> Iterator[Places]:
    """An object store and three catalogs."""
    with pytest.MonkeyPatch.context() as patch, places(s3, postgres, patch) as all_of_them:
        yield all_of_them


@pytest.mark.parametrize("seed", [*SHORT, *(pytest.param(seed, marks=pytest.mark.laws) for seed in LONG)])
def test_what_two_hosts_do_at_once_leaves_the_lake_right(
    seed: int,
    hosts: tuple[Host, Host],
    servers: Places,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    history = new_history(seed, hosts, servers, tmp_path_factory.mktemp("landing"))

    history.live(rounds=2 if seed in SHORT else 5)

    assert history.differences() == [], "\n".join(history.said)
    servers.forget(history.catalog, history.bucket)


@pytest.mark.laws
@pytest.mark.parametrize("seed", CAPTURES)
def test_a_host_whose_landing_folder_is_not_of_the_lake_is_refused(
    seed: int, hosts: tuple[Host, Host], servers: Places, database: str
) -> None:
    """Before it confirms a position at the server; a run that is not refused leaves the tables right."""
    history = new_captures(seed, hosts, servers, database)

    history.live(rounds=5)

    assert history.differences() == [], "\n".join(history.said)
    servers.forget(history.catalog, history.bucket)


def test_the_glue_of_these_tests_refuses_a_change_of_a_version_that_is_gone(servers: Places) -> None:
    glue: Any = boto3.client("glue", endpoint_url=servers.glue.uri, region_name="us-east-1")
    servers.lake("glue", "versions")
    glue.create_database(DatabaseInput={"Name": "marts"})
    glue.create_table(DatabaseName="marts", TableInput={"Name": "orders"})
    change = {"DatabaseName": "marts", "TableInput": {"Name": "orders"}, "VersionId": "1"}

    servers.fail("glue", 0)
    glue.update_table(**change)

    with pytest.raises(glue.exceptions.ConcurrentModificationException):
        glue.update_table(**change)
    servers.forget("glue", "versions")
