"""The Python API where PySpark is not installed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM: Final = """
import inspect, json, sys
from threading import Event

class WithoutSpark:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, WithoutSpark())
import frazil
from frazil import api

folder = sys.argv[1]
given = {"declaration": folder, "stop": Event(), "table": "orders", "keys": ["1"], "name": "x", "plan": None}
given |= {"platform": "emr", "spark": None, "tables": ()}
functions = {name: one for name in api.__all__ if inspect.isfunction(one := vars(api).get(name))}
wanted = {name for name, one in functions.items() if "spark" in inspect.signature(one).parameters} - {"spark_conf"}
calls = {name: functions[name] for name in wanted | {"session"}}
calls |= {"frazil.run": frazil.run, "connect": lambda: api.connect(folder).spark("marts.orders")}
calls["EraseReport"] = lambda: api.EraseReport
said = {}
for name, call in calls.items():
    taken = inspect.signature(call).parameters
    try:
        call(**{word: value for word, value in given.items() if word in taken})
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""


@pytest.mark.process
def test_every_function_that_needs_spark_names_what_to_install(tmp_path: Path) -> None:
    make = "import sys; from frazil import api; api.init(sys.argv[1])"
    subprocess.run([sys.executable, "-c", make, tmp_path], check=True)

    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, text=True, check=True)

    said = json.loads(done.stdout)
    assert len(said) > 15
    assert {name: text for name, text in said.items() if "frazil[spark]" not in text} == {}
    assert {text.partition(":")[0] for text in said.values()} == {"SparkMissingError"}
    assert not (tmp_path / "lake").exists()


WORKS: Final = """
assert api.repair_plan(folder) == api.repair(folder) == ()
assert api.erase_keys(folder, "orders", "1") == (("1",),)
print(api.spark_conf(folder, "standalone", spark="4.0").text)
print(api.spark_conf(folder, "standalone"))
"""


@pytest.mark.process
def test_a_correct_catalog_and_settings_for_a_named_spark_need_no_pyspark(tmp_path: Path) -> None:
    make = "import sys; from frazil import api; api.init(sys.argv[1])"
    subprocess.run([sys.executable, "-c", make, tmp_path], check=True)

    program = PROGRAM.partition("given =")[0] + WORKS
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False)

    assert "iceberg-spark-runtime-4.0" in done.stdout
    assert "[FZ102] --spark: name the version of the platform's Spark" in done.stderr
