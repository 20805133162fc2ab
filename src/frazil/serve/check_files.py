"""Proofs of ONCE and NOTHING-LOST: from the files at the source to the typed changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.bronze.read import count_lines
from frazil.serve.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.serve.finding import Proof

_SHOWN: Final = 3


def prove_files(proof: Proof) -> Iterator[Finding]:
    """Prove that every record of every file was taken once, and went on to changes or quarantine."""
    yield _paths_once(proof)
    if proof.here.table.sequence_by or proof.here.table.source.change_seq:
        # Otherwise only their place tells two files apart, and the same bytes are taken again on purpose.
        yield _contents_once(proof)
    yield _recounted(proof)
    yield _ledger_is_bronze(proof)
    yield _bronze_went_on(proof)


def _ledger(proof: Proof, *, duplicates: bool = False) -> str:
    known = "" if duplicates else f" AND {r.LEDGER}.same_as IS NULL"
    return f"SELECT {r.FILE}, unnest({r.LEDGER}) FROM {proof.here.bronze.rows} WHERE {r.KIND} = '{r.LEDGER_ROW}'{known}"


def _paths_once(proof: Proof) -> Finding:
    again = f"SELECT {r.FILE} FROM ({_ledger(proof, duplicates=True)}) GROUP BY ALL HAVING count(*) > 1"
    count, shown = proof.offenders(again, r.FILE)
    name = proof.here.bronze.name
    if count:
        return Finding(law="ONCE", table=name, ok=False, detail=f"{count} files were taken twice: {shown}")
    (files,) = proof.one(f"SELECT count(*) FROM ({_ledger(proof, duplicates=True)})")
    return Finding(law="ONCE", table=name, ok=True, detail=f"each of {files} paths was met once")


def _contents_once(proof: Proof) -> Finding:
    again = (
        f"SELECT string_agg({r.FILE}, ' = ' ORDER BY {r.FILE}) AS files FROM ({_ledger(proof)}) "
        "GROUP BY sha256 HAVING count(*) > 1"
    )
    count, shown = proof.offenders(again, "files")
    detail = f"{count} contents were taken twice: {shown}" if count else "no content was taken twice"
    return Finding(law="ONCE", table=proof.here.bronze.name, ok=not count, detail=detail)


def _recounted(proof: Proof) -> Finding:
    """Count the records of every file anew, apart from the reader that took them."""
    source, folder = proof.here.table.source, proof.pipeline.folder
    wrong: list[str] = []
    missing = lines = files = 0
    told = f'SELECT {r.FILE}, size_bytes, "rows" + bad + headers + "foreign" FROM ({_ledger(proof)})'
    taken = proof.connection.execute(f"{told} ORDER BY ALL").fetchall()
    for path, size_bytes, expected in taken:
        file = folder / path
        try:
            if file.stat().st_size != size_bytes:
                wrong.append(f"{path} has another size than when it was taken")
                continue
            found = count_lines(f"{file}", delimiter=source.csv_delimiter, escape=source.csv_escape)
        except OSError:
            missing += 1
            continue
        files, lines = files + 1, lines + found
        if found != expected:
            wrong.append(f"{path} has {found} records, the ledger says {expected}")
    gone = f"; {missing} files are no longer there" if missing else ""
    table = f"{proof.here.table.name} source"
    if wrong:
        detail = f"{len(wrong)} of {len(taken)} files: {'; '.join(wrong[:_SHOWN])}{gone}"
        return Finding(law="NOTHING-LOST", table=table, ok=False, detail=detail)
    detail = f"{lines} lines of {files} files are the ledger's{gone}"
    return Finding(law="NOTHING-LOST", table=table, ok=True if files or not missing else None, detail=detail)


def _ledger_is_bronze(proof: Proof) -> Finding:
    held = (
        f"SELECT {r.FILE}, count(*) FILTER ({r.KIND} = '{r.RECORD}') AS good, "
        f"count(*) FILTER ({r.KIND} = '{r.BAD}') AS bad, count(DISTINCT {r.ROW}) AS places "
        f"FROM {proof.here.bronze.rows} WHERE {r.KIND} <> '{r.LEDGER_ROW}' GROUP BY {r.FILE}"
    )
    differing = (
        f"SELECT {r.FILE} AS file, coalesce(h.good + h.bad, 0) AS held, coalesce(l.rows + l.bad, 0) AS told "
        f"FROM ({_ledger(proof)}) AS l FULL JOIN ({held}) AS h USING ({r.FILE}) "
        "WHERE coalesce(h.good, 0) IS DISTINCT FROM l.rows OR coalesce(h.bad, 0) IS DISTINCT FROM l.bad "
        "OR h.places <> h.good + h.bad"
    )
    shown = "file || ': bronze holds ' || held || ' records, the ledger says ' || told"
    count, examples = proof.offenders(differing, shown)
    name = proof.here.bronze.name
    if count:
        return Finding(law="NOTHING-LOST", table=name, ok=False, detail=f"{count} files differ: {examples}")
    good, bad = proof.one(f"SELECT coalesce(sum(rows), 0), coalesce(sum(bad), 0) FROM ({_ledger(proof)})")
    detail = f"{good} records and {bad} bad ones are the ledger's"
    return Finding(law="NOTHING-LOST", table=name, ok=True, detail=detail)


def _bronze_went_on(proof: Proof) -> Finding:
    here = proof.here
    if not here.changes.exists:
        return Finding(law="NOTHING-LOST", table=here.changes.name, ok=None, detail="no such table yet")
    upto = f"{r.BATCH} <= {here.changes.stand.batch}"
    place = f"{r.FILE}, {r.ROW}"
    came = f"SELECT {place} FROM {here.bronze.rows} WHERE {r.KIND} <> '{r.LEDGER_ROW}' AND {upto}"
    # A change of key is two changes of one record, of different classes.
    went = f"SELECT DISTINCT {place} FROM {here.changes.rows} WHERE {upto}"
    twice = f"SELECT {place} FROM {here.changes.rows} GROUP BY {place}, {r.CLASS} HAVING count(*) > 1"
    if here.quarantine.exists:
        went += f" UNION ALL SELECT {place} FROM {here.quarantine.rows} WHERE {upto}"
    shown = f"{r.FILE} || ' row ' || {r.ROW}"
    proofs = {
        "records are neither a change nor in quarantine": f"{came} EXCEPT ALL ({went})",
        "changes or quarantined records have no record of their own": f"({went}) EXCEPT ALL {came}",
        "records are more than one change": twice,
    }
    wrong = []
    for what, sql in proofs.items():
        count, examples = proof.offenders(sql, shown)
        if count:
            wrong.append(f"{count} {what}: {examples}")
    if wrong:
        return Finding(law="NOTHING-LOST", table=here.changes.name, ok=False, detail="; ".join(wrong))
    (count,) = proof.one(f"SELECT count(*) FROM ({came})")
    detail = f"each of {count} records is a change or in quarantine, batch {here.changes.stand.batch}"
    return Finding(law="NOTHING-LOST", table=here.changes.name, ok=True, detail=detail)
