"""Keys in a comparison with a source are hashed as an erase hashes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from frazil.serve.check.erased import key_text
from frazil.silver import old_keys
from frazil.sources.comparison import Compared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = ["", "ann@example.org", 'a"b\\c', "a|3:b", "Zoë 漢 😀", "tab\t\nline", "\x1f \x7f", "</script>", "O'Neil", "1:"]
NUMBERS = [0, -1, 7, 2**31 - 1, -(2**63)]


def canonical(text: str) -> str:
    return f"{len(text)}:{text}"


@pytest.mark.spark
def test_the_text_of_a_key_is_that_of_an_erase(spark: SparkSession) -> None:
    name = Compared(name="naïve name", type="string", form="text")
    number = Compared(name="id", type="bigint", form="number")
    rows = [(text, NUMBERS[at % len(NUMBERS)]) for at, text in enumerate(TEXTS)]
    keys = spark.createDataFrame(rows, "`naïve name` string, id bigint")

    def erased(*names: str) -> list[str]:
        return [row[0] for row in keys.selectExpr(old_keys.key_text(names)).collect()]

    assert [key_text([name], canonical(text)) for text, _ in rows] == erased(name.name)
    assert [key_text([number], f"{value}") for _, value in rows] == erased("id")
    assert [key_text([name, number], f"{canonical(text)}|{value}") for text, value in rows] == erased(name.name, "id")
