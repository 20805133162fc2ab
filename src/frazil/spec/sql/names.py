"""Quoting of names and texts for Spark SQL."""

from __future__ import annotations


def quote(*parts: str) -> str:
    """Quote a name, or a dotted path of names, for Spark SQL.

    Any text is safe: backticks are doubled. All identifiers in SQL come from this function.
    """
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def literal(text: str) -> str:
    """Write a text as a Spark SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def backslashes(sql: str) -> str:
    r"""Escape the backslashes of a user's SQL.

    Spark reads ``'\s'`` as the letter s, but users write it as a pattern. A quote inside a literal is doubled.
    """
    return sql.replace("\\", "\\\\")
