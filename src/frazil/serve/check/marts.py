"""Proofs of ORDER, HISTORY, CONVERGE and AGREE on the rows of the marts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.serve.check.checksum import (
    KEY,
    Sums,
    bucket_ranges,
    content_of,
    differing,
    digested,
    digests,
    hash_name,
    in_buckets,
    key_of,
    row_differences,
    same_types,
    sums,
    with_positions,
)
from frazil.serve.check.finding import Step
from frazil.serve.check.fold import flag_columns, mart_columns_sql, names_of, ties, wanted, with_values
from frazil.silver.contract import LAWS, declared_mart
from frazil.spec import Current, History
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from frazil.serve.check.finding import Proof, Verdict
    from frazil.serve.layers import Layer, Layers

    Mart = tuple[Current | History, Layer]

_TIED: Final = "_cdc_tied"


def mart_steps(proof: Proof) -> Iterator[Step]:
    """Yield the proofs that each mart is sound, equals the fold of its changes, and agrees with the other marts."""
    here = proof.here
    made = [pair for pair in here.marts if pair[1].exists]
    # The contract is read from the bookmarks of bronze and silver.
    contract = tuple(layer for layer in (here.bronze, here.changes) if layer.damage)
    for mart, layer in here.marts:
        prove: Callable[..., Verdict]
        if isinstance(mart, Current):
            law, what, prove = "ORDER", "look for keys with several rows", _one_row_a_key
        else:
            law, what = "HISTORY", "look at the versions of each key"
            prove = partial(_sound_versions, mart)
        if layer.exists:
            yield Step(
                law=law,
                table=layer.name,
                what=f"{layer.name}: {what}",
                needs=(layer,),
                prove=partial(prove, proof=proof, layer=layer),
            )
        yield Step(
            law="CONVERGE",
            table=layer.name,
            what=f"{layer.name}: fold {counted(here.changes.snapshot.records, 'change')}",
            needs=(*contract, here.changes, layer),
            prove=partial(_converged, proof, (mart, layer)),
        )
    for place, pair in enumerate(made[1:], 1):
        other = _level_with(pair[1], made[:place])
        yield Step(
            law="AGREE",
            table=f"{other[1].name}, {pair[1].name}",
            what=f"{pair[1].name}: compare with {other[1].name}",
            needs=(*contract, other[1], pair[1]),
            prove=partial(_agreed, proof, other, pair),
        )


def _one_row_a_key(proof: Proof, layer: Layer) -> Verdict:
    keys = proof.here.table.keys
    for part in bucket_ranges(layer.snapshot.records):
        (several,) = proof.one(
            f"SELECT count(*) FROM (SELECT {key_of(keys)} FROM {layer.rows} WHERE {in_buckets(key_of(keys), part)} "
            "GROUP BY ALL HAVING count(*) > 1)"
        )
        if several:
            break
    else:
        return True, "each key has one row"
    names = names_of(keys)
    count, examples = proof.offenders(f"SELECT {names} FROM {layer.rows} GROUP BY {names} HAVING count(*) > 1", names)
    if not count:
        return True, "each key has one row"  # hashes of keys were equal, not the keys
    return False, f"{counted(count, 'key has', 'keys have')} more than one row: {examples}"


def _known_twice(proof: Proof, layer: Layer) -> str:
    """Describe versions of a bitemporal history with an empty or overlapping time of knowledge; empty for none."""
    keys = names_of(proof.here.table.keys)
    lasts = "coalesce(valid_to > valid_from, true)"  # several empty versions may begin at the same time
    beliefs = f"(PARTITION BY {keys}, valid_from, {lasts} ORDER BY known_from, known_to NULLS LAST)"
    never = "known_to <= known_from OR (is_current AND known_to IS NOT NULL)"
    twice = f"{lasts} AND lead(known_from) OVER {beliefs} < coalesce(known_to, 'infinity')"
    offending = f"SELECT {keys}, valid_from, known_from FROM {layer.rows} QUALIFY {never} OR coalesce({twice}, false)"
    count, examples = proof.offenders(offending, f"{keys}, valid_from, known_from")
    several = counted(count, "version has", "versions have")
    return f"{several} an impossible time of knowledge: {examples}" if count else ""


def _sound_versions(mart: History, proof: Proof, layer: Layer) -> Verdict:
    keys, rows = names_of(proof.here.table.keys), known_rows(mart, layer)
    if mart.bitemporal and (twice := _known_twice(proof, layer)):
        return False, twice
    key = key_of(proof.here.table.keys)
    # Only a delete leaves an empty version: its flag, or the row that marks it, begins at the same time.
    where, gone = "WHERE", "is_deleted"
    if mart.deletes == "mark":
        where, gone = "QUALIFY", "bool_or(is_deleted) OVER (PARTITION BY {}, valid_from)"
    backwards = f"(valid_to < valid_from OR (valid_to = valid_from AND NOT {gone}))"
    mislabelled = "is_current IS DISTINCT FROM (valid_to IS NULL)"
    by_begin = "ORDER BY valid_from, valid_to NULLS LAST"
    overlapping = f"lead(valid_from) OVER (PARTITION BY {{}} {by_begin}) < coalesce(valid_to, 'infinity')"
    # Versions of two keys with one hash can only look as if they overlapped, never as if they did not.
    is_wrong = f"{backwards.format(key)} OR {mislabelled} OR coalesce({overlapping.format(key)}, false)"
    for part in bucket_ranges(layer.snapshot.records):
        (found,) = proof.one(
            f"SELECT count(*) FILTER (wrong) FROM (SELECT {is_wrong} AS wrong FROM {rows} "
            f"WHERE {in_buckets(key, part)})"
        )
        if found:
            break
    else:
        return True, "versions follow one another, one current a key at most"
    proofs = [
        (
            "version ends before it begins",
            "versions end before they begin",
            f"{where} {backwards.format(keys)}",
        ),
        ("version has the wrong is_current", "versions have the wrong is_current", f"WHERE {mislabelled}"),
        (
            "version reaches into the next one of its key",
            "versions reach into the next one of their key",
            f"QUALIFY {overlapping.format(keys)}",
        ),
    ]
    wrong = []
    for one, many, condition in proofs:
        offending = f"SELECT {keys}, valid_from FROM {rows} {condition}"
        count, examples = proof.offenders(offending, f"{keys}, valid_from")
        if count:
            wrong.append(f"{counted(count, one, many)}: {examples}")
    return not wrong, "; ".join(wrong) or "versions follow one another, one current a key at most"


def _converged(proof: Proof, pair: Mart) -> Verdict:
    here, (mart, layer) = proof.here, pair
    batch = layer.snapshot.batch
    if not layer.exists or not batch:
        return None, "nothing was applied to it yet"
    if layer.snapshot.bookmark.get("declared") != declared_mart(here.table, mart):
        return None, "its declaration changed: frazil run rebuilds it"
    if here.changes.snapshot.bookmark.get("laws", 0) < LAWS:
        return None, "an older version of Frazil made its changes: frazil run rebuilds it"
    columns, key = here.columns_in(layer), key_of(here.table.keys)
    names, tracked, rows = mart_columns_sql(columns, mart), _tracked(here, pair), known_rows(mart, layer)
    tied = _tied(proof)
    loose = f" AND {key} NOT IN (SELECT {KEY} FROM {_TIED})" if tied else ""

    def have(where: str) -> str:
        return f"SELECT {names} FROM {rows} WHERE {where}{loose}"

    def want(where: str) -> str:
        changes = with_values(here, batch, columns, f"{where}{loose}")
        return f"SELECT * FROM ({wanted(changes, mart, tracked)}) AS folded({names})"

    buckets: Sequence[int] | None = None
    if same_types(layer, here.changes, columns):
        rest = names_of((*flag_columns(mart), r.POSITION, r.ROW))
        held = sums(proof, key, f"{content_of(columns)}, {rest}", f"{rows} WHERE true{loose}")
        buckets = differing(held, _folded(proof, pair, tied=bool(tied)))
    wrong = row_differences(proof, have, want, buckets)
    note = f"; {counted(tied, 'key is', 'keys are')} left out: only the content hash orders their changes"
    detail = wrong or f"its rows are what {'batch 1 folds' if batch == 1 else f'batches 1 to {batch} fold'} to"
    return not wrong, f"{detail}{note if tied else ''}"


def _folded(proof: Proof, pair: Mart, *, tied: bool) -> Sums:
    """Return the expected sums of a mart's buckets, from a fold of hashes, one range of buckets at a time."""
    here, (mart, layer) = proof.here, pair
    level = [other for other in here.marts if other[1].snapshot.batch == layer.snapshot.batch]
    sets = list(dict.fromkeys(columns for one in level for columns in (here.columns_in(one[1]), _tracked(here, one))))
    table = digested(proof, layer.snapshot.batch, sets)
    content, state = (hash_name(sets.index(columns)) for columns in (here.columns_in(layer), _tracked(here, pair)))
    names = mart_columns_sql((KEY, content), mart)
    row = names_of((content, *flag_columns(mart), r.POSITION, r.ROW))
    found: Sums = {}
    every = bucket_ranges(here.changes.snapshot.records)
    for done, part in enumerate(every):
        proof.progressed(f"{100 * done // len(every)} %")
        where = in_buckets(KEY, part) + (f" AND {KEY} NOT IN (SELECT {KEY} FROM {_TIED})" if tied else "")
        folded = wanted(digests(here, table, (content,), where), mart, (state,))
        found |= sums(proof, KEY, row, with_positions(here, f"SELECT * FROM ({folded}) AS folded({names})"))
    return found


def _tracked(here: Layers, pair: Mart) -> tuple[str, ...]:
    mart, layer = pair
    if isinstance(mart, Current):
        return ()
    columns = here.columns_in(layer)
    return tuple(name for name in here.tracked(mart) if name in columns)


def _tied(proof: Proof) -> int:
    """Store the hashes of keys with changes that only the content hash orders; return their number."""
    here = proof.here
    if _TIED not in proof.kept:
        # If no place has two changes of one class, no key is tied. Counting bits is faster than sorting changes.
        bits = f"bit_or(1::UBIGINT << ({r.ROW} & 63))"
        (shared,) = proof.one(
            f"SELECT count(*) FROM (SELECT 1 FROM {here.changes.rows} GROUP BY hash({r.POSITION}), {r.ROW} >> 6, "
            f"{r.CLASS} HAVING count(*) IS DISTINCT FROM bit_count({bits}))"
        )
        found = ties(here) if shared else f"SELECT {names_of(here.table.keys)} FROM {here.changes.rows} LIMIT 0"
        proof.keep(_TIED, f"CREATE TEMP TABLE {_TIED} AS SELECT {key_of(here.table.keys)} AS {KEY} FROM ({found})")
    (count,) = proof.one(f"SELECT count(*) FROM {_TIED}")
    return int(count)


def _level_with(layer: Layer, made: Sequence[Mart]) -> Mart:
    return next((pair for pair in made if pair[1].snapshot.batch == layer.snapshot.batch), made[0])


def _agreed(proof: Proof, one: Mart, other: Mart) -> Verdict:
    (first_mart, first), (mart, layer) = one, other
    batch = layer.snapshot.batch
    if not batch or not first.snapshot.batch:
        return None, "nothing was applied to one of them yet"
    if first.snapshot.batch != batch:
        return (
            None,
            f"they hold batches {first.snapshot.batch} and {batch}: frazil run brings them to the same batch",
        )
    columns = tuple(name for name in proof.here.columns_in(first) if name in layer.snapshot.columns)
    names, key, content = names_of(columns), key_of(proof.here.table.keys), content_of(columns)

    def have(where: str) -> str:
        return f"SELECT {names} FROM {living_rows_sql(mart, layer)} AND {where}"

    def want(where: str) -> str:
        return f"SELECT {names} FROM {living_rows_sql(first_mart, first)} AND {where}"

    buckets: Sequence[int] | None = None
    if same_types(layer, first, columns):
        buckets = differing(
            sums(proof, key, content, living_rows_sql(mart, layer)),
            sums(proof, key, content, living_rows_sql(first_mart, first)),
        )
    wrong = row_differences(proof, have, want, buckets)
    return not wrong, wrong or f"they show the same living rows at batch {batch}"


def known_rows(mart: Current | History, layer: Layer) -> str:
    """Return the FROM clause for the rows of a mart that are known today, without superseded knowledge."""
    if isinstance(mart, History) and mart.bitemporal:
        return f"(SELECT * FROM {layer.rows} WHERE known_to IS NULL)"
    return layer.rows


def living_rows_sql(mart: Current | History, layer: Layer) -> str:
    """Return the FROM and WHERE clauses, without FROM, for the living rows of a mart; a caller may append AND."""
    match mart:
        case Current(deletes="hard"):
            return f"{layer.rows} WHERE true"
        case Current():
            return f"{layer.rows} WHERE NOT is_deleted"
        case History():
            return f"{layer.rows} WHERE is_current AND NOT is_deleted"
