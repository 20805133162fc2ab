"""Where rows are held depends on whether there are executors beside the driver."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from frazil.spark.gateway import is_local


@pytest.mark.parametrize(
    ("master", "one_process"),
    [
        ("local", True),
        ("local[2]", True),
        ("local[*]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://host:7077", False),
        ("k8s://https://host", False),
        ("yarn", False),
    ],
)
def test_only_a_local_master_is_one_process_with_its_executors(master: str, *, one_process: bool) -> None:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master))

    assert is_local(session) is one_process
