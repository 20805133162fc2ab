"""``--select``: words mean tables, marts, aggregates and layers."""

from __future__ import annotations

import pytest

from frazil.errors import DeclarationError
from frazil.spec import Current, DmsFiles, Gold, History, Lake, Namespaces, Pipeline, Table
from frazil.spec.sql.select import Selection, UnknownSelectionError, selected


def table(name: str) -> Table:
    return Table(name=name, source=DmsFiles(path=(name,)), keys=("id",), marts=(Current(), History()))


def pipeline(spaces: Namespaces | None = None) -> Pipeline:
    gold = (
        Gold(name="revenue", sql="select count(*) as n from {{ orders }}"),
        Gold(name="both", sql="select count(*) as n from {{ orders }}, {{ items_history }}"),
        Gold(name="over", sql="select max(n) as n from {{ revenue }}"),
    )
    lake = Lake(warehouse="lake", namespaces=spaces or Namespaces())
    return Pipeline(pipeline="shop", lake=lake, tables=(table("orders"), table("items")), gold=gold)


EVERYTHING = Selection(("orders", "items"), ("revenue", "both", "over"))


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ([], EVERYTHING),
        (["*"], EVERYTHING),
        (["bronze"], EVERYTHING),
        (["marts"], EVERYTHING),
        (["marts.*"], EVERYTHING),
        (["orders"], Selection(("orders",), ("revenue", "over"))),
        (["marts.orders_history"], Selection(("orders",), ("revenue", "over"))),
        (["lake.marts.items"], Selection(("items",))),
        (["items", "orders"], EVERYTHING),
        (["gold"], Selection((), ("revenue", "both", "over"))),
        (["gold.*"], Selection((), ("revenue", "both", "over"))),
        (["gold.both"], Selection((), ("both",))),
        (["rev*"], Selection((), ("revenue",))),
        (["items", "gold.both"], Selection(("items",), ("both",))),
        (["+revenue"], Selection(("orders",), ("revenue", "over"))),
        (["+gold.both"], EVERYTHING),
        (["items+"], Selection(("items",), ("both",))),
        (["orders+"], Selection(("orders",), ("revenue", "both", "over"))),
        (["revenue+"], Selection((), ("revenue", "over"))),
        (["+over"], Selection(("orders",), ("revenue", "over"))),
        (["+both+"], EVERYTHING),
        (["!items"], Selection(("orders",), ("revenue", "over"))),
        (["!both"], Selection(("orders", "items"), ("revenue", "over"))),
        (["!revenue+"], Selection(("orders", "items"), ("both",))),
        (["marts", "!orders"], Selection(("items",))),
        (["gold", "!orders"], Selection((), ("revenue", "both", "over"))),
    ],
)
def test_words_mean_tables_and_aggregates(words: list[str], meant: Selection) -> None:
    """A table brings the aggregates that read selected tables only; ``gold`` is the aggregates alone."""
    assert selected(pipeline(), words) == meant


@pytest.mark.parametrize("words", [["!*"], ["orders", "!orders", "!gold"], ["!nosuch"]])
def test_a_selection_that_leaves_nothing_is_an_error(words: list[str]) -> None:
    with pytest.raises(UnknownSelectionError):
        selected(pipeline(), words)


def test_layers_go_by_their_own_names_too() -> None:
    renamed = pipeline(Namespaces(bronze="raw", silver="typed", marts="facts", gold="figures"))

    assert selected(renamed, ["facts.items"]).tables == ("items",)
    assert selected(renamed, ["typed"]) == EVERYTHING
    assert selected(renamed, ["figures"]) == selected(renamed, ["gold"]) == Selection((), ("revenue", "both", "over"))
    assert selected(renamed, ["figures.both"]).gold == ("both",)


@pytest.mark.parametrize("word", ["", "order", "gold.orders", "marts.revenue", "gold.*x", "../orders"])
def test_a_word_that_means_nothing_is_refused_with_a_hint(word: str) -> None:
    with pytest.raises(UnknownSelectionError) as caught:
        selected(pipeline(), [word])

    assert isinstance(caught.value, DeclarationError)
    assert caught.value.hint
