"""Proofs of ONCE and NOTHING-LOST, from the files at the source to the typed changes."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from frazil.bronze import record as r
from frazil.duck import duck_literal, identifier
from frazil.serve.check.finding import Step
from frazil.silver.baseline import BASELINE, baseline_of
from frazil.sources.capture import EmptiesRecords
from frazil.sources.kinds import source_of
from frazil.spec.amount import counted
from frazil.spec.sql.names import quote
from frazil.storage.files import address_of, storage_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.serve.check.finding import Proof, Verdict
    from frazil.serve.layers import Layers

_SHOWN: Final = 3
_DUCK_TIMES: Final = {"timestamp": "TIMESTAMPTZ", "timestamp_ntz": "TIMESTAMP", "date": "DATE"}
_READERS: Final = 4
_LEDGER: Final = "_cdc_ledger_rows"
_RECORDS: Final = "_cdc_records"
_SUSPECTS: Final = "_cdc_suspects"

# Row numbers of a file as sets of bits, 64 rows a word: exact, and a sixty-fourth of the rows.
_WORD: Final = f"{r.ROW} >> 6 AS _cdc_word"
_BITS: Final = f"coalesce(bit_or(1::UBIGINT << ({r.ROW} & 63)), 0)"
_PLACE: Final = f"{r.FILE}, {r.ROW}"


def file_steps(proof: Proof) -> Iterator[Step]:
    """Yield the proofs that every record of every file was taken once, and is a change or in quarantine."""
    here = proof.here
    bronze, changes = here.bronze, here.changes
    lost = partial(Step, law="NOTHING-LOST")
    once = partial(Step, law="ONCE", table=bronze.name, needs=(bronze,))
    yield once(what=f"{bronze.name}: look for files taken twice", prove=partial(_paths_once, proof))
    if here.table.sequence_by or here.table.source.orders_records:
        # Otherwise two files differ by their place only, and equal bytes are taken again on purpose.
        yield once(what=f"{bronze.name}: look for contents taken twice", prove=partial(_contents_once, proof))
    yield lost(
        table=f"{here.table.name} source",
        what="count the records of the files",
        needs=(bronze,),
        prove=partial(_recounted, proof),
    )
    yield lost(
        table=bronze.name,
        what=f"{bronze.name}: compare with its ledger",
        needs=(bronze,),
        prove=partial(_ledger_is_bronze, proof),
    )
    yield lost(
        table=changes.name,
        what=f"{changes.name}: look for each record of bronze",
        needs=tuple(layer for layer in (bronze, changes, here.quarantine) if layer.exists),
        prove=partial(_bronze_went_on, proof),
    )


def _ledger(proof: Proof) -> str:
    """Store the ledger, one row a file; ``same_as`` is not NULL if the content was known already."""
    return proof.keep(
        _LEDGER,
        f"CREATE TEMP TABLE {_LEDGER} AS SELECT {r.FILE}, unnest({r.LEDGER}) FROM {proof.here.bronze.rows} "
        f"WHERE {r.KIND} = '{r.LEDGER_ROW}'",
    )


def _taken(proof: Proof) -> str:
    return f"(SELECT * FROM {_ledger(proof)} WHERE same_as IS NULL)"


def _records(proof: Proof) -> str:
    """Store which records bronze holds: a word of bits for 64 rows of a file, and counts of good and bad records."""
    return proof.keep(
        _RECORDS,
        f"CREATE TEMP TABLE {_RECORDS} AS SELECT {r.FILE}, {r.BATCH}, {_WORD}, {_BITS} AS _cdc_bits, "
        f"count(*) AS _cdc_count, count(*) FILTER ({r.KIND} = '{r.RECORD}') AS _cdc_good, "
        f"count(*) FILTER ({r.KIND} = '{r.BAD}') AS _cdc_bad "
        f"FROM {proof.here.bronze.rows} WHERE {r.KIND} IN ('{r.RECORD}', '{r.BAD}') GROUP BY ALL",
    )


def _paths_once(proof: Proof) -> Verdict:
    again = f"SELECT {r.FILE} FROM {_ledger(proof)} GROUP BY ALL HAVING count(*) > 1"
    count, shown = proof.offenders(again, r.FILE)
    if count:
        return False, f"{counted(count, 'file was', 'files were')} taken twice: {shown}"
    (files,) = proof.one(f"SELECT count(*) FROM {_ledger(proof)}")
    return True, "1 path was taken once" if files == 1 else f"each of {files:,} paths was taken once"


def _contents_once(proof: Proof) -> Verdict:
    pattern = proof.here.table.source.named_delivery
    # Equal contents are taken once for each delivery that is named in their paths.
    told = "NULL" if pattern is None else f"nullif(regexp_extract({r.FILE}, {duck_literal(pattern)}, 1), '')"
    again = (
        f"SELECT string_agg({r.FILE}, ' = ' ORDER BY {r.FILE}) AS files FROM {_with_shard(proof)} "
        f"GROUP BY sha256, _cdc_shard HAVING count(*) > greatest(1, count(DISTINCT {told}))"
    )
    count, shown = proof.offenders(again, "files")
    if count:
        return False, f"{counted(count, 'content was', 'contents were')} taken twice: {shown}"
    return True, "no content was taken twice"


def _with_shard(proof: Proof) -> str:
    """Return SQL for the files that were taken, each with its shard: equal bytes of two shards are two contents."""
    column = proof.here.table.source.shard_column
    if column is None:
        return f"(SELECT *, NULL AS _cdc_shard FROM {_taken(proof)})"
    shards = (
        f"SELECT {r.FILE}, any_value({identifier(column)}) AS _cdc_of FROM {proof.here.bronze.rows} "
        f"WHERE {r.KIND} = '{r.RECORD}' GROUP BY 1"
    )
    # The shard of a file without records is unknown: its path replaces it.
    joined = f"{_taken(proof)} LEFT JOIN ({shards}) USING ({r.FILE})"
    return f"(SELECT *, coalesce(_cdc_of, {r.FILE}) AS _cdc_shard FROM {joined})"


def _recounted(proof: Proof) -> Verdict:
    """Count the records of every file again, independently of the reader that took them."""
    files = proof.connection.execute(
        f'SELECT {r.FILE}, size_bytes, sha256, "rows" + bad + headers + "foreign" FROM {_taken(proof)} ORDER BY ALL'
    ).fetchall()
    total = max(sum(size_bytes for _, size_bytes, *_ in files), 1)
    wrong: list[str] = []
    missing = lines = done = 0
    # Most of the counting is done by numpy, which releases the interpreter's lock.
    with ThreadPoolExecutor(min(_READERS, os.cpu_count() or 1)) as readers:
        counts = readers.map(lambda file: _count(proof, *file[:3]), files)
        for (path, size_bytes, _, expected), found in zip(files, counts, strict=True):
            done += size_bytes
            proof.progressed(f"{100 * done // total} %")
            if found is None:
                missing += 1
            elif isinstance(found, str):
                wrong.append(f"{path} {found}")
            elif found != expected:
                wrong.append(f"{path} has {counted(found, 'record')}, the ledger says {expected:,}")
            else:
                lines += found
    gone = f"; {counted(missing, 'file is', 'files are')} no longer there" if missing else ""
    if wrong:
        return False, f"{len(wrong):,} of {counted(len(files), 'file')}: {'; '.join(wrong[:_SHOWN])}{gone}"
    seen = len(files) - missing
    told = f"{counted(lines, 'line')} of {counted(seen, 'file')} {'is' if lines == 1 else 'are'} the ledger's{gone}"
    return (True if seen or not missing else None), told


def _count(proof: Proof, path: str, size_bytes: int, sha256: str) -> int | str | None:
    """Return the number of a file's records; text if something is wrong, None if the file no longer exists."""
    table, source = proof.here.table, source_of(proof.here.table)
    uri = address_of(path, proof.pipeline.folder, table.stores)
    try:
        found = storage_of(uri).stat(uri)
        is_emptied = isinstance(source, EmptiesRecords) and source.emptied_from(found.uri) == sha256
        if found.size_bytes != size_bytes and not is_emptied:
            return "has another size than when it was taken"
        return source.recount(found.uri)  # the same version, if the store has versions
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _ledger_is_bronze(proof: Proof) -> Verdict:
    words = (
        f"SELECT {r.FILE}, _cdc_word, sum(_cdc_good) AS good, sum(_cdc_bad) AS bad, bit_or(_cdc_bits) AS bits "
        f"FROM {_records(proof)} GROUP BY ALL"
    )
    held = (
        f"SELECT {r.FILE}, sum(good) AS good, sum(bad) AS bad, sum(bit_count(bits)) AS places "
        f"FROM ({words}) GROUP BY ALL"
    )
    erased = (
        f"SELECT {r.FILE}, count(*) AS erased FROM {proof.here.bronze.rows} WHERE {r.KIND} = '{r.ERASED}' GROUP BY ALL"
    )
    # Tables that older versions made lack the column.
    how_many = r.OFFSET if r.OFFSET in proof.here.bronze.snapshot.columns else "0"
    folded = (
        f"SELECT {r.FILE}, sum({how_many}) AS folded FROM {proof.here.bronze.rows} WHERE {r.KIND} = '{r.FOLDED}' "
        "GROUP BY ALL"
    )
    # An erased record may have been good or bad.
    told = "coalesce(l.rows + l.bad - coalesce(e.erased, 0) - coalesce(f.folded, 0), 0)"
    different = (
        f"SELECT {r.FILE} AS file, coalesce(h.good + h.bad, 0) AS held, {told} AS told "
        f"FROM {_taken(proof)} AS l FULL JOIN ({held}) AS h USING ({r.FILE}) "
        f"LEFT JOIN ({erased}) AS e USING ({r.FILE}) LEFT JOIN ({folded}) AS f USING ({r.FILE}) "
        f"WHERE l.rows IS NULL OR coalesce(h.good + h.bad, 0) <> {told} OR coalesce(h.good, 0) > l.rows "
        "OR coalesce(h.bad, 0) > l.bad OR h.places <> h.good + h.bad"
    )
    shown = "file || ': bronze holds ' || held || ' records, the ledger says ' || told"
    count, examples = proof.offenders(different, shown)
    if count:
        return False, f"{counted(count, 'file differs', 'files differ')}: {examples}"
    good, bad = proof.one(f'SELECT coalesce(sum("rows"), 0), coalesce(sum(bad), 0) FROM {_taken(proof)}')
    (gone,) = proof.one(f"SELECT coalesce(sum(erased), 0) FROM ({erased})")
    (kept,) = proof.one(f"SELECT coalesce(sum(folded), 0) FROM ({folded})")
    note = f"; {gone:,} of them {'was' if gone == 1 else 'were'} erased" if gone else ""
    note += f"; {kept:,} of them {'is' if kept == 1 else 'are'} folded into the baseline" if kept else ""
    return True, f"{counted(good, 'record')} and {bad:,} bad {'is' if good + bad == 1 else 'are'} the ledger's{note}"


def _bronze_went_on(proof: Proof) -> Verdict:
    here = proof.here
    if not here.changes.exists:
        return None, "no such table yet"
    batch, baseline = here.changes.snapshot.batch, baseline_of(here.changes.snapshot.bookmark)
    if baseline is not None and here.bronze.snapshot.bookmark.get(BASELINE) != baseline.reaches:
        return None, "a fold of old changes has not ended: frazil run ends it"
    proof.connection.execute(f"CREATE OR REPLACE TEMP TABLE {_SUSPECTS} AS {_suspects(proof)}")
    (suspects,) = proof.one(f"SELECT count(*) FROM {_SUSPECTS}")
    wrong = _astray(proof) if suspects else []
    if wrong:
        return False, "; ".join(wrong)
    (count,) = proof.one(f"SELECT coalesce(sum(_cdc_count), 0) FROM {_records(proof)} WHERE {r.BATCH} <= {batch}")
    each = "1 record is" if count == 1 else f"each of {count:,} records is"
    return True, f"{each} a change or in quarantine, batch {batch}"


def _suspects(proof: Proof) -> str:
    """Return the SELECT of the words of rows in which bronze, changes and quarantine do not add up.

    The result is exact, and takes little memory.
    """
    here = proof.here
    upto = f"{r.BATCH} <= {here.changes.snapshot.batch}"
    one_by_one = _one_by_one(here)
    # A change of key is two changes of one record, of different classes.
    went = (
        f"SELECT {r.FILE}, {_WORD}, {r.CLASS}, "
        f"coalesce(bit_or(1::UBIGINT << ({r.ROW} & 63)) FILTER ({upto}), 0) AS _cdc_bits, "
        f"count(*) = bit_count({_BITS}) AS _cdc_single FROM {here.changes.rows} WHERE {one_by_one} GROUP BY ALL"
    )
    sides = [
        (
            f"SELECT {r.FILE}, _cdc_word, _cdc_bits AS came, 0::UBIGINT AS went, 0::UBIGINT AS kept, "
            f"_cdc_count AS records, true AS single FROM {_records(proof)} WHERE {upto}"
        ),
        f"SELECT {r.FILE}, _cdc_word, 0, _cdc_bits, 0, 0, _cdc_single FROM ({went})",
    ]
    if here.quarantine.exists:
        sides.append(
            f"SELECT {r.FILE}, {_WORD}, 0, 0, {_BITS}, 0, count(*) = bit_count({_BITS}) "
            f"FROM {here.quarantine.rows} WHERE {upto} GROUP BY ALL"
        )
    return (
        f"SELECT {r.FILE} AS _cdc_suspect_file, _cdc_word AS _cdc_suspect_word FROM ({' UNION ALL '.join(sides)}) "
        "GROUP BY ALL HAVING NOT bool_and(single) OR sum(records) <> bit_count(bit_or(came)) "
        "OR bit_or(came) <> (bit_or(went) | bit_or(kept)) OR (bit_or(went) & bit_or(kept)) <> 0"
    )


def _one_by_one(here: Layers) -> str:
    """Return the SQL condition that excludes changes of the baseline, whose records bronze no longer has."""
    baseline = baseline_of(here.changes.snapshot.bookmark)
    if baseline is None:
        return "true"
    if baseline.by_place:
        last = "true" if baseline.position is None else f"{r.POSITION} >= {duck_literal(baseline.position)}"
        same = f"{r.POSITION} = {duck_literal(baseline.position or '')} AND {r.ROW} <= {baseline.row or 0}"
        return f"({last} AND NOT ({same}))"
    first = here.table.sequence_by[0]
    kind = next(column.type for column in here.contract.columns if column.name == first)
    return f"{identifier(first)} >= CAST({duck_literal(baseline.before)} AS {_DUCK_TIMES[kind]})"


def _not_truncates(here: Layers) -> str:
    """Return the SQL condition that excludes truncates, and deletes without a record.

    A truncate becomes a delete of every key before it. The deletes of a snapshot, for rows that it lacks, have row 0.
    """
    places = [
        f"({duck_literal(one['file'])}, {one['row']})" for one in here.changes.snapshot.bookmark.get("truncates", ())
    ]
    has_record = f" AND {r.ROW} IS DISTINCT FROM 0"
    return f"{has_record} AND ({r.FILE}, {r.ROW}) NOT IN ({', '.join(places)})" if places else has_record


def _not_void(here: Layers) -> str:
    """Return the SQL condition that excludes void deletes: the upsert of the same key change replaces them.

    The upsert may be in quarantine, or may not have arrived yet if the delete names its key.
    """
    meaning = source_of(here.table).meaning(here.fields, r.POSITION)
    if (event := meaning.event) is None:
        return ""
    deletes = ", ".join(map(duck_literal, event.deletes))
    upserts = f"SELECT {event.place} FROM {here.changes.rows} WHERE {r.CLASS} = '{r.UPSERT}'"
    if here.quarantine.exists:
        upserts += f" UNION ALL SELECT {event.place} FROM {here.quarantine.rows}"
    if meaning.old_keys:
        columns = {quote(name): identifier(name) for name in here.fields.values()}
        names = " AND ".join(f"{columns[field]} IS NOT NULL" for field in meaning.old_keys.values())
        upserts += f" UNION ALL SELECT {event.place} FROM {here.bronze.rows} WHERE {r.KIND} = '{r.RECORD}' AND {names}"
    is_delete = f"coalesce(lower({identifier(event.operation)}) IN ({deletes}), false)"
    went = f"({_PLACE}) IN (SELECT ({_PLACE}) FROM {here.changes.rows})"
    return f" AND NOT ({is_delete} AND {event.place} IN ({upserts}) AND NOT {went})"


def _astray(proof: Proof) -> list[str]:
    """Describe the records of the suspected words that are lost, added or doubled."""
    here = proof.here
    suspected = (
        f"SEMI JOIN {_SUSPECTS} ON {r.FILE} IS NOT DISTINCT FROM _cdc_suspect_file "
        f"AND {r.ROW} >> 6 IS NOT DISTINCT FROM _cdc_suspect_word"
    )
    upto = f"{r.BATCH} <= {here.changes.snapshot.batch}"
    upto += _not_truncates(here)
    came = f"SELECT {_PLACE} FROM {here.bronze.rows} {suspected} WHERE {r.KIND} IN ('{r.RECORD}', '{r.BAD}') AND {upto}"
    came += _not_void(here)
    kept = f"{upto} AND {_one_by_one(here)}"
    went = f"SELECT DISTINCT {_PLACE} FROM {here.changes.rows} {suspected} WHERE {kept}"
    twice = f"SELECT {_PLACE} FROM {here.changes.rows} {suspected} WHERE {kept} "
    twice += f"GROUP BY {_PLACE}, {r.CLASS} HAVING count(*) > 1"
    if here.quarantine.exists:
        went += f" UNION ALL SELECT {_PLACE} FROM {here.quarantine.rows} {suspected} WHERE {upto}"
    proofs = [
        (
            "record is neither a change nor in quarantine",
            "records are neither a change nor in quarantine",
            f"{came} EXCEPT ALL ({went})",
        ),
        (
            "change or quarantined record has no record of its own",
            "changes or quarantined records have no record of their own",
            f"({went}) EXCEPT ALL {came}",
        ),
        ("record is more than one change", "records are more than one change", twice),
    ]
    wrong = []
    for one, many, sql in proofs:
        count, examples = proof.offenders(sql, f"{r.FILE} || ' row ' || {r.ROW}")
        if count:
            wrong.append(f"{counted(count, one, many)}: {examples}")
    return wrong
