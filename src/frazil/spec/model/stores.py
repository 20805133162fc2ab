"""Access to object stores: the declared settings, and those that apply to one address."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pydantic import Field

from frazil.spec.load.problem import Problem
from frazil.spec.model.base import Spec
from frazil.spec.secrets import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_SCHEMES: Final = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gs",
    "gcs": "gs",
    "abfs": "abfss",
    "abfss": "abfss",
    "wasbs": "abfss",
}
"""Scheme of an address -> scheme of its store."""

ENVIRONMENT: Final = {
    "access_key_id": ("AWS_ACCESS_KEY_ID",),
    "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
}
"""AWS environment variables that apply where a setting is not declared."""
KEY: Final = ("access_key_id", "secret_access_key", "session_token")
"""Settings of one S3 login: they are used together or not at all."""


class Store(Spec):
    """Settings of an object store, for all addresses with one prefix."""

    region: str | None = Field(default=None, description="S3: region of the bucket; left out: $AWS_REGION.")
    endpoint: str | None = Field(
        default=None, description="S3: address of a store that is not Amazon's, such as storage:9000 with its scheme."
    )
    path_style: bool | None = Field(
        default=None, description="S3: the bucket is part of the path; left out: true where there is an endpoint."
    )
    access_key_id: str | None = Field(
        default=None,
        description="S3: key, a reference or as it is; left out: $AWS_ACCESS_KEY_ID or the machine's role.",
    )
    secret_access_key: str | None = Field(default=None, description="S3: secret of the key, a reference.")
    session_token: str | None = Field(default=None, description="S3: token of a temporary key, a reference.")
    service_account_file: str | None = Field(
        default=None, description="Google: file with the key of a service account; left out: the machine's account."
    )
    account_key: str | None = Field(default=None, description="Azure: key of the storage account, a reference.")
    sas_token: str | None = Field(default=None, description="Azure: a shared access signature, a reference.")


NO_STORES: Final[Mapping[str, Store]] = MappingProxyType({})
"""No declared stores: the environment has the settings."""


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """Access settings of one bucket, with references resolved.

    Attributes:
        scheme: ``s3``, ``gs`` or ``abfss``.
        bucket: name of the bucket; in Azure the container.
        account: in Azure the storage account; else empty.
        settings: (name, value) of the known settings of :class:`Store`; may contain secrets.
        below: prefix of the keys that the login is valid for; empty for the whole bucket.
    """

    scheme: str
    bucket: str
    account: str = ""
    settings: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    below: str = ""

    def get(self, name: str) -> str | None:
        """Return a setting; None if it is not known."""
        return dict(self.settings).get(name)

    @property
    def path_style(self) -> bool:
        """Return whether an address has the bucket in its path instead of its host."""
        declared = self.get("path_style")
        return self.get("endpoint") is not None if declared is None else declared == "true"

    @property
    def root(self) -> str:
        """Return the address of the bucket, without a final slash."""
        host = f"@{self.account}.dfs.core.windows.net" if self.account else ""
        return f"{self.scheme}://{self.bucket}{host}"


def is_store(address: str) -> bool:
    """Return whether an address is in a supported object store."""
    scheme, sign, _ = address.partition("://")
    return bool(sign) and scheme.lower() in _SCHEMES


def split(address: str) -> tuple[StoreAccess, str]:
    """Return the bucket of an address, without settings, and the key."""
    scheme, _, rest = address.partition("://")
    bucket, _, key = rest.partition("/")
    bucket, _, host = bucket.partition("@")
    return StoreAccess(_SCHEMES[scheme.lower()], bucket, host.partition(".")[0]), key


def whole_address(address: str) -> str:
    """Return an address in the form of listings, with ``s3://`` for ``s3a://``; other addresses are unchanged."""
    if not is_store(address):
        return address
    access, key = split(address)
    return f"{access.root}/{key}".rstrip("/")


def store_access(
    address: str,
    stores: Mapping[str, Store],
    folder: Path,
    *,
    more: Mapping[str, str] | None = None,
) -> StoreAccess:
    """Return the access settings of the bucket of an address.

    Args:
        address: in an object store.
        stores: declared stores by address prefix; the longest matching prefix applies.
        folder: where relative paths of ``${file:…}`` start.
        more: settings that override the declared ones.

    Raises:
        DeclarationError: a reference cannot be resolved.
    """
    bare, _ = split(address)
    prefix, declared = declared_store(address, stores)
    found = {name: resolve(text, setting=f"stores.{prefix}.{name}", folder=folder) for name, text in declared.items()}
    if "service_account_file" in found:
        found["service_account_file"] = f"{folder / found['service_account_file']}"
    found |= more or {}
    if bare.scheme == "s3":
        has_key = bool(found.keys() & KEY)
        for name, variables in ENVIRONMENT.items():
            # A token belongs to its key: settings of two logins are never mixed.
            if name not in found and not (name in KEY and has_key):
                known = [os.environ[variable] for variable in variables if os.environ.get(variable)]
                found |= {name: known[0]} if known else {}
    return replace(bare, settings=tuple(sorted(found.items())))


def declared_store(address: str, stores: Mapping[str, Store]) -> tuple[str, dict[str, str]]:
    """Return the declared entry for an address: its prefix and its settings, with unresolved references.

    Args:
        address: in an object store.
        stores: declared stores by address prefix.

    Returns:
        An empty prefix and no settings if no entry matches.
    """
    bare, key = split(address)
    whole = f"{bare.root}/{key}".rstrip("/") + "/"
    fitting = [prefix for prefix in stores if whole.startswith(f"{_normal(prefix)}/")]
    if not fitting:
        return "", {}
    prefix = max(fitting, key=lambda one: len(_normal(one)))
    declared = stores[prefix].model_dump(exclude_none=True)
    return prefix, {name: f"{text}".lower() if isinstance(text, bool) else text for name, text in declared.items()}


def store_problems(stores: Mapping[str, Store]) -> Iterator[Problem]:
    """Yield problems of the declared stores."""
    for prefix, store in stores.items():
        at = ("stores", prefix)
        if not is_store(prefix):
            yield Problem(
                at, f"'{prefix}' is not an address of an object store", "write s3://bucket, gs://… or abfss://…"
            )
            continue
        scheme = split(prefix)[0].scheme
        for name in store.model_dump(exclude_none=True):
            says = type(store).model_fields[name].description or ""
            kind = {"S3": "s3", "Google": "gs", "Azure": "abfss"}[says.partition(":")[0]]
            if kind != scheme:
                yield Problem((*at, name), f"'{name}' is a setting of {kind}://, and '{prefix}' has another scheme")
        if (store.access_key_id is None) != (store.secret_access_key is None):
            yield Problem(at, f"'{prefix}' has half a key", "declare access_key_id and secret_access_key")


def _normal(prefix: str) -> str:
    """Return an address prefix without a final slash; ``s3://`` alone means all buckets."""
    if not is_store(prefix):
        return prefix
    bare, key = split(prefix)
    return f"{bare.root}/{key}".rstrip("/") if bare.bucket else f"{bare.scheme}:/"
