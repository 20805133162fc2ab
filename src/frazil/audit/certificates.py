"""Certificates of the lake's tables: written after a run, and chained, each with the hash of the one before.

A file's name is its number and the SHA-256 of its bytes. If the declaration has a key, each certificate also has a
seal: an HMAC-SHA256 over all other fields, which cannot be forged without the key.

It is written after the commits that it covers. If a process is killed in between, the tables are ahead of the newest
certificate; the next one covers them too, and lists the snapshots that another process committed.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import json
import re
import warnings
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote as percent_encoded

import duckdb

from frazil.audit.hashes import (
    ChangeHash,
    TableHistory,
    change_hashes,
    file_hashes,
    newest_position,
    read_table_history,
    snapshot_files,
)
from frazil.audit.run_files import files_place
from frazil.catalog.catalogs import NoLakeError, catalog_reader
from frazil.catalog.conf import lake_address
from frazil.errors import FrazilError, FrazilWarning
from frazil.failpoints import failpoint
from frazil.iceberg.snapshot import RUN_ID
from frazil.spec.secrets import resolve
from frazil.spec.tables import lake_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from frazil.audit.run_files import FilesPlace
    from frazil.catalog.catalogs import Located
    from frazil.spec import Pipeline, Table
    from frazil.spec.tables import LakeTable

_WHOLE: Final = ("load", "recompute", "replace")
"""Strategies that make a table of what it is computed from, whatever it had before."""
_GROWS: Final = ("append", "replace")
"""Operations after which the changes of earlier batches are what they were."""


class Certifying:
    """One command's changes to the lake, from before its first commit to the certificate.

    Create it while the pipeline's lock is held, and call :meth:`write` before the lock is released.
    """

    def __init__(self, pipeline: Pipeline, act: str, before: Located, bases: Mapping[str, int | None]) -> None:
        self._pipeline, self._act, self._before, self._bases = pipeline, act, before, bases

    @classmethod
    def of(cls, pipeline: Pipeline, act: str, *, removes_metadata: bool = False) -> Self | None:
        """Begin; None where the declaration asks for no certificates.

        Args:
            pipeline: the declaration.
            act: what is done: ``run``, ``maintain``, ``erase`` or ``rollback``.
            removes_metadata: the tables' metadata files of now may be gone when it is done.
        """
        if not pipeline.certificates:
            return None
        before = _locations(pipeline)
        bases = (
            {name: read_table_history(at).snapshot for name, at in _named(pipeline, before)} if removes_metadata else {}
        )
        return cls(pipeline, act, before, bases)

    def write(
        self, *, run_id: str, now: dt.datetime, done: Mapping[str, Mapping[str, Any]] | None = None
    ) -> str | None:
        """Write the certificate, unless every table is where the newest one says.

        Args:
            run_id: of the run, which the summaries of its commits name.
            now: the time.
            done: of each source table what there is to say beside its tables.

        Returns:
            Why it could not be written; None if it was, or nothing was to be said. The tables are as they should be
            then, and the next certificate covers them.
        """
        try:
            self._write(run_id, now, done or {})
        except FrazilError as error:
            return error.message
        except OSError as error:
            return error.strerror or f"{error}"
        except (duckdb.Error, LookupError, TypeError, ValueError, AttributeError) as error:
            # Also if the newest certificate has another version.
            return f"{type(error).__name__}: {error}".partition("\n")[0]
        return None

    def write_or_warn(self) -> None:
        """Write the certificate of a command other than a run; warn with the reason if that fails."""
        if why := self.write(run_id="", now=dt.datetime.now(dt.UTC)):
            warnings.warn(f"the certificate cannot be written: {why}", FrazilWarning, stacklevel=2)

    def _write(self, run_id: str, now: dt.datetime, done: Mapping[str, Mapping[str, Any]]) -> None:
        store = CertificateStore.of(self._pipeline)
        if store is None:
            return
        newest = store.newest()
        state: Mapping[str, Any] = newest.content.get("state", {}) if newest else {}
        stood: dict[str, Any] = dict(state.get("tables", {}))
        located = dict(_named(self._pipeline, _locations(self._pipeline)))
        gone = [name for name in stood if name not in located]
        files: dict[str, TableHistory] = {}
        tables: dict[str, Any] = {}
        for name, at in located.items():
            certified = stood.get(name, {})
            if certified.get("metadata") == _file_name(at):
                continue
            files[name] = read_table_history(at)
            if files[name].snapshot not in (None, certified.get("snapshot")):
                tables[name] = self._table(name, files[name], certified, run_id)
            stood[name] = {"snapshot": files[name].snapshot, "metadata": _file_name(at)}
        if not tables and not gone:
            return
        stood = {name: one for name, one in stood.items() if name in located}
        changes, sources = self._changes(state.get("changes", {}), files, tables)
        content = {
            "form": FORM,
            "number": newest.number + 1 if newest else 1,
            "previous": newest.real_digest if newest else "",
            "pipeline": self._pipeline.pipeline,
            "frazil": version("frazil"),
            "act": self._act,
            "run": run_id,
            "at": now.isoformat(),
            "declaration": _declaration(self._pipeline),
            "sources": {name: {**sources.get(name, {}), **done.get(name, {})} for name in {*sources, *done}},
            "tables": tables,
            "gone": gone,
            "state": {"tables": stood, "changes": changes},
        }
        failpoint("certificate.before_write")
        store.write(content, certificate_key(self._pipeline))
        failpoint("certificate.after_write")

    def _table(self, name: str, now: TableHistory, stood: Mapping[str, Any], run_id: str) -> dict[str, Any]:
        """Describe a table as it is, against where it stood when the certificate before was written."""
        base, certified = self._base(name), stood.get("snapshot")
        left = [] if base is None or not stood else _at(now, base).since(certified)
        made: Sequence[Mapping[str, Any]] = ()
        if self._act == "run":  # a table that was replaced begins again, without a parent
            own = now.since(base)
            made = (now.since(None) if own is None else own) or ()
        gap = now.since(certified)
        new = None if gap is None or certified is None else {one["snapshot-id"] for one in gap}
        above, rows = snapshot_files(now, new)
        return {
            "snapshot": now.snapshot,
            "before": certified,
            "rows": now.rows,
            "batch": now.batch,
            "columns": dict(now.columns),
            "metadata": file_hashes(now, above),
            "files": file_hashes(now, rows),
            "left": [*map(_told, [*(left or ()), *_others(made, run_id)])],
            "unknown": left is None,
            "whole": any(one.get("summary", {}).get("frazil.strategy") in _WHOLE for one in made),
        }

    def _base(self, name: str) -> int | None:
        """Return the snapshot of a table when the command began."""
        if name in self._bases:
            return self._bases[name]
        location = self._before.get(_key(name))
        return None if location is None else read_table_history(location).snapshot

    def _changes(
        self, known: Mapping[str, Mapping[str, Any]], files: Mapping[str, TableHistory], tables: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Hash the changes that came to silver; return the state of all source tables, and what is new."""
        changes, new = dict(known), {}
        for made in lake_tables(self._pipeline):
            if made.role == "silver" and made.full_name in tables:
                table, certified = files[made.full_name], tables[made.full_name]["before"]
                columns = hashlib.sha256(json.dumps(dict(table.columns)).encode()).hexdigest()
                gap = None if certified is None else table.since(certified)
                before = known.get(made.made_of, {})
                goes_on = (
                    before.get("columns") == columns
                    and gap is not None
                    and all(one.get("summary", {}).get("operation") in _GROWS for one in gap)
                )
                since = ChangeHash(**{name: before[name] for name in _CHANGE_FIELDS}) if goes_on else ChangeHash()
                at = (change_hashes(table.location, table.columns, since) or [since])[-1]
                changes[made.made_of] = {**asdict(at), "columns": columns}
                through = newest_position(table.location, since.batch)
                new[made.made_of] = {"changes": {**asdict(at), "restated": not goes_on, "through": through}}
        return changes, new


_CHANGE_FIELDS: Final = ("batch", "rows", "digest")


def certified_tables(pipeline: Pipeline) -> list[LakeTable]:
    """List the tables of a pipeline that certificates cover."""
    return [made for made in lake_tables(pipeline) if made.role != "view"]


def rules_of(table: Table, broken: Mapping[str, int]) -> dict[str, Any]:
    """Say which rules of a declaration held in a run, and how many changes broke one that only warns."""
    named = [rule.name for rule in table.rules]
    return {"held": [name for name in named if name not in broken], "broken": dict(broken)}


def _others(made: Sequence[Mapping[str, Any]], run_id: str) -> list[Mapping[str, Any]]:
    """Return those of some snapshots, the oldest first, that a run did not make.

    Its own carry its id. So do those that end with one of them and bring no rows: the first part of a write in two. A
    compaction carries none, and replaces rows by the same.
    """
    found, is_own = [], False
    for one in reversed(made):
        summary = one.get("summary", {})
        adds = summary.get("added-records", "0") != "0"
        is_own = summary.get(RUN_ID) == run_id or summary.get("operation") == "replace" or (is_own and not adds)
        if not is_own:
            found.append(one)
    return found[::-1]


def _told(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    summary = snapshot.get("summary", {})
    return {
        "snapshot": snapshot["snapshot-id"],
        "operation": summary.get("operation", ""),
        "run": summary.get(RUN_ID, ""),
        "by": summary.get("engine-name", ""),
        "at_ms": snapshot.get("timestamp-ms"),
    }


def _at(table: TableHistory, snapshot: int) -> TableHistory:
    return TableHistory(location=table.location, snapshot=snapshot, snapshots=table.snapshots)


def _locations(pipeline: Pipeline) -> Located:
    try:
        found = catalog_reader(pipeline).tables(of_others=False)
    except NoLakeError:
        return {}
    return {path: lake_address(pipeline, location) for path, location in found.items()}


def _named(pipeline: Pipeline, located: Located) -> list[tuple[str, str]]:
    made = certified_tables(pipeline)
    return [(one.full_name, located[one.key]) for one in made if one.key in located]


def _file_name(location: str) -> str:
    return location.rpartition("/")[2]


def _key(name: str) -> tuple[str, str]:
    namespace, _, table = name.partition(".")
    return namespace, table


def _declaration(pipeline: Pipeline) -> str:
    return hashlib.sha256(pipeline.model_dump_json().encode()).hexdigest()


FORM: Final = 1
"""Version of a certificate's fields."""

SEAL: Final = "seal"
_NAME: Final = re.compile(r"(\d{8,})-([0-9a-f]{64})\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A certificate as it was found.

    Attributes:
        number, digest: as its name says.
        real_digest: SHA-256 of the bytes that are there.
        content: what it says; empty where it cannot be read.
    """

    number: int
    digest: str
    real_digest: str
    content: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, found: bytes) -> Self:
        """Take apart a file and its name."""
        known = _NAME.fullmatch(name)
        number, digest = (int(known[1]), known[2]) if known else (0, "")
        try:
            content = json.loads(found)
        except ValueError:
            content = {}
        real = hashlib.sha256(found).hexdigest()
        return cls(number=number, digest=digest, real_digest=real, content=content if isinstance(content, dict) else {})

    @property
    def is_whole(self) -> bool:
        """Whether the file is the one that was written under its name."""
        return self.digest == self.real_digest and self.content.get("number") == self.number

    @property
    def is_sealed(self) -> bool:
        """Whether it has a seal, right or wrong."""
        return SEAL in self.content

    def has_seal_of(self, key: bytes) -> bool:
        """Return whether its seal was made with a key."""
        rest = {name: value for name, value in self.content.items() if name != SEAL}
        return hmac.compare_digest(f"{self.content.get(SEAL)}", _seal(rest, key))


class CertificateStore:
    """The certificates of one pipeline, below its warehouse."""

    def __init__(self, place: FilesPlace) -> None:
        self._place = place

    @classmethod
    def of(cls, pipeline: Pipeline) -> Self | None:
        """Return the store of a pipeline's certificates; None if Frazil has no client for its warehouse."""
        place = files_place(pipeline, f"certificates/{percent_encoded(pipeline.pipeline, safe='')}", lasting=True)
        return None if place is None else cls(place)

    def __str__(self) -> str:
        return f"{self._place}"

    def newest(self) -> Certificate | None:
        """Read the newest one. Cost: a listing, and a file."""
        names = self._names()
        return self._read(names[-1]) if names else None

    def all(self) -> Iterator[Certificate]:
        """Read all of them, the oldest first."""
        return map(self._read, self._names())

    def write(self, content: Mapping[str, Any], key: bytes) -> str:
        """Write a certificate, whole or not at all.

        Args:
            content: what it says, its number among it.
            key: for its seal; empty for none.

        Returns:
            The SHA-256 of its bytes.

        Raises:
            OSError, StorageError: it cannot be written.
        """
        sealed = {**content, SEAL: _seal(content, key)} if key else content
        written = _bytes(sealed)
        digest = hashlib.sha256(written).hexdigest()
        self._place.write(f"{content['number']:08d}-{digest}.json", written)
        return digest

    def _read(self, name: str) -> Certificate:
        return Certificate.of(name, self._place.read(name))

    def _names(self) -> list[str]:
        found = [(int(known[1]), name) for name in self._place.names() if (known := _NAME.fullmatch(name))]
        return [name for _, name in sorted(found)]


def certificate_key(pipeline: Pipeline) -> bytes:
    """Return the key of the seals; empty where none is declared.

    Raises:
        DeclarationError: the secret that the declaration refers to does not exist.
    """
    declared = pipeline.certificate_key
    return resolve(declared, setting="certificate_key", folder=pipeline.folder).encode() if declared else b""


def _seal(content: Mapping[str, Any], key: bytes) -> str:
    return hmac.new(key, _bytes(content), hashlib.sha256).hexdigest()


def _bytes(content: Mapping[str, Any]) -> bytes:
    """Write a certificate as bytes: one form for one content."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
