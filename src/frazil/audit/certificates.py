"""Certificates: small files that are chained, each with the hash of the one before.

A file's name is its number and the SHA-256 of its bytes. If the declaration has a key, each certificate also has a
seal: an HMAC-SHA256 over all other fields, which cannot be forged without the key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote as percent_encoded

from frazil.audit.run_files import files_place
from frazil.spec.secrets import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from frazil.audit.run_files import FilesPlace
    from frazil.spec import Pipeline

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
