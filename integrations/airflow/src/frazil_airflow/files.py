"""An event when files have arrived, in place of a function in the cloud that starts a job for each of them."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

from airflow.sdk import ObjectStoragePath
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_SEEN = "fingerprint"


class NewFilesTrigger(BaseEventTrigger):
    """Fire when what a landing folder holds has changed and stands still.

    It compares the whole listing (paths, sizes, times), not the name of the newest file: files that arrive out of
    order, or are written again, are met too. What it has fired for survives restarts in the asset's state. It decides
    only *when* to run: which files are new is what Frazil's bookmark says, so a missed event costs time and a
    superfluous one costs a run that does nothing.

    Args:
        path: the folder; local, or of an object store that Airflow has a provider for (``s3://bucket/folder``).
        poll_seconds: how often to look. An event comes when two looks in a row have found the same.
        conn_id: the connection for an object store.
    """

    def __init__(self, *, path: str, poll_seconds: float = 15.0, conn_id: str | None = None) -> None:
        super().__init__()
        self.path = path
        self.poll_seconds = poll_seconds
        self.conn_id = conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow starts it again by."""
        settings = {"path": self.path, "poll_seconds": self.poll_seconds, "conn_id": self.conn_id}
        return f"{NewFilesTrigger.__module__}.{NewFilesTrigger.__name__}", settings

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look again and again; a folder that is not there yet is an empty one."""
        store = self.asset_state_store
        fired = (await store.aget(_SEEN) if store is not None else None) or _fingerprint([])
        last = None
        while True:
            try:
                files = await asyncio.to_thread(listing, ObjectStoragePath(self.path, conn_id=self.conn_id))
            except Exception as error:  # noqa: BLE001 - clients of object stores have errors of their own kinds
                self.log.warning("cannot look at %s, and will again: %s", self.path, error)
                await asyncio.sleep(self.poll_seconds)
                continue
            found = _fingerprint(files)
            if found == last and found != fired:
                fired = found
                yield TriggerEvent({"path": self.path, "files": len(files)})
                if store is not None:
                    await store.aset(_SEEN, found)
            last = found
            await asyncio.sleep(self.poll_seconds)


def listing(folder: ObjectStoragePath) -> list[str]:
    """Return a line for each file below a folder: its path, size and time of change."""
    store = folder.fs
    store.invalidate_cache()  # some clients of object stores remember what they have listed
    found = store.find(folder.path, detail=True)
    return sorted(f"{path}\n{info.get('size')}\n{_changed(info)}" for path, info in found.items())


def _changed(info: dict[str, Any]) -> Any:
    return next((info[name] for name in ("mtime", "LastModified", "updated", "last_modified") if name in info), None)


def _fingerprint(lines: list[str]) -> str:
    return hashlib.sha256("\0".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
