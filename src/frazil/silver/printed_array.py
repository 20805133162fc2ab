r"""Arrays as PostgreSQL prints them, such as ``{1,NULL,"a,b"}``, to JSON.

Values stand between commas. Those that hold a sign with a meaning are in quotes, with a backslash before quotes and
backslashes. ``NULL`` without quotes is NULL, in any case. Braces within braces are dimensions. Bounds in front
(``[0:1]={…}``) say from where values are numbered. All values become texts of JSON, ready to be cast.
"""

from __future__ import annotations

from typing import Final

from frazil.spec.sql.names import literal

_BOUNDS: Final = literal(r"^(\[[-+]?\d+:[-+]?\d+\])+=(?=\{)")
_TOKENS: Final = literal(r'"(?:[^"\\]|\\["\\])*+"|[{},]|[^{},"\\]++')
_CONTROL: Final = literal(r"[\x00-\x1f]")
_LAST_CONTROL: Final = 0x1F
_QUOTE: Final = literal('"')


def tokens_of(text: str) -> str:
    """Write the signs and values of an array as an array of texts, NULL for a text that begins otherwise."""
    begins = f"startswith({text}, '{{') OR {text} RLIKE {_BOUNDS}"
    return f"CASE WHEN {begins} THEN regexp_extract_all({_without_bounds(text)}, {_TOKENS}, 0) END"


def json_of(text: str, tokens: str, token: str) -> str:
    """Write a text as JSON, if PostgreSQL printed it as an array; any other stays as it is.

    Args:
        text: SQL of the text, repeated in the result.
        tokens: SQL of its :func:`tokens_of`, repeated too.
        token: name for a variable, used nowhere else.

    Cost: none for texts that begin neither with a brace nor with bounds.
    """
    json = f"array_join(transform({tokens}, {token} -> {_token(token)}), '')"
    # A sign that is part of no token is in no array.
    is_whole = f"array_join({tokens}, '') = {_without_bounds(text)}"
    return f"CASE WHEN {is_whole} AND try_parse_json({json}) IS NOT NULL THEN {json} ELSE {text} END"


def _without_bounds(text: str) -> str:
    return f"regexp_replace({text}, {_BOUNDS}, '')"


def _token(token: str) -> str:
    sign = f"CASE upper({token}) WHEN '{{' THEN '[' WHEN '}}' THEN ']' WHEN ',' THEN ',' WHEN 'NULL' THEN 'null' END"
    quoted = f"CASE WHEN startswith({token}, {_QUOTE}) THEN {token} ELSE concat({_QUOTE}, {token}, {_QUOTE}) END"
    escaped = quoted
    for number in range(1, _LAST_CONTROL + 1):
        in_json = literal(f"\\u{number:04x}")
        escaped = f"replace({escaped}, chr({number}), {in_json})"
    return f"coalesce({sign}, CASE WHEN {token} RLIKE {_CONTROL} THEN {escaped} ELSE {quoted} END)"
