"""Sphinx's settings for the site of the documentation: ``make docs`` builds it into ``build/docs``.

The site works from disk and without internet.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util import logging

sys.path.insert(0, f"{Path(__file__).parent / 'extensions'}")

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Frazil"
author = "The authors of Frazil"
release = version = version_of("frazil")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "commands"]
exclude_patterns = ["README.md", "package"]  # the index begins with the README
myst_heading_anchors = 4
autodoc_typehints = "none"
autodoc_member_order = "bysource"
smartquotes = False  # options of commands begin with two dashes
html_theme = "furo"
html_title = "Frazil"
html_favicon = "../src/frazil/ui/static/icon.svg"
html_show_sphinx = False
html_use_index = html_domain_indices = False  # the search finds names too
html_copy_source = False
html_show_search_summary = False  # a page on disk may not read the others
copybutton_prompt_text = "$ "

_LOG = logging.getLogger(__name__)
_HERE = Path(__file__).parent.resolve()
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#\s]+)[^)]*\)")
_INLINE = {
    r"<script>([^<]*)</script>": ("site.js", '<script src="%s"></script>'),
    r"<style>([^<]*)</style>": ("site.css", '<link rel="stylesheet" href="%s">'),
}
_ATTRIBUTES = {' style="display: none;"': ' display="none"', ' style="opacity: 50%"': ' opacity="0.5"'}
_FORBIDDEN = re.compile(
    r"<script(?![^>]* src=)|<style|<[^>]* (style|on[a-z]+)=|<(script|link|img)[^>]* (src|href)=\"(https?:)?//"
)
_ROW = re.compile(r"^\| `(FZ[0-9]{3})` \|", re.MULTILINE)


def _for_the_site(app: Sphinx, page: str, source: list[str]) -> None:
    """Write links to files outside the docs as text, give each error an anchor, and begin the index with the README."""
    folder = Path(app.env.doc2path(page)).parent

    def linked(found: re.Match[str]) -> str:
        is_outside = found[2].startswith("..") and not (folder / found[2]).resolve().is_relative_to(_HERE)
        return found[1] if is_outside else found[0]

    if page == "index":
        source[0] = (_HERE / "README.md").read_text(encoding="utf-8") + "\n" + source[0]
    source[0] = _LINK.sub(linked, source[0])
    if page == "errors":
        source[0] = _ROW.sub(lambda row: f'| <a id="{row[1].lower()}"></a>`{row[1]}` |', source[0])


def _without_inline_code(app: Sphinx, failure: Exception | None) -> None:
    """Move the theme's code in pages to files, as ``frazil ui`` lets a browser run and load only its own files."""
    if failure:
        return
    for page in app.outdir.rglob("*.html"):
        if "_downloads" in page.parts:
            continue
        text = page.read_text(encoding="utf-8")
        for pattern, (name, tag) in _INLINE.items():
            for code in re.findall(pattern, text):
                (app.outdir / "_static" / name).write_text(code, encoding="utf-8")
            to_root = "../" * (len(page.relative_to(app.outdir).parts) - 1)
            text = re.sub(pattern, tag % f"{to_root}_static/{name}", text)
        for style, attribute in _ATTRIBUTES.items():
            text = text.replace(style, attribute)
        page.write_text(text, encoding="utf-8")
        if found := _FORBIDDEN.search(text):
            _LOG.warning("%s has inline code, or asks another host: %s", page, found[0])


def setup(app: Sphinx) -> None:
    """Register what the site changes in the pages."""
    app.connect("source-read", _for_the_site)
    app.connect("build-finished", _without_inline_code)
