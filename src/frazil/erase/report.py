"""Reports of an erase and of a treatment of personal data, and the receipt of an erase."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from frazil.audit.run_files import write_file
from frazil.errors import DifferenceError
from frazil.lake.refs import head
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from frazil.runner.table_run import TableRun

_HASHES: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Subjects to erase: keys as texts (see :func:`frazil.erase.keys.parse_key`), a condition, or both."""

    table: str
    keys: tuple[str, ...] = ()
    where: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedLayer:
    """One table of the lake in an erase.

    Attributes:
        table: namespace and name.
        role: role of the table.
        rows: number of rows of the subjects; None for an aggregate, which is recomputed.
        snapshots: number of older snapshots to remove.
        refs: names of branches and tags to remove.
        orphans: number of removed files without a reference; None before the erase.
    """

    table: str
    role: str
    rows: int | None
    snapshots: int
    refs: tuple[str, ...]
    orphans: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseProof:
    """Result of a scan of all remaining files.

    Attributes:
        rows: number of searched rows, of all tables.
        files: number of files whose bytes were searched; 0 if only Spark can read them.
        bytes_searched: the search of bytes covered all keys that are texts of six characters or more.
        by_hash: number of keys known only by hash, from a killed erase. The search covered their rows and bounds, but
            not other columns or bytes.
        found: (place, count) of each occurrence; the proof is that it is empty.
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
        erase_id: name of the erase; empty for a preview.
        subjects: number of keys, including the keys that they were changed from or to.
        layers: every table, in the order of the data.
        files: files at the source with records of the subjects, the first thousand.
        unseen: files that may have such records but whose store does not answer, the first thousand.
        folded: files at the source that may have such records, the first thousand. ``retention`` folded records of
            these files, so bronze no longer knows their keys.
        rewritten: landing files of Frazil that keep only the places of such records.
        removed: landing files of Frazil that were removed.
        resumed: the erase also finished a killed one.
        proof: result of the scan of all remaining files; None before the erase.
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
    """A value to be replaced may still be in the lake."""

    code = "FZ802"

    def __init__(self, report: TreatReport) -> None:
        self.report = report
        places = "; ".join(f"{place}: {count:,}" for place, count in report.found[:3])
        super().__init__(
            f"table {report.table!r}: values that were to be replaced are left: {places}",
            hint="another tool wrote the tables meanwhile: run the command again while no other tool writes",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TreatReport:
    """What a treatment would do, or did.

    Attributes:
        table: the source table.
        fields: fields of the source whose values are replaced in bronze, each with its treatment.
        layers: every table, in the order of the data; ``rows`` is the number of rewritten records for bronze, and None
            for a recomputed table.
        resumed: a killed treatment is finished.
        rows, files: number of rows and files that the final search read.
        found: (place, count) of each remaining value; the proof is that it is empty.
        done: False for a preview.
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
    """The lake still has an erased key."""

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
    """Write the receipt atomically.

    The receipt has counts, snapshots, the hashes of the first thousand keys and one hash over all of them. It has no
    values of rows.

    Args:
        context: the table's part of the run.
        report: the finished erase.
        hashes: hashes of all erased keys, as ``key_hash``.

    Returns:
        Path or address of the receipt: below the warehouse, or beside the declaration if the warehouse takes no files.

    Raises:
        OSError: neither place can be written.
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
