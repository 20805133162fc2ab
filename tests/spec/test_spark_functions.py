"""The committed list of Spark's functions matches the pinned Spark."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from frazil.spec.sql.functions import functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = Path(__file__).parents[2] / "scripts/spark_functions.py"


@pytest.fixture(scope="module")
def script() -> Any:
    """The command that writes the list."""
    found = importlib.util.spec_from_file_location("spark_functions", SCRIPT)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_every_function_of_spark_is_in_the_list_and_no_other(spark: SparkSession) -> None:
    shown = {row[0] for row in spark.sql("SHOW FUNCTIONS").collect()}

    assert {name for name in shown if re.fullmatch(r"[a-z]\w*", name)} - {"case"} == functions().keys()


@pytest.mark.laws
def test_the_list_is_what_its_command_writes(spark: SparkSession, script: Any) -> None:
    """Kinds, numbers of arguments, and which values change from call to call: a minute."""
    assert list(script.functions(spark)) == script.FILE.read_text(encoding="utf-8").splitlines()


def test_functions_without_arguments_are_constants_or_refused() -> None:
    """CONVERGE: every function has a value that does not depend on the time or machine of the run."""
    from frazil.spec.sql.sql import expression_problems  # noqa: PLC0415

    bare = [name for name, known in functions().items() if known.kind == "scalar" and known.takes(0) and known.counts]

    allowed = {name for name in bare if expression_problems(f"{name}()") == ()}
    assert allowed <= CONSTANTS


CONSTANTS = (
    {"array", "arrays_zip", "coalesce", "concat", "concat_ws", "e", "elt", "format_string", "greatest", "hash", "least"}
    | {
        "make_dt_interval",
        "make_interval",
        "make_ym_interval",
        "map",
        "map_concat",
        "mask",
        "named_struct",
        "parse_url",
    }
    | {"pi", "printf", "struct", "try_parse_url", "when", "xxhash64", "json_tuple"}
)
"""Functions that may be called without arguments, or that Spark refuses later, and give the same at any time."""
