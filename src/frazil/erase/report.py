"""Reports of an erase and of a treatment of personal data, and the receipt of an erase."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from frazil.audit.run_files import write_file
from frazil.errors import DifferenceError
from frazil.lake.heads import head
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.runner.table_run import TableRun

_HASHES: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Whom an erase is about: keys as texts, see :func:`frazil.erase.subjects.parse_key`, or a condition, or both."""

    table: str
    keys: tuple[str, ...] = ()
    where: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedLayer:
    """One table of the lake in an erase.

    Attributes:
        table: namespace and name.
        role: what it is for.
        rows: rows of the subjects; None for an aggregate, which is computed again.
        snapshots: older snapshots that go.
        refs: branches and tags that go.
        orphans: files that nothing referred to and that went; None before the erase.
    """

    table: str
    role: str
    rows: int | None
    snapshots: int
    refs: tuple[str, ...]
    orphans: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseProof:
    """What a scan of everything that is left found.

    Attributes:
        rows: rows of all tables in which a key was looked for.
        files: files of the lake whose bytes were looked through; 0 where they cannot be read without Spark.
        bytes_searched: all keys were looked for as bytes, too: those that are texts of six characters or more.
        by_hash: keys of an erase that was killed, of which only the hashes are known: they were looked for as rows and
            bounds, and not as texts in other columns and bytes.
        found: (place, how often) of what was found; empty is the proof.
    """

    rows: int
    files: int
    bytes_searched: bool
    by_hash: int = 0
    found: tuple[tuple[str, int], ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not self.found


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseReport:
    """What an erase would do, or did.

    Attributes:
        table: the source table.
        erase_id: names the erase; empty for one that was not done.
        subjects: number of keys, those that they were changed from or to among them.
        layers: every table, in the order of the data.
        files: files at the source that hold records of the subjects, the first thousand.
        unseen: files that may hold such records too, and whose store could not be asked; the first thousand.
        folded: files at the source that may hold such records, which nobody knows any more since records of them were
            folded by ``retention``; the first thousand.
        rewritten: landing files that Frazil wrote, and in which nothing is left of such records but their places.
        removed: landing files that Frazil wrote, and that are gone.
        resumed: an erase that was killed was ended, too.
        proof: what a scan of all remaining files found; None before the erase.
        receipt: path or address of the receipt; None before the erase.
    """

    table: str
    subjects: int
    layers: tuple[ErasedLayer, ...]
    files: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    folded: tuple[str, ...] = ()
    erase_id: str = ""
    rewritten: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    resumed: bool = False
    proof: EraseProof | None = None
    receipt: str | None = None


class ValuesLeftError(DifferenceError):
    """A value that was to be replaced may still be in the lake."""

    code = "FZ802"

    def __init__(self, report: TreatReport) -> None:
        self.report = report
        places = "; ".join(f"{place}: {count:,}" for place, count in report.found[:3])
        super().__init__(
            f"table {report.table!r}: values that were to be replaced are left: {places}",
            hint="another tool wrote the tables meanwhile: run the command again when nothing else does",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatReport:
    """What a treatment would do, or did.

    Attributes:
        table: the source table.
        fields: fields of the source whose values are replaced in bronze, and how.
        layers: every table, in the order of the data; ``rows`` are those of records in bronze that are written again,
            None for a table that is computed again.
        resumed: one that was killed is ended.
        rows, files: that were looked through for what is left.
        found: (place, how often) of what was found; empty is the proof.
        done: it was done, and not only looked at.
    """

    table: str
    fields: Mapping[str, str]
    layers: tuple[ErasedLayer, ...]
    resumed: bool = False
    rows: int = 0
    files: int = 0
    found: tuple[tuple[str, int], ...] = ()
    done: bool = False


class OccurrencesLeftError(DifferenceError):
    """An erased key is still found in the lake."""

    code = "FZ801"

    def __init__(self, report: EraseReport) -> None:
        self.report = report
        found = report.proof.found if report.proof else ()
        places = "; ".join(f"{place}: {count:,}" for place, count in found[:3])
        super().__init__(
            f"table {report.table!r}: erased keys are still found: {places}",
            hint="other rows that name a key are not the subject's own: erase or change them at their source; "
            "--json and the receipt list all places",
        )


def write_receipt(context: TableRun, report: EraseReport, hashes: DataFrame) -> str:
    """Write the receipt, whole or not at all.

    It has counts, snapshots and hashes of the keys (of the first thousand; of all a hash over their hashes), and no
    value of a row.

    Returns:
        Its path or address: below the warehouse, or beside the declaration where that takes no files.

    Raises:
        OSError: it cannot be written there either.
    """
    keys = sorted(row[0] for row in hashes.orderBy("key_hash").limit(_HASHES).collect())
    (digest,) = hashes.agg(F.sha2(F.concat_ws("", F.sort_array(F.collect_list("key_hash"))), 256)).first() or ("",)
    snapshots = {
        layer.table: head(context.spark, quote(*_path(context, layer.table)), rebuilt=True).snapshot_id
        for layer in report.layers
    }
    content: dict[str, Any] = {
        "erase_id": report.erase_id,
        "erased_at": context.now.isoformat(),
        "pipeline": context.pipeline.pipeline,
        **{name: value for name, value in asdict(report).items() if name not in ("receipt", "erase_id")},
        "snapshot_ids": snapshots,
        "keys": keys,
        "keys_digest": digest,
        "hash": "HMAC-SHA256; the key is a property of the table of erased keys",
    }
    name, text = f"{report.erase_id}.json", (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()
    return f"{write_file(context.pipeline, 'erased', name, text, lasting=True)}/{name}"


def _path(context: TableRun, name: str) -> tuple[str, ...]:
    namespace, _, table = name.partition(".")
    return (context.bronze[0], namespace, table)
