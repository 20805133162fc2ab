"""Proofs of KEYS and LATE: whether the typed changes fit the declared keys and order."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.duck import duck_literal, identifier
from frazil.serve.check.checksum import KEY, bucket_ranges, content_of, in_buckets, key_of
from frazil.serve.check.finding import Step
from frazil.serve.check.fold import names_of, time_of
from frazil.sources.base import SNAPSHOT
from frazil.spec.amount import counted
from frazil.spec.contract import previous_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frazil.serve.check.finding import Proof, Verdict
    from frazil.serve.layers import Layers

_MANY: Final = 100
"""A batch may have this many late changes."""

_KEYS_AT_ONCE: Final = 8_000_000
"""Rows whose keys are counted at a time; each takes a hash and a few numbers."""

_KEYS_LOOKED_AT: Final = 1_000
_SHOWN: Final = 3
_REPEATED: Final = "_cdc_repeated"

_IS_LOAD: Final = f"starts_with({r.POSITION}, {duck_literal(SNAPSHOT)})"
# A load is the files of one folder in one batch: a later load may bring the same keys.
_FOLDER: Final = f"regexp_extract({r.FILE}, '^(.*)/', 1)"
_LOAD: Final = f"{r.BATCH}, {_FOLDER}"


def change_steps(proof: Proof) -> Iterator[Step]:
    """Yield the proofs that a full load has each key once, and that no batch is mostly late."""
    bronze, changes = proof.here.bronze, proof.here.changes
    if changes.exists:
        step = partial(Step, table=changes.name, needs=(bronze, changes))
        yield step(
            law="KEYS",
            what=f"{changes.name}: look for keys that come twice in a full load",
            prove=partial(_loads_name_each_key_once, proof),
        )
        yield step(
            law="LATE", what=f"{changes.name}: look for batches of old changes", prove=partial(_few_are_late, proof)
        )


def _loads_name_each_key_once(proof: Proof) -> Verdict:
    """Prove that few keys have different records in one full load.

    Cost: one scan of the keys of all loads. Repeated keys take one more, and a scan of the other columns.
    """
    every = bucket_ranges(proof.here.changes.snapshot.records, _KEYS_AT_ONCE)
    counts = [proof.one(f"SELECT count(*), coalesce(max(_cdc_n), 0) FROM ({_keys(proof, part)})") for part in every]
    keys, note = sum(count for count, _ in counts), _folded_loads(proof)
    if not keys:
        return (None, note.removeprefix("; ")) if note else (True, "no full load was taken")
    several = [part for part, (_, most) in zip(every, counts, strict=True) if most > 1]
    repeated = _keep_repeated(proof, several) if several else 0
    if not repeated:
        return True, f"{'1 key' if keys == 1 else f'each of {keys:,} keys'} of full loads has one record{note}"
    have = "has" if repeated == 1 else "have"
    said = f"{repeated:,} of {counted(keys, 'key')} of full loads {have} different records in one load"
    return repeated <= proof.here.table.max_repeated_key_fraction * keys, f"{said}: {_told_apart(proof)}{note}"


def _loads(proof: Proof, part: range) -> str:
    """Return the FROM and WHERE clauses for the load records in some buckets."""
    here = proof.here
    return f"FROM {here.changes.rows} WHERE {_IS_LOAD} AND {in_buckets(key_of(here.table.keys), part)}"


def _keys(proof: Proof, part: range) -> str:
    return (
        f"SELECT {key_of(proof.here.table.keys)} AS {KEY}, count(*) AS _cdc_n {_loads(proof, part)} GROUP BY 1, {_LOAD}"
    )


def _keep_repeated(proof: Proof, several: Sequence[range]) -> int:
    """Store the hashes of keys with different records in one load; return their number."""
    here = proof.here
    keys, content = here.table.keys, content_of(_payload(here))
    selects = [
        f"SELECT {key_of(keys)} {_loads(proof, part)} "
        f"AND {key_of(keys)} IN (SELECT {KEY} FROM ({_keys(proof, part)}) WHERE _cdc_n > 1) "
        f"GROUP BY {names_of(keys)}, {_LOAD} HAVING min({content}) <> max({content})"
        for part in several
    ]
    statements = [f"INSERT INTO {_REPEATED} {select}" for select in selects]
    proof.keep(_REPEATED, f"CREATE TEMP TABLE {_REPEATED} ({KEY} UBIGINT)", *statements)
    return int(proof.one(f"SELECT count(*) FROM {_REPEATED}")[0])


def _payload(here: Layers) -> tuple[str, ...]:
    """Return the columns of the table itself, without those that its source adds to a record."""
    source = here.table.source
    own = {*source.own_fields, *source.made_columns, *previous_keys(here.table)}
    return tuple(name for name in here.columns if name not in own)


def _told_apart(proof: Proof) -> str:
    """Name the columns in which records of one key differ, and a column that would make the key unique."""
    here = proof.here
    keys = here.table.keys
    names = [name for name in _payload(here) if name not in keys]
    some = f"SELECT DISTINCT {KEY} FROM {_REPEATED} ORDER BY 1 LIMIT {_KEYS_LOOKED_AT}"
    rows = (
        f"SELECT DISTINCT {names_of((*keys, *names))}, {r.BATCH}, {_FOLDER} AS _cdc_folder FROM {here.changes.rows} "
        f"WHERE {_IS_LOAD} AND {key_of(keys)} IN ({some})"
    )
    values = ", ".join(f"count(DISTINCT {identifier(name)}) AS {identifier(name)}" for name in names)
    by_key = (
        f"SELECT {names_of(keys)}, count(*) AS _cdc_n, {values} FROM ({rows}) "
        f"GROUP BY {names_of(keys)}, {r.BATCH}, _cdc_folder HAVING count(*) > 1"
    )
    told = ", ".join(f"bool_or({name} > 1), bool_and({name} = _cdc_n)" for name in map(identifier, names))
    _, shown = proof.offenders(f"SELECT {names_of(keys)} FROM ({by_key})", names_of(keys))
    found = proof.one(f"SELECT {told} FROM ({by_key})")
    differ = [name for name, differs in zip(names, found[::2], strict=True) if differs]
    apart = [name for name, tells in zip(names, found[1::2], strict=True) if tells]
    said = f"{shown}; they differ in {', '.join(differ)}"
    return f"{said}; keys: [{', '.join((*keys, apart[0]))}] would be unique" if apart else said


def _folded_loads(proof: Proof) -> str:
    """Return the number of folded load records as text; empty for none. Their keys cannot be counted."""
    bronze = proof.here.bronze
    if r.OFFSET not in bronze.snapshot.columns:
        return ""
    (records,) = proof.one(
        f"SELECT coalesce(sum({r.OFFSET}), 0) FROM {bronze.rows} WHERE {r.KIND} = '{r.FOLDED}' AND {r.FILE} IN "
        f"(SELECT {r.FILE} FROM {bronze.rows} WHERE {r.KIND} = '{r.LEDGER_ROW}' AND {r.LEDGER}.load)"
    )
    are = "record of a full load is", "records of full loads are"
    return f"; {counted(records, *are)} folded into the baseline, and not checked" if records else ""


def _few_are_late(proof: Proof) -> Verdict:
    """Prove that no batch is mostly late: that ``max_late_fraction`` holds.

    A change is late if it sorts before a change of its key that an earlier batch brought, although its place (or its
    time, where places are the order) is newer. Replayed corrections and repeated changes do not count. Batches up to
    the last one that a run with ``max_late_fraction: 1`` took may be late.

    Cost: one scan of the keys and of the first ordering column. For suspected batches, a sort of their keys' changes.
    """
    table, changes = proof.here.table, proof.here.changes
    if table.max_late_fraction == 1:
        return True, "max_late_fraction: 1 lets all changes be late"
    if not (table.sequence_by or table.source.server_places):
        return True, "files are the order, so no change is late"
    counts = dict(proof.connection.execute(f"SELECT {r.BATCH}, count(*) FROM {changes.rows} GROUP BY 1").fetchall())
    allowed = changes.snapshot.bookmark.get("allowed_late", 0)
    limits = {batch: max(_MANY - 1, table.max_late_fraction * n) for batch, n in counts.items() if batch > allowed}
    at_most = _at_most_late(proof) if len(counts) > 1 else {}
    suspected = [batch for batch, limit in limits.items() if at_most.get(batch, 0) > limit]
    late = _late(proof, suspected) if suspected else {}
    wrong = [
        f"batch {batch}: {found:,} of {counts[batch]:,} changes are older than what their key had, such as {example}"
        for batch, (found, example) in sorted(late.items())
        if found > limits[batch]
    ]
    if wrong:
        more = f"; {counted(len(wrong) - _SHOWN, 'more batch', 'more batches')}" if len(wrong) > _SHOWN else ""
        way = "if they are really old, set max_late_fraction: 1"
        return False, f"{'; '.join(wrong[:_SHOWN])}{more}; look at frazil key; {way}"
    note = f"; those up to {allowed} were allowed to be" if allowed else ""
    return True, f"{'1 batch is not' if len(limits) == 1 else f'none of {len(limits):,} batches is'} mostly late{note}"


def _at_most_late(proof: Proof) -> dict[int, int]:
    """Return an upper bound of the late changes of each batch, from the first ordering column alone."""
    here = proof.here
    key, first = key_of(here.table.keys), identifier((*here.table.sequence_by, r.POSITION)[0])
    found: Counter[int] = Counter()
    for part in bucket_ranges(here.changes.snapshot.records, _KEYS_AT_ONCE):
        groups = (
            f"SELECT {key} AS {KEY}, {r.BATCH}, count(*) AS _cdc_n, "
            f"min({first}) AS _cdc_first, max({first}) AS _cdc_last "
            f"FROM {here.changes.rows} WHERE {in_buckets(key, part)} GROUP BY 1, 2"
        )
        before = (
            f"SELECT *, max(_cdc_last) OVER (PARTITION BY {KEY} ORDER BY {r.BATCH} "
            f"ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS _cdc_before FROM ({groups})"
        )
        found.update(
            dict(
                proof.connection.execute(
                    f"SELECT {r.BATCH}, sum(_cdc_n) FROM ({before}) WHERE _cdc_first <= _cdc_before GROUP BY 1"
                ).fetchall()
            )
        )
    return found


def _late(proof: Proof, batches: Sequence[int]) -> dict[int, tuple[int, str]]:
    """Count the late changes of some batches, each with an example key."""
    here = proof.here
    keys, sequence = here.table.keys, here.table.sequence_by
    suspected = f"{r.BATCH} IN ({', '.join(map(str, batches))})"
    taken = f"SELECT {r.FILE}, {r.BATCH} FROM {here.bronze.rows} WHERE {r.KIND} = '{r.LEDGER_ROW}'"
    order = [*map(identifier, sequence), r.POSITION, r.ROW, f"{r.CLASS} = '{r.UPSERT}'", time_of(here)]
    at = f"struct_pack({', '.join(f'_{number} := {column}' for number, column in enumerate(order))})"
    place, upsert, time = len(sequence), len(sequence) + 2, len(sequence) + 3
    told = " AND ".join(f"{identifier(name)} IS NOT NULL" for name in sequence) or "true"
    if sequence:
        places = [f"({held}._{place}, {held}._{place + 1})" for held in ("_cdc_at", "_cdc_held")]
        new = f"{' > '.join(places)} AND _cdc_at._{upsert}"
    else:
        new = f"coalesce(_cdc_at._{time} >= _cdc_held._{time}, true)"
    names = names_of(keys)
    found: dict[int, tuple[int, str]] = {}
    for part in bucket_ranges(here.changes.snapshot.records):
        where = f"{told} AND {in_buckets(key_of(keys), part)}"
        of_keys = f"{key_of(keys)} IN (SELECT {key_of(keys)} FROM {here.changes.rows} WHERE {suspected} AND {where})"
        rows = (
            f"SELECT {names}, {r.FILE}, {r.BATCH}, {at} AS _cdc_at, {content_of(here.columns)} AS _cdc_content "
            f"FROM {here.changes.rows} WHERE {where} AND {of_keys}"
        )
        seen = (
            f"SELECT *, min({r.BATCH}) OVER (PARTITION BY {names}, _cdc_content) AS _cdc_first, max(_cdc_at) OVER "
            f"(PARTITION BY {names} ORDER BY {r.BATCH} RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS _cdc_held "
            f"FROM ({rows})"
        )
        late = (
            f"SELECT * FROM ({seen}) SEMI JOIN ({taken}) USING ({r.FILE}, {r.BATCH}) "
            f"WHERE {suspected} AND _cdc_at < _cdc_held AND {new} AND _cdc_first = {r.BATCH}"
        )
        counts = f"SELECT {r.BATCH}, count(*), min(concat_ws(', ', {names})) FROM ({late}) GROUP BY 1"
        for batch, count, shown in proof.connection.execute(counts).fetchall():
            before, least = found.get(batch, (0, shown))
            found[batch] = (before + count, min(least, shown))
    return found
