"""Two hosts on one object store, which no lock reaches: what they do at once leaves the lake right (ONCE, ERASE)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.end_to_end.host import Host
from tests.end_to_end.two_hosts import new_history

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.testing.postgres import PostgresServer
    from frazil.testing.s3 import S3Server

SHORT, LONG = (15,), range(1000, 1200)
"""Seeds: one whose hosts are killed, and not stopped, as a stopped one holds its lease for half a minute; and all."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    """Two hosts, each with its own home, cache and session."""
    both = (Host(tmp_path_factory.mktemp("first")), Host(tmp_path_factory.mktemp("second")))
    yield both
    for host in both:
        host.kill()


@pytest.mark.parametrize("seed", [*SHORT, *(pytest.param(seed, marks=pytest.mark.laws) for seed in LONG)])
def test_what_two_hosts_do_at_once_leaves_the_lake_right(
    seed: int,
    hosts: tuple[Host, Host],
    s3: S3Server,
    postgres: PostgresServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    history = new_history(seed, hosts, s3, postgres.url, tmp_path_factory.mktemp("landing"))

    history.live(rounds=3 if seed in SHORT else 5)

    assert history.differences() == [], "\n".join(history.said)
