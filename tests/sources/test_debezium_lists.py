"""Values of Debezium inside of lists."""

from __future__ import annotations

from typing import Any

import pytest

from frazil.formats.json_lines import parsed
from frazil.sources.debezium.encodings import Field, NoValueError, described


@pytest.mark.parametrize(
    ("items", "given", "text"),
    [
        (
            {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
            '["AJY=",null]',
            "[1.50, null]",
        ),
        ({"type": "int32", "name": "io.debezium.time.Date"}, "[19844]", '["2024-05-01"]'),
        ({"type": "array", "items": {"type": "bytes"}}, '[["AAE="],null]', '[["0001"], null]'),
    ],
    ids=["decimal", "date", "nested"],
)
def test_encoded_values_in_a_list_are_read(items: dict[str, Any], given: str, text: str) -> None:
    decode = described({"type": "array", "items": items}).decode

    assert decode is not None
    assert decode(parsed(given)) == text
    with pytest.raises(NoValueError, match="no list"):
        decode("x")


def test_other_lists_are_json_as_they_are() -> None:
    assert described({"type": "array", "items": {"type": "string"}}) == Field("string")
