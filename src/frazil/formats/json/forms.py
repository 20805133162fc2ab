"""Describe files that have other JSON than one object a line."""

from __future__ import annotations

from typing import Final

ARRAY: Final = "one JSON array"
PRETTY: Final = "JSON over several lines"
SEVERAL: Final = "several objects on one line"
CONSOLE: Final = "the output of a console, with more on a line than the value"

LINES_HINTS: Final = {
    ARRAY: "write one object a line: jq -c '.[]'",
    PRETTY: "write one object a line: jq -c .",
    SEVERAL: "write one object a line: jq -c .",
    CONSOLE: "write values alone, or messages as objects: kcat -J; kafka-console-consumer without print.key",
}


def lines_form(first: str) -> str | None:
    """Describe a file that has other JSON than lines, from its first bad line; None for an unknown form.

    Args:
        first: the first line that cannot be parsed.
    """
    line = first.strip()
    if line in ("{", "[", "[{") or (line[:1] == "{" and line[-1:] in ("{", "[", ",")):
        return ARRAY if line[0] == "[" else PRETTY
    if line[:1] == "[":
        return ARRAY
    if line[:1] == "{":
        if "}\t{" in line:
            return CONSOLE
        return SEVERAL if "}{" in line or "} {" in line else None
    return CONSOLE if "{" in line and line[-1:] == "}" else None
