"""Which snapshots of a table may go, by the rules of Iceberg's ``expire_snapshots``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def expirable(metadata: Mapping[str, Any], *, older_than_ms: int, retain_last: int) -> list[int]:
    """Return when the snapshots were made that may go, in milliseconds since 1970, oldest first.

    What a branch or a tag names stays. A branch also keeps its ``retain_last`` newest snapshots, and those that are not
    older; a branch that has numbers of its own for that keeps by them.

    Args:
        metadata: the table's metadata file, as Iceberg's table format has it.
        older_than_ms: snapshots made before this time may go.
        retain_last: snapshots that each branch keeps, however old they are.
    """
    snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in metadata.get("snapshots", ())}
    kept: set[int] = set()
    for ref in metadata.get("refs", {}).values():
        if ref.get("type") == "tag":
            kept.add(ref["snapshot-id"])
            continue
        least = ref.get("min-snapshots-to-keep", retain_last)
        age_ms = ref.get("max-snapshot-age-ms")
        since = older_than_ms if age_ms is None else metadata["last-updated-ms"] - age_ms
        for number, snapshot in enumerate(_ancestors(snapshots, ref["snapshot-id"])):
            if number >= least and snapshot["timestamp-ms"] < since and number:
                break
            kept.add(snapshot["snapshot-id"])
    return sorted(
        snapshot["timestamp-ms"]
        for name, snapshot in snapshots.items()
        if name not in kept and snapshot["timestamp-ms"] < older_than_ms
    )


def _ancestors(snapshots: Mapping[int, Mapping[str, Any]], newest: int) -> Iterator[Mapping[str, Any]]:
    """Yield a snapshot and those that it was made of, newest first, as far as they are there."""
    at = snapshots.get(newest)
    while at is not None:
        yield at
        at = snapshots.get(at.get("parent-snapshot-id", -1))
