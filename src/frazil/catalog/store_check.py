"""Check an object store for a lake or a source: address, region, clock and permissions."""

from __future__ import annotations

import http.client
import itertools
import ssl
import time
import uuid
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from frazil.errors import FrazilError
from frazil.sources.capture import Looked
from frazil.spec.model.stores import split
from frazil.storage import store_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.model.stores import StoreAccess

_ANSWER_SECONDS: Final = 5.0
_SKEW_SECONDS: Final = 60
"""Stores refuse requests whose time is wrong by 900 seconds; what is a third of that gets there."""
_MAGIC: Final = "*?["


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a store says to a request without a login.

    Attributes:
        skew_seconds: how much this machine's clock is ahead of it.
        region: of the bucket; None where it does not say.
    """

    skew_seconds: float
    region: str | None


def look_at_store(access: StoreAccess, address: str, *, is_written: bool, may_refuse: bool = False) -> Iterator[Looked]:
    """Check the address of a lake or of source files.

    Args:
        access: endpoint, region and credentials of the bucket.
        address: an address, or a pattern of source files.
        is_written: the address is a lake, so the check writes one small object and removes it.
        may_refuse: accept a bucket that refuses other objects than its catalog's tables.

    Yields:
        One failed check for each problem, up to the first that makes later checks pointless; else one passed check.

    Cost: a few requests; five seconds if the store does not answer.
    """
    try:
        greeting = _greeting(access)
    except OSError as error:
        hint = "look at endpoint in stores, and whether the store is up and may be reached from here"
        why = "it does not answer in time" if isinstance(error, TimeoutError) else f"{error.strerror or error}"
        yield Looked(ok=False, detail=f"{_host(access)[1]} cannot be reached: {why}", hint=hint)
        return
    if greeting is not None:
        yield from _of_greeting(greeting, access)
    try:
        done = _tried(access, address, is_written=is_written)
        if not is_written:
            yield Looked(ok=True, detail=f"{address}: {done}")
        elif _takes_files(access, address, may_refuse=may_refuse):
            yield Looked(ok=True, detail=f"{address}: {done}, written, removed")
        else:
            yield Looked(
                ok=None,
                detail=f"{address}: {done}, but only tables can be written",
                hint="run files, certificates and receipts of erases are written beside the declaration",
            )
    except FrazilError as error:
        yield Looked(ok=False, detail=error.message, hint=_hint(error, greeting))
    except OSError as error:
        yield Looked(ok=False, detail=f"{address}: {error.strerror or error}", hint="look at the key's rights")


def _of_greeting(greeting: Greeting, access: StoreAccess) -> Iterator[Looked]:
    minutes = greeting.skew_seconds / 60
    if abs(greeting.skew_seconds) > _SKEW_SECONDS:
        way = "ahead of" if minutes > 0 else "behind"
        yield Looked(
            ok=None,
            detail=f"this machine's clock is {abs(minutes):.0f} minutes {way} the store's",
            hint="set the clock: of two hosts that write, Iceberg allows a minute (FZ311), and stores refuse requests "
            "that are 15 minutes off",
        )
    declared = access.get("region") or "us-east-1"
    if greeting.region is not None and greeting.region != declared:
        yield Looked(
            ok=None,
            detail=f"{access.root} is in {greeting.region}, and requests are signed for {declared}",
            hint=f"stores: {{{access.root}: {{region: {greeting.region}}}}}",
        )


def _hint(error: FrazilError, greeting: Greeting | None) -> str | None:
    asks_region = "region" in f"{error.message}{error.hint}"
    region = greeting.region if greeting is not None else None
    return f"region: {region} in stores" if asks_region and region else error.hint


def _tried(access: StoreAccess, address: str, *, is_written: bool) -> str:
    """Read from the place as a run does, and return what was done."""
    fixed = _fixed_key(address)
    first = next((one for page in store_client.keys(access, fixed) for one in page if one["size"]), None)
    done = ["listed"]
    if first is None and fixed and not is_written:
        try:
            first = store_client.describe(access, fixed)  # the place is a file
        except FileNotFoundError:
            done = ["listed, nothing is there yet"]
    if first is not None:
        store_client.get(access, first["path"], range=(0, 1)).bytes()
        done.append("read")
    return ", ".join(done)


def _takes_files(access: StoreAccess, address: str, *, may_refuse: bool) -> bool:
    """Write an object, and remove it; return False where that is denied and may be."""
    probe = f"{_fixed_key(address)}/.frazil/doctor-{uuid.uuid4().hex}".strip("/")
    try:
        store_client.put(access, probe, b"frazil doctor")
    except store_client.ObjectStoreError as error:
        if may_refuse and error.store_code == "AccessDenied":
            return False
        raise
    store_client.delete(access, [probe])
    return True


def _fixed_key(address: str) -> str:
    """Return the key of a place up to its first wildcard."""
    key = split(address)[1].strip("/")
    return "/".join(itertools.takewhile(lambda part: not set(part) & set(_MAGIC), key.split("/")))


def _host(access: StoreAccess) -> tuple[str, str, str]:
    """Return scheme and host of a store, and the path of the bucket."""
    if access.scheme == "gs":
        return "https", "storage.googleapis.com", f"/{access.bucket}"
    if access.scheme == "abfss":
        return "https", f"{access.account}.blob.core.windows.net", f"/{access.bucket}?restype=container"
    endpoint = access.get("endpoint")
    if endpoint is None:
        return "https", f"s3.{access.get('region') or 'us-east-1'}.amazonaws.com", f"/{access.bucket}"
    parts = urlsplit(endpoint)
    return parts.scheme or "https", parts.netloc or parts.path, f"/{access.bucket}"


def _greeting(access: StoreAccess) -> Greeting | None:
    """Ask a store for its bucket without a login; None where its answer says nothing, or a proxy stands between.

    Raises:
        OSError: it does not answer.
    """
    scheme, host, path = _host(access)
    if getproxies().get(scheme) and not proxy_bypass(host):
        return None  # the client goes by the proxy, and what is reached without it says nothing
    if scheme == "http":
        connection = http.client.HTTPConnection(host, timeout=_ANSWER_SECONDS)
    else:
        context = ssl.create_default_context()
        connection = http.client.HTTPSConnection(host, timeout=_ANSWER_SECONDS, context=context)
    try:
        connection.request("HEAD", path)
        answer = connection.getresponse()
        date, region = answer.getheader("Date"), answer.getheader("x-amz-bucket-region")
    except http.client.HTTPException:
        return None
    finally:
        connection.close()
    skew = 0.0 if date is None else time.time() - parsedate_to_datetime(date).timestamp()
    return Greeting(skew, region)
