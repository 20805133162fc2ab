"""The pages: one module a subject, with a ``Page`` for each path, which names its template and what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlencode

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from frazil.spec import Pipeline

Shown: TypeAlias = "dict[str, Any] | Response"
"""Values for a page's template, or an answer of another kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of the browser.

    Attributes:
        path: path of its address, in Starlette's form, such as ``/tables/{table}``.
        template: file in ``templates``.
        show: returns the values of the template. It runs in a thread of its own, and may raise a FrazilError.
        label: name in the navigation; None for a page that others link to.
        writes: whether it changes something, so that only a server with ``--allow-writes`` has it. Its forms are sent
            by POST, and ``show`` finds their fields in ``request.state.form``, which is empty for GET.
    """

    path: str
    template: str
    show: Callable[[Request, Pipeline], Shown]
    label: str | None = None
    writes: bool = False


def address(path: str, **parameters: object) -> str:
    """Return an address of this server: a path with its parts quoted already, and parameters that are not None."""
    given = [(name, value) for name, value in parameters.items() if value not in (None, "")]
    return f"{path}?{urlencode(given)}" if given else path


def number_asked(request: Request, name: str, default: int, most: int) -> int:
    """Return a parameter of the address as a number between 0 and ``most``; ``default`` if it is not a number."""
    text = request.query_params.get(name, "")
    return min(int(text), most) if text.isdecimal() and text.isascii() else default
