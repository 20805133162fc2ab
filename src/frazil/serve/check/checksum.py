"""Comparison of rows by checksums: 64-bit hashes of rows, summed in buckets of keys.

Two sides are equal if every bucket has the same number of rows and the same sum of hashes. Buckets that differ are
compared value by value, so every reported difference is exact. A difference is missed only if hashes collide, once in
2^64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.duck import identifier
from frazil.serve.check.fold import KEPT, Changes, complete, is_complete, names_of, times_of
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from frazil.serve.check.finding import Proof
    from frazil.serve.layers import Layer, Layers

BUCKETS: Final = 1024
"""Number of buckets. The bucket of a row follows from its key."""

ROWS_AT_ONCE: Final = 1_000_000
"""Rows that are sorted at a time; bounds the memory of a proof."""

EXACT_ROWS_AT_ONCE: Final = 250_000
"""As ``ROWS_AT_ONCE``, for rows with their values instead of hashes."""

KEY: Final = "_cdc_key"
_SHOWN: Final = 3
_NULL: Final = "hash(NULL)"
_PLACES: Final = "_cdc_places"
_DIGESTS: Final = "_cdc_digests"

Sums = dict[int, tuple[int, int]]
"""Bucket -> number of rows, and sum of their hashes."""


def key_of(keys: Sequence[str]) -> str:
    """Return SQL for the hash of a row's key."""
    return f"hash({names_of(keys)})"


def in_buckets(key: str, buckets: Sequence[int] | range) -> str:
    """Return the SQL condition that a row is in one of some buckets; ``key`` is the result of :func:`key_of`."""
    if len(buckets) == BUCKETS:
        return "true"
    if isinstance(buckets, range):
        return f"{key} % {BUCKETS} BETWEEN {buckets[0]} AND {buckets[-1]}"
    return f"{key} % {BUCKETS} IN ({', '.join(map(str, buckets))})"


def bucket_ranges(rows: int, at_once: int = ROWS_AT_ONCE) -> list[range]:
    """Divide the buckets of a table with ``rows`` rows into ranges of about ``at_once`` rows each."""
    step = max(1, BUCKETS * at_once // max(rows, at_once))
    return [range(first, min(first + step, BUCKETS)) for first in range(0, BUCKETS, step)]


def content_of(columns: Sequence[str], *, hashed: frozenset[str] = frozenset()) -> str:
    """Return SQL for the hash of some columns; columns in ``hashed`` hold hashes already, or NULL for NULL."""
    each = [
        f"coalesce({identifier(name)}, {_NULL})" if name in hashed else f"hash({identifier(name)})" for name in columns
    ]
    return f"hash({', '.join(each)})" if each else "hash(0)"


def sums(proof: Proof, key: str, content: str, rows: str) -> Sums:
    """Return each bucket's number of rows and the sum of their hashes.

    Args:
        proof: runs the query.
        key: SQL for the hash of a row's key.
        content: SQL expressions to hash, separated by commas.
        rows: the FROM clause, without FROM.
    """
    found = proof.connection.execute(
        f"SELECT {key} % {BUCKETS}, count(*), sum(hash(hash({content}))) FROM {rows} GROUP BY ALL"
    ).fetchall()
    return {bucket: (count, total) for bucket, count, total in found}


def differing(one: Sums, other: Sums) -> list[int]:
    """Return the buckets in which two sides differ, sorted."""
    return sorted(bucket for bucket in one.keys() | other.keys() if one.get(bucket) != other.get(bucket))


def digested(proof: Proof, upto: int, sets: Sequence[tuple[str, ...]]) -> str:
    """Create a temporary table of the changes up to a batch, with hashes instead of values; return its name.

    A row has the hash of the key, the ordering columns, the columns that a fold needs, and a hash of each set of
    columns in ``sets``. Without a ``change_seq`` every position belongs to a file, and its rank replaces its text.

    Args:
        proof: runs the statements, and drops the table at its end.
        upto: the newest batch to read.
        sets: sets of columns; each gets a hash column, see :func:`hash_name`.
    """
    here = proof.here
    name = f"{_DIGESTS}_{upto}"
    own = [KEY, *here.table.sequence_by, *KEPT, *map(hash_name, range(len(sets)))]
    statements = [f"CREATE TEMP TABLE {name} AS {_digests(here, upto, sets, 'false')}"]
    if _ranked(here):
        proof.keep(
            _PLACES,
            f"CREATE TEMP TABLE {_PLACES} AS SELECT _cdc_text, row_number() OVER (ORDER BY _cdc_text) AS _cdc_rank "
            f"FROM (SELECT DISTINCT {r.POSITION} AS _cdc_text FROM {here.changes.rows})",
        )
    every = [range(BUCKETS)] if is_complete(here) else bucket_ranges(here.changes.snapshot.records, EXACT_ROWS_AT_ONCE)
    for part in every:
        some = _digests(here, upto, sets, in_buckets(key_of(here.table.keys), part))
        statements.append(f"INSERT INTO {name} SELECT {names_of(own)} FROM ({some})")
    return proof.keep(name, *statements)


def hash_name(number: int) -> str:
    """Return the name of the hash column of a set of columns, given its index among the sets."""
    return f"_cdc_hash_{number}"


def digests(here: Layers, table: str, columns: Sequence[str], where: str) -> Changes:
    """Return the changes of a :func:`digested` table that meet a condition.

    Args:
        here: the tables of the source table.
        table: name of the temporary table.
        columns: hash columns that the fold returns.
        where: SQL condition over the temporary table.
    """
    return Changes(
        rows=f"(SELECT * FROM {table} WHERE {where})",
        keys=(KEY,),
        sequence_by=here.table.sequence_by,
        columns=(KEY, *columns),
        snapshot_places=here.table.source.snapshot_places,
    )


def with_positions(here: Layers, folded: str) -> str:
    """Return SQL that replaces the ranks in a fold of digests by the text of their positions, for a FROM clause."""
    if not _ranked(here):
        return f"({folded})"
    return (
        f"(SELECT * EXCLUDE ({r.POSITION}, _cdc_rank, _cdc_text), _cdc_text AS {r.POSITION} "
        f"FROM ({folded}) JOIN {_PLACES} ON {r.POSITION} = _cdc_rank)"
    )


def _ranked(here: Layers) -> bool:
    return not here.table.source.orders_records


def _digests(here: Layers, upto: int, sets: Sequence[tuple[str, ...]], where: str) -> str:
    keys, order = here.table.keys, here.table.sequence_by
    columns = tuple(dict.fromkeys((*keys, *order, *(name for columns in sets for name in columns))))
    hashed = frozenset() if is_complete(here) else frozenset(columns) - {*keys, *order}
    values = [
        f"hash({identifier(name)}) AS {identifier(name)}" if name in hashed else identifier(name) for name in columns
    ]
    place = f"_cdc_rank AS {r.POSITION}" if _ranked(here) else r.POSITION
    joined = f" JOIN {_PLACES} ON {r.POSITION} = _cdc_text" if _ranked(here) else ""
    times = [*times_of(here), *([r.SOURCE_TIME] if r.SOURCE_TIME in here.changes.snapshot.columns else [])]
    source = (
        f"(SELECT {', '.join([*values, *times])}, {place}, {r.ROW}, {r.CLASS}, {r.BATCH}, {r.KNOWN} "
        f"FROM {here.changes.rows}{joined} WHERE {r.BATCH} <= {upto} AND {where})"
    )
    hashes = [f"{content_of(columns, hashed=hashed)} AS {hash_name(number)}" for number, columns in enumerate(sets)]
    wanted = [f"{key_of(keys)} AS {KEY}", *map(identifier, order), *KEPT, *hashes]
    return f"SELECT {', '.join(wanted)} FROM ({complete(here, columns, source)})"


def same_types(one: Layer, other: Layer, columns: Sequence[str]) -> bool:
    """Whether two tables have columns of the same types, so that equal values have equal hashes."""
    return all(one.snapshot.columns.get(name) == other.snapshot.columns.get(name) for name in columns)


def row_differences(
    proof: Proof, have: Callable[[str], str], want: Callable[[str], str], buckets: Sequence[int] | None
) -> str:
    """Describe the rows that differ, value by value, with a few keys; empty if none differ. Repeated rows count.

    Args:
        proof: runs the queries.
        have: returns the SELECT of the existing rows that meet a condition.
        want: returns the SELECT of the expected rows that meet a condition, with columns in the same order.
        buckets: buckets to compare; None compares all rows at once.
    """
    keys = proof.here.table.keys
    if buckets is None:
        conditions = ["true"]
    else:
        step = len(bucket_ranges(proof.here.changes.snapshot.records, EXACT_ROWS_AT_ONCE)[0])
        some = [buckets[first : first + step] for first in range(0, len(buckets), step)]
        conditions = [in_buckets(key_of(keys), each) for each in some]
    missing = extra = 0
    missing_keys: list[str] = []
    extra_keys: list[str] = []
    for done, condition in enumerate(conditions):
        proof.progressed(f"{100 * done // len(conditions)} % of what differs")
        more_missing, lost, more_extra, odd = proof.one(_differing_rows(have(condition), want(condition), keys))
        missing, extra = missing + more_missing, extra + more_extra
        missing_keys, extra_keys = sorted({*missing_keys, *(lost or ())}), sorted({*extra_keys, *(odd or ())})
    told = []
    if missing:
        told.append(f"{counted(missing, 'row is', 'rows are')} missing: {'; '.join(missing_keys[:_SHOWN])}")
    if extra:
        told.append(f"{counted(extra, 'row', 'rows')} should not be there: {'; '.join(extra_keys[:_SHOWN])}")
    return " · ".join(told)


def _differing_rows(have: str, want: str, keys: Sequence[str]) -> str:
    """Count missing and extra rows, with the first keys of each: EXCEPT ALL both ways, in one pass."""
    sides = f"SELECT *, 1 AS _cdc_side FROM ({want}) UNION ALL SELECT *, -1 FROM ({have})"
    rows = (
        f"SELECT * EXCLUDE (_cdc_side), sum(_cdc_side) AS _cdc_side FROM ({sides}) "
        "GROUP BY ALL HAVING sum(_cdc_side) <> 0"
    )
    by_key = (
        f"SELECT concat_ws(', ', {names_of(keys)}) AS _cdc_shown, "
        "coalesce(sum(_cdc_side) FILTER (_cdc_side > 0), 0) AS _cdc_missing, "
        f"coalesce(-sum(_cdc_side) FILTER (_cdc_side < 0), 0) AS _cdc_extra FROM ({rows}) GROUP BY _cdc_shown"
    )
    return (
        f"SELECT coalesce(sum(_cdc_missing), 0), min(_cdc_shown, {_SHOWN}) FILTER (_cdc_missing > 0), "
        f"coalesce(sum(_cdc_extra), 0), min(_cdc_shown, {_SHOWN}) FILTER (_cdc_extra > 0) FROM ({by_key})"
    )
