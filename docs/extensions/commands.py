"""The directive ``frazil-commands``: the reference of the command line, from the commands themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import typer
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from frazil.cli.main import app as commands

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

_EXAMPLE: Final = "Example: "


class Commands(SphinxDirective):
    """A section for each command: what it does, its usage, arguments and options."""

    option_spec: ClassVar = {}

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        found = _commands(typer.main.get_command(commands), "frazil")
        return [self._section(name, command) for name, command in found]

    def _section(self, name: str, command: Any) -> nodes.section:
        section = nodes.section(ids=[nodes.make_id(name)], names=[name])
        self.state.document.note_explicit_target(section)
        section += nodes.title(name, name)
        for paragraph in (command.help or "").strip().split("\n\n"):
            text = " ".join(paragraph.split())
            if text.startswith(_EXAMPLE):
                section += nodes.literal_block(text, text.removeprefix(_EXAMPLE), language="sh")
            else:
                section += nodes.paragraph(text, text)
        here = command.context_class(command, info_name=name)
        usage = " ".join((name, *command.collect_usage_pieces(here)))
        section += nodes.literal_block(usage, usage, language="text")
        shown = [one for one in command.params if one.help and not getattr(one, "hidden", False)]
        section += nodes.definition_list("", *(_parameter(one) for one in shown))
        return section


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield all visible commands by their full names, those of groups too."""
    parts = getattr(command, "commands", None)
    if parts is None:
        yield name, command
        return
    for part, one in parts.items():
        if not one.hidden:
            yield from _commands(one, f"{name} {part}")


def _parameter(one: Any) -> nodes.definition_list_item:
    called = (
        ", ".join((*one.opts, *one.secondary_opts))
        if one.param_type_name == "option"
        else one.metavar or one.name.upper()
    )
    term = nodes.term("", "", nodes.literal(called, called))
    return nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph(one.help, one.help)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("frazil-commands", Commands)
    return {"parallel_read_safe": True}
