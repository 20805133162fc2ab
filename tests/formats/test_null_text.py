"""A text that means NULL in other forms than CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from frazil.formats.csv_lines import CsvDialect
from frazil.formats.csv_reader import CsvFile

if TYPE_CHECKING:
    from pathlib import Path

DATA = 'id,n,m\n1,\\N,a\n2,"\\N",b\n3,x\\N,c\n4,d,\\N\n\\N,e,f\n5,"\\N",\\N\n6,"g,\\N,",h\n'


@pytest.mark.parametrize("block_bytes", [8, 4096])
def test_an_unquoted_null_of_other_forms_is_refused(tmp_path: Path, block_bytes: int) -> None:
    r"""NOTHING-LOST: MySQL, Snowflake and Hive write ``\N`` for NULL, which would be a text here."""
    file = tmp_path / "a.csv"
    file.write_text(DATA)

    def read(dialect: CsvDialect) -> tuple[list[Any], list[tuple[int, str]]]:
        reader = CsvFile(f"{file}", dialect, ("id", "n", "m"), header=True, block_bytes=block_bytes)
        some = [*reader]
        ids = [value for parsed in some if parsed.fields for value in parsed.fields["id"].to_pylist()]
        return ids, [(bad.row, bad.reason.partition(":")[0]) for parsed in some for bad in parsed.bad]

    found = read(CsvDialect(",", None, "", no_text=r"\N"))

    assert found == (["2", "3", "6"], [(row, "null_text") for row in (1, 4, 5, 6)])
    assert len(read(CsvDialect(",", None, ""))[0]) == 7
