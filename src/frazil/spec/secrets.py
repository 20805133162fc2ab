"""Secrets in a declaration: always references, resolved at their use and never shown."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from frazil.errors import DeclarationError

REFERENCE: Final = re.compile(r"\$\{(env|file):([^{}]+)\}")
"""``${env:NAME}`` or ``${file:path}``: group 1 is the kind, group 2 the name or path."""

_ANY_REFERENCE: Final = re.compile(r"\$\{(?:(\w+):)?([^}]*)\}")
_SECRET_NAME: Final = re.compile(
    r"passw|pwd|secret|token|credential|authorization|(?:private|access|account|api)[-_.]?key",
    re.IGNORECASE,
)
_NOT_SECRET_NAME: Final = re.compile(
    r"[-_.](id|uri|url|endpoint|enabled|provider|class|type|ms|seconds|at)$", re.IGNORECASE
)
_IN_URI: Final = (
    re.compile(r"://[^/@:\s]*:[^/@\s]+@"),
    re.compile(r"[?&;](?:password|pwd|secret|token)=[^&;\s]+", re.IGNORECASE),
)
_LOGIN: Final = re.compile(r"(://)[^/@\s'\"]+@")
_SETTING: Final = re.compile(r"([?&;])([^=&;?\s]+)=([^&;\s'\"]+)")
_SIGNATURES: Final = frozenset({"sig", "signature", "x-amz-signature", "x-amz-credential", "awsaccesskeyid"})
"""Settings in an address that grant access, besides those of :func:`is_secret_name`."""


def is_secret_name(name: str) -> bool:
    """Return whether the name of a setting indicates a secret."""
    return bool(_SECRET_NAME.search(name)) and not _NOT_SECRET_NAME.search(name)


def is_reference(text: str) -> bool:
    """Return whether a text consists of references only; a scheme such as ``Bearer ${env:X}`` is allowed."""
    rest = REFERENCE.sub("", text)
    return rest != text and rest.strip() in {"", "Bearer", "Basic", ":"}


def has_secret(text: str) -> bool:
    """Return whether a URI contains a password or token in plain text."""
    rest = REFERENCE.sub("", text)
    return any(rule.search(rest) for rule in _IN_URI)


def redacted(text: str) -> str:
    """Return a text in which ``***`` replaces the logins and secrets of addresses."""
    text = _LOGIN.sub(r"\1***@", text)
    return _SETTING.sub(lambda found: f"{found[1]}{found[2]}=***" if _hides(found[2]) else found[0], text)


def _hides(name: str) -> bool:
    return is_secret_name(name) or name.lower() in _SIGNATURES


def broken_reference(text: str) -> str | None:
    """Return the first reference that is not ``${env:…}`` or ``${file:…}``; None without any."""
    rest = REFERENCE.sub("", text)
    at = rest.find("${")
    return None if at < 0 else rest[at:].split("}")[0] + "}"


def resolve(text: str, *, setting: str, folder: Path) -> str:
    """Replace every ``${env:NAME}`` and ``${file:PATH}`` in ``text``.

    Args:
        text: a setting's value; without references it is returned unchanged.
        setting: the setting's name, for errors.
        folder: where relative paths of ``${file:…}`` start. A file's last line end is not part of the secret.

    Raises:
        DeclarationError: a reference cannot be resolved, or has an unknown kind. The message never contains a value.
    """

    def value(reference: re.Match[str]) -> str:
        kind, name = reference.groups()
        if kind == "env":
            if name not in os.environ:
                raise DeclarationError(
                    f"{setting}: {reference[0]} is not set", hint=f"export {name}=… before the command"
                )
            return os.environ[name]
        if kind == "file":
            try:
                return (folder / Path(name).expanduser()).read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as error:
                raise DeclarationError(f"{setting}: {reference[0]} cannot be read: {type(error).__name__}") from None
        raise DeclarationError(
            f"{setting}: {reference[0]} is not a known reference", hint="write ${env:NAME} or ${file:PATH}"
        )

    return _ANY_REFERENCE.sub(value, text)
