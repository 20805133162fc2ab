"""The receipt of an erase: a file below the warehouse, or beside the declaration, that says what was done.

It names nobody.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from frazil.audit.run_files import write_file
from frazil.errors import DifferenceError
from frazil.lake.heads import head
from frazil.spec.sql.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from frazil.erase.report import EraseReport
    from frazil.runner.table_run import TableRun

_HASHES: Final = 1_000


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
