"""The ``--select`` option: the source tables and aggregates of a command."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from frazil.errors import DeclarationError
from frazil.spec.sql.gold_order import marts_of, upstream_gold

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from frazil.spec.model.pipeline import Pipeline, Table


class UnknownSelectionError(DeclarationError):
    """``--select`` matches nothing in the declaration."""

    code = "FZ103"


@dataclass(frozen=True, slots=True)
class Selection:
    """Names of source tables and of aggregates, each in the order of the declaration."""

    tables: tuple[str, ...]
    gold: tuple[str, ...] = ()


def selected(pipeline: Pipeline, select: Sequence[str]) -> Selection:
    """Return the source tables and aggregates of a selection.

    A word is the name of a table, mart or aggregate, with or without its layer (``marts.hosts``), or a pattern with
    ``*``. ``gold`` alone means all aggregates, any other layer all tables. An empty selection means
    everything. An aggregate over selected tables only is selected too. A leading ``+`` adds the tables and aggregates
    that a word reads; a trailing ``+`` adds all aggregates that read it.


    Raises:
        UnknownSelectionError: a word matches nothing.
    """
    names = {table.name: {table.name, *(table.mart_name(mart) for mart in table.marts)} for table in pipeline.tables}
    tables: set[str] = set() if select else {*names}
    gold: set[str] = set()
    for written in select:
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
    marts = {mart for table in tables for mart in names[table]}
    gold |= {one.name for one in pipeline.gold if {*marts_of(pipeline, one)} <= marts}
    return Selection(
        tuple(table for table in names if table in tables),
        tuple(name for name in _gold_names(pipeline) if name in gold),
    )


def source_table(pipeline: Pipeline, word: str) -> Table:
    """Return the source table of a word, which is the name of a table or of one of its marts.

    Raises:
        UnknownSelectionError: the word matches nothing, several tables, or an aggregate.
    """
    names = selected(pipeline, [word]).tables
    if len(names) != 1:
        means = f"several tables: {', '.join(names)}" if names else "no table, but an aggregate"
        raise UnknownSelectionError(f"{word!r} means {means}", hint="name one table")
    return next(table for table in pipeline.tables if table.name == names[0])


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
