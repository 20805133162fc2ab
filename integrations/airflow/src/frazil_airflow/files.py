"""A trigger for new files, instead of a cloud function that starts a job for each of them."""

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
    """Fires when the files of a landing folder have changed, and two listings in a row are equal.

    It compares the whole listing (paths, sizes, times), not the name of the newest file, so it notices files that
    arrive out of order or are replaced. The asset's state keeps the last listing across restarts. The trigger decides
    only *when* to run; Frazil's bookmark decides which files are new. A missed event delays a run, and a superfluous
    one starts a run that has nothing to do.

    Args:
        path: the folder, local or in an object store that Airflow has a provider for (``s3://bucket/folder``).
        poll_seconds: seconds between listings.
        conn_id: Airflow connection of the object store.
    """

    def __init__(self, *, path: str, poll_seconds: float = 15.0, conn_id: str | None = None) -> None:
        super().__init__()
        self.path = path
        self.poll_seconds = poll_seconds
        self.conn_id = conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and arguments with which Airflow creates the trigger again."""
        settings = {"path": self.path, "poll_seconds": self.poll_seconds, "conn_id": self.conn_id}
        return f"{NewFilesTrigger.__module__}.{NewFilesTrigger.__name__}", settings

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """List the folder repeatedly; a folder that does not exist yet is empty."""
        store = self.asset_state_store
        fired = (await store.aget(_SEEN) if store is not None else None) or _fingerprint([])
        last = None
        while True:
            try:
                files = await asyncio.to_thread(listing, ObjectStoragePath(self.path, conn_id=self.conn_id))
            except Exception as error:  # noqa: BLE001 - clients of object stores have errors of their own kinds
                self.log.warning("cannot list %s, will retry: %s", self.path, error)
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
    """Return a line for each file below a folder: its path, size and modification time."""
    store = folder.fs
    store.invalidate_cache()  # some clients of object stores cache listings
    found = store.find(folder.path, detail=True)
    return sorted(f"{path}\n{info.get('size')}\n{_changed(info)}" for path, info in found.items())


def _changed(info: dict[str, Any]) -> Any:
    return next((info[name] for name in ("mtime", "LastModified", "updated", "last_modified") if name in info), None)


def _fingerprint(lines: list[str]) -> str:
    return hashlib.sha256("\0".join(lines).encode("utf-8", "surrogateescape")).hexdigest()
