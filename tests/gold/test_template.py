"""The marts that an aggregate's SELECT names."""

from __future__ import annotations

import pytest

from frazil.gold import render
from frazil.spec.sql.names import quote
from frazil.spec.sql.sql import mart_references


@pytest.mark.parametrize("name", ["orders", "a-b", "a b", "ö", "a`b"])
def test_what_is_checked_is_what_is_rendered(name: str) -> None:
    sql = f"select * from {{{{{name} }}}} where note = '{{}}'"

    assert mart_references(sql) == (name,)
    assert render(sql, quote) == f"select * from {quote(name)} where note = '{{}}'"
