"""References to secrets, resolved at the last moment and never shown."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from frazil.errors import DeclarationError

_REFERENCE: Final = re.compile(r"\$\{(?:(\w+):)?([^}]*)\}")


def resolve(text: str, *, setting: str, folder: Path) -> str:
    """Replace every ``${env:NAME}`` and ``${file:PATH}`` in ``text``.

    Args:
        text: a setting's value; without a reference it comes back as it is.
        setting: the setting's name, for errors.
        folder: where relative paths of ``${file:…}`` start. A file's last line end is not part of the secret.

    Raises:
        DeclarationError: a reference leads nowhere, or is of an unknown kind. It is named, never a value.
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
            f"{setting}: {reference[0]} is no known reference", hint="write ${env:NAME} or ${file:PATH}"
        )

    return _REFERENCE.sub(value, text)
