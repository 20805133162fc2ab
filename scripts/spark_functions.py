# ruff: noqa: INP001 - a script, no package
"""Write ``src/frazil/spec/sql/spark_functions.txt``: what Spark's own list says of every function of the pinned Spark.

    .venv/bin/python scripts/spark_functions.py

A line is ``name kind counts``. ``kind`` is scalar, aggregate, window, generator, table, or changing: a scalar whose
value is not decided by its arguments. ``counts`` are the numbers of arguments it takes up to eight, ``1,2,3``; with a
``+`` behind them it takes any number from the last one on; ``-`` where Spark cannot be asked.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from frazil.spark.gateway import java_class
from frazil.spark.session import spark_session
from frazil.spec import DmsFiles, Lake, Pipeline, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

FILE = Path(__file__).parents[1] / "src/frazil/spec/sql/spark_functions.txt"
KINDS = {"agg_funcs": "aggregate", "window_funcs": "window", "generator_funcs": "generator"}
MOST = 8


def functions(spark: SparkSession) -> Iterator[str]:
    """Ask a session for a line of every function that is called by a name."""
    registry = spark._jsparkSession.sessionState().functionRegistry()  # type: ignore[attr-defined] # noqa: SLF001
    identifier = java_class(spark, "org.apache.spark.sql.catalyst.FunctionIdentifier")
    columns = java_class(spark, "org.apache.spark.sql.classic.ExpressionUtils")
    text = columns.expression(F.lit("a")._jc)  # noqa: SLF001

    def arguments(count: int) -> Any:
        listed = spark._jvm.java.util.ArrayList()  # type: ignore[union-attr,operator] # noqa: SLF001
        for _ in range(count):
            listed.add(text)
        return spark._jvm.PythonUtils.toSeq(listed)  # type: ignore[union-attr,operator] # noqa: SLF001

    calls = [arguments(count) for count in range(MOST + 2)]
    for (name,) in sorted(spark.sql("SHOW FUNCTIONS").collect()):
        if not re.fullmatch(r"[a-z]\w*", name) or name == "case":
            continue
        found = registry.lookupFunction(identifier(name))
        if found.isEmpty():
            yield f"{name} table -"
            continue
        counts, kind = [], KINDS.get(found.get().getGroup(), "scalar")
        for count, call in enumerate(calls):
            taken, changes = _call(registry, identifier(name), call)
            counts += [count] if taken else []
            kind = "changing" if changes else kind
        yield f"{name} {kind} {_shown(counts)}"


def _call(registry: Any, name: Any, arguments: Any) -> tuple[bool, bool]:
    """Say whether a function takes that many arguments, and whether its value changes from call to call."""
    try:
        return True, not registry.lookupFunction(name, arguments).deterministic()
    except PySparkException as error:
        return not (error.getCondition() or "").startswith("WRONG_NUM_ARGS"), False
    except Exception:  # noqa: BLE001 - it dislikes the arguments themselves, not their number
        return True, False


def _shown(counts: list[int]) -> str:
    if not counts:
        return "-"
    if counts[-1] <= MOST:
        return ",".join(map(str, counts))
    first = next(count for count in reversed(range(MOST + 2)) if count not in counts or count == 0)
    most = first if first in counts else first + 1
    return ",".join(map(str, [count for count in counts if count <= most])) + "+"


def main() -> None:
    """Write the list anew from the Spark of this environment."""
    table = Table(name="none", source=DmsFiles(path=("none",)), keys=("id",))
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline(pipeline="functions", lake=Lake(warehouse="lake"), tables=(table,)).at(Path(folder))
        session = spark_session(pipeline, short=True)
        FILE.write_text("".join(f"{line}\n" for line in functions(session)), encoding="utf-8")
        session.stop()


if __name__ == "__main__":
    main()
