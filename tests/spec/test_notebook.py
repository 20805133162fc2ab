"""Values in a notebook: escaped, and without characters that change what is shown."""

from __future__ import annotations

import pytest

from frazil.spec.amount import html_lines, html_table, html_text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "NULL"),
        (7, "7"),
        ("<img src=x onerror=alert(1)>", "&lt;img src=x onerror=alert(1)&gt;"),
        ("\"'&", "&quot;&#x27;&amp;"),
        ("a\u202eb\u200b\x00", "a⟦U+202E⟧b⟦U+200B⟧⟦U+0000⟧"),
        ("two\nlines", "two\nlines"),
        ("né", "né"),
        ("x" * 501, "x" * 499 + "…"),
    ],
)
def test_a_value_is_text(value: object, shown: str) -> None:
    assert html_text(value) == shown


def test_a_table_has_a_caption_a_head_and_rows() -> None:
    assert html_table(["<id>"], [[1]], title="t&t") == (
        "<table><caption>t&amp;t</caption><thead><tr><th>&lt;id&gt;</th></tr></thead>"
        "<tbody><tr><td>1</td></tr></tbody></table>"
    )
    assert html_lines([]) == ""
    assert "a &lt; b" in html_lines(["a < b"])
