"""Requests to one bucket of an object store by obstore, with errors translated to Frazil's own."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from frazil.errors import SetupError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from frazil.spec.model.stores import StoreAccess

Version: TypeAlias = "Mapping[str, str | None]"
"""What a store tells one version of an object by: its tag, and its number where the store has numbers."""

LISTED_AT_ONCE: Final = 1000
"""Number of keys in one answer of a store."""

_CODE: Final = re.compile(r"<Code>([A-Za-z.]+)</Code>")
_SAID: Final = re.compile(r"<Message>([^<]{1,300})</Message>")
_SHOWN: Final = 300
_KEY: Final = ("access_key_id", "secret_access_key", "session_token")

_CAUSES: Final = {
    "InvalidAccessKeyId": ("does not know the key", "check access_key_id and $AWS_ACCESS_KEY_ID"),
    "SignatureDoesNotMatch": ("rejects the signature", "the secret does not belong to the key: secret_access_key"),
    "InvalidToken": ("rejects the token", "check session_token: it belongs to one key, for a limited time"),
    "ExpiredToken": ("says that the token has expired", "get a new temporary key, and run again"),
    "AccessDenied": (
        "denies access",
        "the key needs s3:ListBucket and s3:GetObject; a lake PutObject and DeleteObject too",
    ),
    "RequestTimeTooSkewed": ("finds this machine's clock wrong", "set the clock: it may differ by 15 minutes at most"),
    "NoSuchBucket": ("has no such bucket", "check the name; Frazil never creates a bucket"),
    "PermanentRedirect": ("has the bucket in another region", "set region in stores to the region of the bucket"),
    "AuthorizationHeaderMalformed": ("expects another region", "set region in stores to the region of the bucket"),
    "IllegalLocationConstraintException": (
        "expects another region",
        "set region in stores to the region of the bucket",
    ),
}
"""S3 error code -> what the store does, and the hint."""
_BY_WORDS: Final = {
    "301 Moved|BareRedirect": _CAUSES["PermanentRedirect"],
    "403 Forbidden|401 Unauthorized": ("denies access", "check the key, its permissions and this machine's clock"),
    "(?i)invalid ?path": ("has an object with a name that cannot be read", "rename that object, or remove it"),
    "(?i)credential|169.254.169.254": (
        "needs a login, and this machine has none",
        "declare access_key_id and secret_access_key in stores",
    ),
    "HTTP error|error sending request": (
        "does not answer",
        "check endpoint in stores, and that the store runs and is reachable from here",
    ),
}
"""Pattern in an error of the client -> the same, for errors without a code."""


class ObjectStoreError(StorageError):
    """An object store refuses a request or does not answer.

    Attributes:
        store_code: error code of the store; empty if it sent none.
    """

    code = "FZ308"

    def __init__(self, where: str, error: BaseException) -> None:
        text = f"{error}"
        found = _CODE.search(text)
        self.store_code = found[1] if found else ""
        what, hint = _cause(self.store_code, text)
        self.retryable = self.store_code not in _CAUSES
        said = _SAID.search(text)
        words = said[1] if said else _short(text)
        super().__init__(f"the store of {where} {what}: {words}", hint=hint)


class StoreClientError(SetupError):
    """The library that reads object stores is not installed."""

    code = "FZ910"

    def __init__(self, where: str, name: str | None) -> None:
        super().__init__(f"{where} needs {name}, which is not installed", hint="pip install 'frazil[stores]'")


def _library(where: str, part: str = "") -> Any:
    """Import obstore, an optional dependency, or one of its modules.

    Args:
        where: address that needs it, for messages.
        part: name of the module; empty for the package.

    Raises:
        StoreClientError: obstore is not installed.
    """
    try:
        return import_module(f"obstore.{part}" if part else "obstore")
    except ModuleNotFoundError as error:
        raise StoreClientError(where, "obstore") from error


@lru_cache(maxsize=64)
def client(access: StoreAccess) -> Any:
    """Return obstore's client of a bucket; cached for each login.

    Raises:
        StoreClientError: obstore is not installed.
        ObjectStoreError: obstore refuses a setting.
    """
    store = _library(access.root, "store")
    options: dict[str, Any] = {"connect_timeout": "10s", "timeout": "120s"}
    if (access.get("endpoint") or "").startswith("http://"):
        options["allow_http"] = True
    known: dict[str, Any] = {"client_options": options, "retry_config": {"max_retries": 5}, "config": config(access)}
    if access.scheme == "s3" and access.get("access_key_id") is None and (provider := _own_login()) is not None:
        known["credential_provider"] = provider
    kind = {"s3": store.S3Store, "gs": store.GCSStore, "abfss": store.AzureStore}[access.scheme]
    with answering(access.root):
        return kind(access.bucket, **known)


def config(access: StoreAccess) -> dict[str, Any]:
    """Return the known settings of a bucket, by obstore's names."""
    if access.scheme == "gs":
        file = access.get("service_account_file")
        return {} if file is None else {"service_account": file}
    if access.scheme == "abfss":
        names = {"account_key": "account_key", "sas_token": "sas_key"}
        found = {theirs: value for ours, theirs in names.items() if (value := access.get(ours))}
        return {"account_name": access.account} | found
    settings = ("region", "endpoint", *_KEY)
    known = {name: value for name in settings if (value := access.get(name))}
    return {"region": "us-east-1", "virtual_hosted_style_request": not access.path_style} | known


def login(access: StoreAccess) -> dict[str, str]:
    """Return the login of an S3 bucket: declared, from the environment, or the machine's own; empty without one.

    The keys are fields of :class:`frazil.spec.model.stores.Store`.
    """
    if access.get("access_key_id"):
        return {name: value for name in _KEY if (value := access.get(name))}
    known = _machine()
    if known is None:
        return {}
    frozen = known.get_frozen_credentials()
    found = zip(_KEY, (frozen.access_key, frozen.secret_key, frozen.token), strict=True)
    return {name: value for name, value in found if value}


def _machine() -> Any:
    """Return botocore's credentials of this machine (profiles, roles); None without credentials or without botocore."""
    try:
        from botocore.session import Session  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        return None
    return Session().get_credentials()


def _own_login() -> Any:
    """Return a provider of the machine's own login for obstore; None lets obstore find one itself."""
    known = _machine()
    if known is None:
        return None

    def provide() -> dict[str, Any]:
        frozen = known.get_frozen_credentials()
        found = {"access_key_id": frozen.access_key, "secret_access_key": frozen.secret_key, "token": frozen.token}
        return found | {"expires_at": getattr(known, "_expiry_time", None)}

    return provide


@contextmanager
def answering(where: str) -> Iterator[None]:
    """Translate errors of the client: ``OSError`` if an object is missing or changed, else :class:`ObjectStoreError`.

    Args:
        where: address of the request, for messages.
    """
    exceptions = _library(where, "exceptions")
    try:
        yield
    except FileNotFoundError as error:
        if "NoSuchBucket" in f"{error}":
            raise ObjectStoreError(where, error) from None
        raise FileNotFoundError(2, "no such object", where) from None
    except exceptions.PreconditionError:
        raise OSError(5, "another object has its place", where) from None
    except exceptions.BaseError as error:
        # The client's message has the whole address and more; ours has what a person needs.
        raise ObjectStoreError(where, error) from None


def keys(access: StoreAccess, prefix: str) -> Iterator[Sequence[dict[str, Any]]]:
    """Yield lists of obstore's descriptions of the objects below a prefix of whole path segments.

    Cost: one request for each thousand objects; memory for one answer.
    """
    obstore = _library(access.root)
    with answering(f"{access.root}/{prefix}"):
        yield from obstore.list(client(access), prefix.strip("/") or None, chunk_size=LISTED_AT_ONCE)


def get(access: StoreAccess, key: str, **options: Any) -> Any:
    """Request an object or a range of it; return obstore's answer before its content is read.

    Args:
        access: endpoint and login of the bucket.
        key: key of the object.
        options: ``range`` as (begin, end), and ``if_match`` with an ETag.
    """
    obstore = _library(access.root)
    with answering(f"{access.root}/{key}"):
        return obstore.get(client(access), key, options=options or None)


def describe(access: StoreAccess, key: str) -> dict[str, Any]:
    """Return obstore's description of an object, as :func:`keys` yields it."""
    obstore = _library(access.root)
    with answering(f"{access.root}/{key}"):
        return {**obstore.head(client(access), key)}


def put(access: StoreAccess, key: str, content: bytes) -> None:
    """Write an object atomically; replaces an existing object.

    Args:
        access: endpoint and login of the bucket.
        key: key of the object.
        content: all bytes of the object.
    """
    obstore = _library(access.root)
    with answering(f"{access.root}/{key}"):
        obstore.put(client(access), key, content)


def put_if(access: StoreAccess, key: str, content: bytes, version: Version | None) -> Version | None:
    """Write an object in place of one version of it, or where there is none yet.

    Args:
        access: how its bucket is reached.
        key: of the object.
        content: of the object.
        version: what it replaces; None where there must be no object.

    Returns:
        The new version; None where another one has its place.
    """
    exceptions = _library(access.root, "exceptions")
    mode = "create" if version is None else {name: value for name, value in version.items() if value}
    in_the_way = (FileNotFoundError, exceptions.AlreadyExistsError, exceptions.PreconditionError)
    try:
        with answering(f"{access.root}/{key}"), suppress(*in_the_way):
            made = _library(access.root).put(client(access), key, content, mode=mode)
            return {name: made[name] for name in ("e_tag", "version")}
    except ObjectStoreError as error:
        if error.store_code != "ConditionalRequestConflict":
            raise
    return None


def delete(access: StoreAccess, names: Sequence[str]) -> None:
    """Remove objects; missing objects are ignored."""
    obstore = _library(access.root)
    with answering(access.root):
        obstore.delete(client(access), list(names))


def _cause(code: str, text: str) -> tuple[str, str]:
    if code in _CAUSES:
        return _CAUSES[code]
    found = next((cause for words, cause in _BY_WORDS.items() if re.search(words, text)), None)
    return found or ("refuses the request", "check stores in the declaration; run again")


def _short(text: str) -> str:
    """Return the first line of an error, without the address with its signature."""
    first = text.partition("\n")[0]
    first = first.partition(" - Server returned")[2] or first
    return re.sub(r"https?://\S+", "…", first).strip(": ")[:_SHOWN]
