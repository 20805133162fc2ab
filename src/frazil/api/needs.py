"""What functions say where PySpark is not installed."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_Given = ParamSpec("_Given")
_Returned = TypeVar("_Returned")


def needs_spark(function: Callable[_Given, _Returned]) -> Callable[_Given, _Returned]:
    """Return a function that raises a :class:`frazil.errors.SparkMissingError` where it cannot import PySpark."""

    @wraps(function)
    def called(*args: _Given.args, **named: _Given.kwargs) -> _Returned:
        try:
            return function(*args, **named)
        except ModuleNotFoundError as error:
            from frazil.catalog.trouble import translate_error

            if (known := translate_error(error)) is None:
                raise
            raise known from error

    return called
