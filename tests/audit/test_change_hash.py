"""The hash of changes depends on every value and batch, but not on order or files."""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING

from tests.databases import empty_database

from frazil.audit.hashes import ChangeHash, batch_hashes, hashed_text

if TYPE_CHECKING:
    from collections.abc import Sequence

COLUMNS = {"id": "bigint", "name": "string", "moment": "timestamp", "raw": "binary", "tags": "array<string>"}
TYPES = "id BIGINT, name VARCHAR, moment TIMESTAMPTZ, raw BLOB, tags VARCHAR[], _cdc_batch INTEGER"
ROWS = (
    "(1, 'a', '2026-01-01 00:00:00.000001+00', '\\xAA'::BLOB, ['x', 'y'], 1)",
    "(2, NULL, NULL, NULL, NULL, 1)",
    "(2, NULL, NULL, NULL, NULL, 1)",
    "(3, '', '2026-01-01 00:00:00+00', '', [], 4)",
)


def hashed(rows: Sequence[str]) -> list[tuple[int, int, str]]:
    return hashed_in_pieces(f"VALUES {', '.join(rows)}", 50_000)


def hashed_in_pieces(rows: str, rows_at_once: int) -> list[tuple[int, int, str]]:
    """Hash the rows that a query gives."""
    with empty_database() as connection:
        connection.execute(f"CREATE TABLE changes ({TYPES}); INSERT INTO changes {rows}")
        return list(batch_hashes(connection, "changes", COLUMNS, 0, rows_at_once=rows_at_once))


def test_the_hash_is_of_all_rows_of_a_batch_in_any_order_and_in_any_pieces() -> None:
    whole = hashed(ROWS)

    assert [(batch, rows) for batch, rows, _ in whole] == [(1, 3), (4, 1)]
    assert all(hashed(rows) == whole for rows in itertools.permutations(ROWS))
    many = "SELECT i, 'n' || i, NULL, NULL, NULL, i // 3000 FROM range(9000) AS t(i) ORDER BY i"
    assert hashed_in_pieces(many, 2048) == hashed_in_pieces(f"{many} DESC", 50_000)


def test_it_is_what_the_docs_say() -> None:
    texts = ['1;1:a1767225600000001;1:AA9:["x","y"]', "2;:;::", "2;:;::"]
    digests = sorted(hashlib.sha256(text.encode()).hexdigest() for text in texts)

    assert hashed(ROWS)[0][2] == hashlib.sha256("".join(digests).encode()).hexdigest()


def test_each_value_counts() -> None:
    changes = [("'a'", "'b'"), ("0001+00", "0002+00"), ("xAA", "xAB"), ("'x', 'y'", "'xy'"), ("'y'", "NULL")]
    other = [ROWS[0].replace(*change) for change in changes]

    found = {hashed([row])[0][2] for row in (ROWS[0], *other)}

    assert len(found) == 6
    assert hashed(["(1, NULL, NULL, '', NULL, 1)"]) != hashed(["(1, NULL, NULL, NULL, NULL, 1)"])
    assert hashed(["(1, '', NULL, NULL, NULL, 1)"]) != hashed(["(1, NULL, NULL, NULL, NULL, 1)"])


def test_batches_are_chained() -> None:
    one = ChangeHash().then(1, 3, "aa")

    assert (one.batch, one.rows) == (1, 3)
    assert one.digest == hashlib.sha256(b":1:3:aa").hexdigest()
    assert one.then(4, 1, "bb").rows == 4
    assert one.then(4, 1, "bb") != ChangeHash().then(1, 3, "ab").then(4, 1, "bb")


def test_names_are_quoted() -> None:
    assert hashed_text({'we"ird': "int"}) == """concat("we""ird", ';')"""
