"""Errors of the server of the page."""

from __future__ import annotations

from frazil.errors import SetupError


class PageError(SetupError):
    """The page cannot be served: its port is in use, or the address is not of this machine."""

    code = "FZ913"


class PageClientError(SetupError):
    """The libraries of the page are not installed."""

    code = "FZ914"

    def __init__(self, missing: str) -> None:
        super().__init__(f"frazil ui needs {missing}, which is not installed", hint="pip install 'frazil[ui]'")
