"""The ``--select`` and ``--exclude`` options: the source tables and aggregates of a command."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, TypeAlias

from frazil.errors import DeclarationError
from frazil.spec.sql.sql import marts_of, upstream_gold

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from frazil.spec.model.pipeline import Pipeline, Table

_NOT: Final = "!"


class UnknownSelectionError(DeclarationError):
    """``--select`` or ``--exclude`` matches nothing in the declaration, or nothing is left."""

    code = "FZ103"


@dataclass(frozen=True, slots=True)
class Selection:
    """Names of source tables and of aggregates, each in the order of the declaration."""

    tables: tuple[str, ...]
    gold: tuple[str, ...] = ()


Words: TypeAlias = "str | Sequence[str]"
"""One word or several; in Python, a text is a sequence of its letters."""


def words(given: Words) -> tuple[str, ...]:
    """Return one word or several as a tuple of words."""
    return (given,) if isinstance(given, str) else tuple(given)


def selected(pipeline: Pipeline, select: Words) -> Selection:
    """Return the source tables and aggregates of a selection.

    A word is the name of a table, mart or aggregate, with or without its layer (``marts.hosts``), or a pattern with
    ``*``. ``gold`` alone means all aggregates, any other layer all tables. An empty selection means
    everything. An aggregate over selected tables only is selected too. A leading ``+`` adds the tables and aggregates
    that a word reads; a trailing ``+`` adds all aggregates that read it. A word after ``!`` is left out, as with
    ``--exclude``.

    Raises:
        UnknownSelectionError: a word matches nothing, or nothing is left.
    """
    select = words(select)
    names = _names(pipeline)
    wanted = [word for word in select if not word.startswith(_NOT)]
    out, out_gold = _named(pipeline, [word.removeprefix(_NOT) for word in select if word.startswith(_NOT)], names)
    tables, gold = _named(pipeline, wanted, names) if wanted else ({*names}, set())
    tables -= out
    marts = {mart for table in tables for mart in names[table]}
    gold |= {one.name for one in pipeline.gold if {*marts_of(pipeline, one)} <= marts}
    gold -= out_gold
    if select and not tables and not gold:
        raise UnknownSelectionError("the selection leaves nothing", hint="exclude less, or select more")
    return Selection(
        tuple(table for table in names if table in tables),
        tuple(name for name in _gold_names(pipeline) if name in gold),
    )


def _named(pipeline: Pipeline, words: Sequence[str], names: dict[str, set[str]]) -> tuple[set[str], set[str]]:
    """Return the tables and aggregates that some words name."""
    tables: set[str] = set()
    gold: set[str] = set()
    for written in words:
        word = written.removeprefix("+").removesuffix("+")
        found = _of_tables(pipeline, word, names), _of_gold(pipeline, word)
        if not any(found):
            known = [*dict.fromkeys(name for some in names.values() for name in some), *_gold_names(pipeline)]
            near = get_close_matches(word.rpartition(".")[2], known, n=1)
            raise UnknownSelectionError(
                f"nothing is called {word!r}",
                hint=f"did you mean {near[0]!r}?" if near else f"the tables are {', '.join(names)}",
            )
        if written.endswith("+"):
            found[1].update(_made_of(pipeline, names, *found))
        if written.startswith("+"):
            for one in [gold for gold in pipeline.gold if gold.name in found[1]]:
                read = {*marts_of(pipeline, one)}
                found[1].update(upstream_gold(pipeline, one))
                found[0].update(table for table, known in names.items() if known & read)
        tables |= found[0]
        gold |= found[1]
    return tables, gold


def source_table(pipeline: Pipeline, word: str) -> Table:
    """Return the source table of a word, which is the name of a table or of one of its marts.

    Raises:
        UnknownSelectionError: the word matches nothing, several tables, or an aggregate.
    """
    found, _ = _named(pipeline, [word], _names(pipeline))
    tables = [table for table in pipeline.tables if table.name in found]
    if len(tables) != 1:
        means = (
            f"several tables: {', '.join(table.name for table in tables)}" if tables else "no table, but an aggregate"
        )
        raise UnknownSelectionError(f"{word!r} means {means}", hint="name one table")
    return tables[0]


def _names(pipeline: Pipeline) -> dict[str, set[str]]:
    """Return the names of each table: its own, and those of its marts."""
    return {table.name: {table.name, *(table.mart_name(mart) for mart in table.marts)} for table in pipeline.tables}


def _of_tables(pipeline: Pipeline, word: str, names: dict[str, set[str]]) -> set[str]:
    spaces = pipeline.lake.namespaces
    layers = {"bronze", "silver", "marts", spaces.bronze, spaces.silver, spaces.marts}
    space, name = _parts(word)
    if name in layers:
        return {*names}
    if space in {"gold", spaces.gold} - layers:
        return set()
    return {table for table, known in names.items() if _is_among(known, name)}


def _of_gold(pipeline: Pipeline, word: str) -> set[str]:
    layers = {"gold", pipeline.lake.namespaces.gold}
    space, name = _parts(word)
    if name in layers:
        return {*_gold_names(pipeline)}
    return {one for one in _gold_names(pipeline) if space in {"", *layers} and _is_among((one,), name)}


def _made_of(pipeline: Pipeline, names: Mapping[str, set[str]], tables: set[str], gold: set[str]) -> set[str]:
    """Return the aggregates that read some tables or aggregates, directly or through others."""
    marts = {mart for table in tables for mart in names[table]}
    return {
        one.name
        for one in pipeline.gold
        if marts & {*marts_of(pipeline, one)} or gold & {*upstream_gold(pipeline, one)}
    }


def _gold_names(pipeline: Pipeline) -> list[str]:
    return [gold.name for gold in pipeline.gold]


def _parts(word: str) -> tuple[str, str]:
    """Split a word into its layer, which may be empty, and the name."""
    space, _, name = word.rpartition(".")
    return space.rpartition(".")[2], name


def _is_among(names: Collection[str], pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)
