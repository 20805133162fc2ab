"""The one place where names become SQL."""

from __future__ import annotations


def quote(*parts: str) -> str:
    """Write a name, or a dotted path of names, so that Spark SQL takes it literally.

    Any text is safe: backticks are doubled. Nothing else in the house builds an identifier.
    """
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def literal(text: str) -> str:
    """Write a text as a Spark SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def backslashes(sql: str) -> str:
    r"""Let a backslash in a user's SQL be a backslash.

    Spark takes ``'\s'`` for the letter s; who writes a pattern means the pattern. A quote inside a literal is
    written twice.
    """
    return sql.replace("\\", "\\\\")
