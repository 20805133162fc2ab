"""``frazil check --certificates``: prove that the lake matches its certificates, and that none is missing."""

from __future__ import annotations

from collections import ChainMap
from typing import TYPE_CHECKING, Any, Final

import duckdb

from frazil.audit.certificates import CertificateStore, certificate_key
from frazil.audit.hashes import ChangeHash, change_hashes, file_hashes, read_table_history, snapshot_files
from frazil.catalog.catalogs import NoLakeError
from frazil.errors import FrazilError
from frazil.iceberg.metadata import NotOnThisMachineError
from frazil.iceberg.snapshot import RUN_ID
from frazil.serve.check.check import Silent
from frazil.serve.check.finding import Finding
from frazil.serve.tables import tables
from frazil.spec.amount import counted
from frazil.spec.tables import lake_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from frazil.audit.certificates import Certificate
    from frazil.audit.hashes import TableHistory
    from frazil.catalog.catalogs import Located
    from frazil.serve.check.check import CheckListener
    from frazil.spec import Pipeline
    from frazil.spec.tables import LakeTable

LAW: Final = "CERTIFIED"
_SHOWN: Final = 3


def check_certificates(
    pipeline: Pipeline, *, known: Sequence[str] = (), listener: CheckListener | None = None
) -> list[Finding]:
    """Prove that a lake matches its certificates.

    - The chain is complete: each certificate holds the hash of the one before it, and its seal if there is a key.
    - Each table is at the snapshot that the newest certificate names, and every file has its certified hash. So no
      other writer changed, added or removed a row.
    - No certificate records a snapshot of another writer, unless the table was rebuilt since.
    - The changes in silver, up to each batch, have the hash in the certificate of that batch.

    Args:
        pipeline: the declaration.
        known: hashes of certificates that you keep elsewhere; the chain must contain each of them.
        listener: receives each proof as it begins, and each finding.

    Raises:
        NoLakeError: no table of the lake exists.
        NotOnThisMachineError, ObjectStoreError: the lake cannot be reached.

    Cost: reads every byte of all tables once, and hashes the rows of silver.
    """
    located = tables(pipeline)
    store = CertificateStore.of(pipeline)
    if not located:
        raise NoLakeError(pipeline.lake.warehouse)
    if store is None:
        raise NotOnThisMachineError(pipeline.lake.warehouse)
    listener, findings = listener or Silent(), []
    listener.began(pipeline.pipeline, "read the certificates")
    chain = list(store.all())
    for finding in _findings(pipeline, chain, located, known, listener):
        findings.append(finding)
        listener.found(finding)
    return findings


def _findings(
    pipeline: Pipeline, chain: Sequence[Certificate], located: Located, known: Sequence[str], listener: CheckListener
) -> Iterator[Finding]:
    name = pipeline.pipeline
    if not chain:
        hint = None if pipeline.certificates else "certificates: true in the declaration, and frazil run"
        yield Finding(
            source_table=name, law=LAW, table="certificates", ok=False if known else None, detail="none", hint=hint
        )
        return
    wrong = [*_broken_links(chain), *_seals(chain, certificate_key(pipeline)), *_unknown(chain, known)]
    for detail in wrong:
        yield Finding(source_table=name, law=LAW, table="certificates", ok=False, detail=detail)
    if not wrong:
        sealed = chain[-1].is_sealed and not certificate_key(pipeline)
        told = " (seals not checked: no certificate_key)" if sealed else ""
        detail = (
            f"{counted(len(chain), 'certificate')}, each with the hash of the one before{told}; "
            f"the newest is {chain[-1].real_digest}"
        )
        yield Finding(source_table=name, law=LAW, table="certificates", ok=True, detail=detail)
    chain = [one for one in chain if one.is_whole]
    stood = _stood(chain)
    for made in lake_tables(pipeline):
        if made.full_name in stood:
            listener.began(made.made_of, f"hash the files of {made.full_name}")
            yield _guarded(made, lambda made=made: _table(made, chain, located))
            if made.role == "silver" and made.key in located:
                listener.began(made.made_of, f"hash the changes in {made.full_name}")
                yield _guarded(made, lambda made=made: _changes(made, chain, located))


def _stood(chain: Sequence[Certificate]) -> Mapping[str, Any]:
    """Return the state of each table in the newest certificate."""
    try:
        stood = chain[-1].content["state"]["tables"]
    except (LookupError, TypeError):
        return {}
    return stood if isinstance(stood, dict) else {}


def _guarded(made: LakeTable, prove: Any) -> Finding:
    """Run one proof. A table or certificate that cannot be read is a failed proof."""
    code = None
    try:
        ok, detail = prove()
    except FrazilError as error:
        ok, detail, code = False, error.message, error.code
    except duckdb.Error as error:
        ok, detail = False, f"cannot be read: {error}".partition("\n")[0]
    except (LookupError, TypeError, ValueError, AttributeError):
        ok, detail = False, "a certificate is not of a form that Frazil writes"
    hint = None
    if ok is False and made.role in ("mart", "gold", "silver", "quarantine"):
        hint = f"to make silver and marts from bronze again: frazil run --full-refresh --select {made.made_of}"
    return Finding(source_table=made.made_of, law=LAW, table=made.full_name, ok=ok, detail=detail, code=code, hint=hint)


def _broken_links(chain: Sequence[Certificate]) -> Iterator[str]:
    """Find certificates that are missing or changed, and those whose link to the one before is wrong."""
    before, number = "", 1
    for one in chain:
        if one.number > number:
            missing = f"{number}" if one.number == number + 1 else f"{number} to {one.number - 1}"
            yield f"certificate {missing} is missing" if "to" not in missing else f"certificates {missing} are missing"
        elif one.number < number:
            yield f"there are two certificates {one.number}"
        if not one.is_whole:
            yield f"certificate {one.number} was changed"
        elif one.number == number and one.content.get("previous") != before:
            yield f"certificate {one.number} was not made after certificate {number - 1} as it is"
        before, number = one.digest, one.number + 1


def _seals(chain: Sequence[Certificate], key: bytes) -> Iterator[str]:
    if not key:
        return
    first = next((place for place, one in enumerate(chain) if one.is_sealed), len(chain))
    if first == len(chain):
        yield "no certificate has a seal, and there is a certificate_key"
    for one in chain[first:]:
        if not one.is_sealed:
            yield f"certificate {one.number} has no seal"
        elif not one.has_seal_of(key):
            yield f"certificate {one.number} was sealed with another key, or changed"


def _unknown(chain: Sequence[Certificate], known: Sequence[str]) -> Iterator[str]:
    there = {one.real_digest for one in chain}
    for digest in known:
        if digest.lower() not in there:
            yield f"no certificate has the hash {digest}, which was noted elsewhere"


def _of(chain: Sequence[Certificate], name: str) -> list[tuple[Certificate, Mapping[str, Any]]]:
    return [(one, one.content["tables"][name]) for one in chain if name in one.content.get("tables", {})]


def _table(made: LakeTable, chain: Sequence[Certificate], located: Located) -> tuple[bool | None, str]:
    """Prove that a table is the one that the newest certificate is about."""
    name = made.full_name
    location = located.get(made.key)
    certified = chain[-1].content["state"]["tables"][name]["snapshot"]
    if location is None:
        return False, f"is gone; snapshot {certified} was certified"
    table = read_table_history(location)
    if table.snapshot != certified:
        return _moved(table, certified)
    of_table = _of(chain, name)
    if table.snapshot is None or not of_table:
        return True, "has no rows, as certified"
    noted = ChainMap(*[{**one["files"], **one["metadata"]} for _, one in reversed(of_table)])
    above, rows = snapshot_files(table)
    found = file_hashes(table, [*above, *rows])
    foreign = sorted(file for file in found if file not in noted)
    changed = sorted(file for file, digest in found.items() if noted.get(file, digest) != digest)
    problems = [f"{counted(len(changed), 'file')} changed: {_few(changed)}"] if changed else []
    problems += [f"{counted(len(foreign), 'file')} of no certificate: {_few(foreign)}"] if foreign else []
    problems += _left(of_table)
    last = of_table[-1][1]
    if table.rows != last["rows"]:
        problems.append(f"{table.rows} rows, {last['rows']} were certified")
    if problems:
        return False, "; ".join(problems)
    killed = sum(bool(one["run"]) for _, noted_ in of_table for one in noted_["left"])
    told = f"; {counted(killed, 'snapshot')} left by runs that were killed" if killed else ""
    return True, f"{counted(last['rows'], 'row')} in {counted(len(found), 'file')}, as certified{told}"


def _moved(table: TableHistory, certified: int | None) -> tuple[bool | None, str]:
    """Say how a table came to another snapshot than the newest certificate names."""
    since = table.since(certified)
    if since is None:
        return False, f"snapshot {certified} was certified, and what is there now did not come out of it"
    if all(one.get("summary", {}).get(RUN_ID) for one in since):
        return None, f"{counted(len(since), 'snapshot')} newer than the newest certificate: frazil run writes another"
    foreign = [one for one in since if not one.get("summary", {}).get(RUN_ID)]
    return False, f"written by somebody else: {_few([_snapshot(_as_left(one)) for one in foreign])}"


def _as_left(one: Mapping[str, Any]) -> dict[str, Any]:
    summary = one.get("summary", {})
    return {
        "snapshot": one["snapshot-id"],
        "operation": summary.get("operation", ""),
        "by": summary.get("engine-name", ""),
    }


def _snapshot(left: Mapping[str, Any]) -> str:
    by = f" by {left['by']}" if left["by"] else ""
    return f"snapshot {left['snapshot']} ({left['operation']}{by})"


def _left(of_table: Sequence[tuple[Certificate, Mapping[str, Any]]]) -> Iterator[str]:
    """Find snapshots of other writers since the table was last rebuilt from its inputs."""
    wholes = [place for place, (_, one) in enumerate(of_table) if one["whole"]]
    for certificate, one in of_table[wholes[-1] + 1 if wholes else 0 :]:
        foreign = [left for left in one["left"] if not left["run"]]
        if foreign:
            yield f"before certificate {certificate.number} written by somebody else: {_few(map(_snapshot, foreign))}"
        if one["unknown"]:
            yield f"before certificate {certificate.number} snapshots had expired that no certificate names"


def _changes(made: LakeTable, chain: Sequence[Certificate], located: Located) -> tuple[bool | None, str]:
    """Prove that the changes up to each batch have the hash in the certificate of that batch."""
    told = [
        (one, one.content["sources"][made.made_of]["changes"])
        for one in chain
        if "changes" in one.content.get("sources", {}).get(made.made_of, {})
    ]
    if not told:
        return None, "no certificate has a hash of its changes"
    begins = max((place for place, (_, one) in enumerate(told) if one["restated"]), default=0)
    table = read_table_history(located[made.key])
    found = {one.batch: one for one in change_hashes(table.location, table.columns, ChangeHash())}
    for certificate, one in told[begins:]:
        now = found.get(one["batch"], ChangeHash())
        if (now.digest, now.rows) != (one["digest"], one["rows"]):
            return False, (
                f"the changes up to batch {one['batch']} are not those of certificate {certificate.number}: "
                f"{now.rows} now, {one['rows']} then"
            )
    since = f" since certificate {told[begins][0].number}" if begins else ""
    return (
        True,
        f"{counted(told[-1][1]['rows'], 'change')}, the same as at each of {len(told) - begins} certificates{since}",
    )


def _few(names: Any) -> str:
    names = [*names]
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
