"""Proofs of ORDER, HISTORY, CONVERGE and AGREE: what the marts hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.serve.finding import Finding
from frazil.serve.fold import names_of, shown, ties, wanted
from frazil.silver.contract import declared_mart
from frazil.spec import Current, History

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frazil.serve.finding import Proof
    from frazil.serve.layers import Layer


def prove_marts(proof: Proof) -> Iterator[Finding]:
    """Prove that each mart is sound, holds what the changes fold to, and agrees with the others."""
    made: list[tuple[Current | History, Layer]] = []
    for mart, layer in proof.here.marts:
        if not layer.exists or not layer.stand.batch:
            yield Finding(law="CONVERGE", table=layer.name, ok=None, detail="nothing was applied to it yet")
            continue
        yield _one_row_a_key(proof, layer) if isinstance(mart, Current) else _sound_versions(proof, layer)
        yield _converged(proof, mart, layer)
        made.append((mart, layer))
    yield from _agreeing(proof, made)


def _one_row_a_key(proof: Proof, layer: Layer) -> Finding:
    keys = names_of(proof.here.table.keys)
    count, examples = proof.offenders(f"SELECT {keys} FROM {layer.rows} GROUP BY {keys} HAVING count(*) > 1", keys)
    detail = f"{count} keys have more than one row: {examples}" if count else "each key has one row"
    return Finding(law="ORDER", table=layer.name, ok=not count, detail=detail)


def _sound_versions(proof: Proof, layer: Layer) -> Finding:
    keys = names_of(proof.here.table.keys)
    by_key = f"(PARTITION BY {keys} ORDER BY valid_from, valid_to NULLS LAST)"
    proofs = {
        "versions end before they begin": f"FROM {layer.rows} WHERE valid_to <= valid_from",
        "versions have the wrong is_current": (
            f"FROM {layer.rows} WHERE is_current IS DISTINCT FROM (valid_to IS NULL)"
        ),
        "versions reach into the next one of their key": (
            f"FROM {layer.rows} QUALIFY lead(valid_from) OVER {by_key} < coalesce(valid_to, 'infinity')"
        ),
    }
    wrong = []
    for what, rows in proofs.items():
        count, examples = proof.offenders(f"SELECT {keys}, valid_from {rows}", f"{keys}, valid_from")
        if count:
            wrong.append(f"{count} {what}: {examples}")
    detail = "; ".join(wrong) or "versions follow one another, one current a key at most"
    return Finding(law="HISTORY", table=layer.name, ok=not wrong, detail=detail)


def _converged(proof: Proof, mart: Current | History, layer: Layer) -> Finding:
    here, batch = proof.here, layer.stand.batch
    if layer.stand.bookmark.get("declared") != declared_mart(here.table, mart):
        detail = "the declaration changed since it was written: frazil run makes it anew"
        return Finding(law="CONVERGE", table=layer.name, ok=None, detail=detail)
    columns = shown(here, mart, layer)
    have = f"SELECT {columns} FROM {layer.rows}"
    want = f"SELECT * FROM ({wanted(here, mart, layer)}) AS folded({columns})"
    (tied,) = proof.one(f"SELECT count(*) FROM ({ties(here)})")
    note = ""
    if tied:
        untied = f" ANTI JOIN ({ties(here)}) USING ({names_of(here.table.keys)})"
        have, want = f"SELECT * FROM ({have}){untied}", f"SELECT * FROM ({want}){untied}"
        note = f"; {tied} keys are left out, whose order only the content hash decides"
    wrong = _difference(proof, have, want, names_of(here.table.keys))
    detail = wrong or f"its rows are what batches 1 to {batch} fold to"
    return Finding(law="CONVERGE", table=layer.name, ok=not wrong, detail=f"{detail}{note}")


def _agreeing(proof: Proof, made: Sequence[tuple[Current | History, Layer]]) -> Iterator[Finding]:
    for place, (mart, layer) in enumerate(made[1:], 1):
        level = [pair for pair in made[:place] if pair[1].stand.batch == layer.stand.batch]
        if not level:
            other = made[0][1]
            detail = f"they stand at batches {other.stand.batch} and {layer.stand.batch}: frazil run levels them"
            yield Finding(law="AGREE", table=f"{other.name}, {layer.name}", ok=None, detail=detail)
            continue
        first, other = level[0]
        columns = names_of(name for name in proof.here.columns_in(other) if name in layer.stand.columns)
        wrong = _difference(
            proof,
            f"SELECT {columns} FROM {_living(mart, layer)}",
            f"SELECT {columns} FROM {_living(first, other)}",
            names_of(proof.here.table.keys),
        )
        detail = wrong or f"they show the same living rows at batch {layer.stand.batch}"
        yield Finding(law="AGREE", table=f"{other.name}, {layer.name}", ok=not wrong, detail=detail)


def _living(mart: Current | History, layer: Layer) -> str:
    match mart:
        case Current(deletes="hard"):
            return layer.rows
        case Current():
            return f"{layer.rows} WHERE NOT is_deleted"
        case History():
            return f"{layer.rows} WHERE is_current AND NOT is_deleted"


def _difference(proof: Proof, have: str, want: str, keys: str) -> str:
    """Say which rows differ, repeats counted, with the keys of some; empty if none do."""
    # EXCEPT ALL both ways, in one pass.
    sides = f"SELECT *, 1 AS _cdc_side FROM ({want}) UNION ALL SELECT *, -1 FROM ({have})"
    differing = (
        f"SELECT * EXCLUDE (_cdc_side), sum(_cdc_side) AS _cdc_side FROM ({sides}) "
        "GROUP BY ALL HAVING sum(_cdc_side) <> 0"
    )
    key = f"concat_ws(', ', {keys})"
    missing, missing_keys, extra, extra_keys = proof.one(
        "SELECT sum(side) FILTER (side > 0), list(DISTINCT key ORDER BY key) FILTER (side > 0), "
        "-sum(side) FILTER (side < 0), list(DISTINCT key ORDER BY key) FILTER (side < 0) "
        f"FROM (SELECT {key} AS key, _cdc_side AS side FROM ({differing}))"
    )
    told = []
    if missing:
        told.append(f"{missing} rows are missing: {'; '.join(missing_keys[:3])}")
    if extra:
        told.append(f"{extra} rows should not be there: {'; '.join(extra_keys[:3])}")
    return " · ".join(told)
