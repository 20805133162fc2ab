"""Looking at a lake imports no Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import frazil.serve


@pytest.mark.process
def test_no_module_imports_spark() -> None:
    modules = sorted(path.stem for path in Path(frazil.serve.__file__).parent.glob("*.py"))
    imports = "; ".join(f"import frazil.serve.{module}" for module in modules if module != "__init__")

    code = f"{imports}; import sys; sys.exit('pyspark' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
