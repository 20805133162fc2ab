"""The files of a case: made by ``frazil.testing.generate``, kept in build/bench/data, never committed."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from frazil.testing.generate import COLUMNS, generate
from frazil.testing.sample_files import SampleFiles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.cases import Case

ROOT: Final = Path(__file__).resolve().parents[1]
BUILD: Final = ROOT / "build" / "bench"
_SEED: Final = 1
_ROWS_A_FILE: Final = 1_000_000
_POOL: Final = 1_000
"""Wide records take their additional fields from this many prepared endings of a line."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Files of one or more tables, each in a folder that has the table's name.

    Attributes:
        name: tells the load apart from others; cases with the same load share it.
        columns: names and types of every table's columns.
        tables: names.
        load: full load files.
        batches: change files of each batch.
    """

    name: str
    columns: dict[str, str]
    tables: tuple[str, ...]
    load: tuple[Path, ...]
    batches: tuple[tuple[Path, ...], ...]


def dataset(case: Case, batches: int) -> Dataset:
    """Make, or find again, the files of a case.

    Args:
        case: sizes and shape.
        batches: how many change files each table has at least.
    """
    columns = COLUMNS | wide_columns(case.columns)
    tables = ("orders",) if case.tables == 1 else tuple(f"orders_{number:03d}" for number in range(case.tables))
    load_name = f"{case.rows}x{len(columns)}x{case.tables}"
    loads, changes = BUILD / "data" / load_name, BUILD / "data" / f"{load_name}-{_shape(case, batches)}"
    if not (changes / "done.json").is_file():
        for number, table in enumerate(tables):
            _make(case, batches, _SEED + number, loads / table, changes / table)
        (changes / "done.json").write_text(json.dumps({"batches": batches}), encoding="utf-8")
    by_table = [sorted((changes / table).glob("*.csv"))[:batches] for table in tables]
    load = tuple(path for table in tables for path in sorted((loads / table).glob("LOAD*.csv")))
    return Dataset(load_name, columns, tables, load, tuple(zip(*by_table, strict=True)))


def wide_columns(width: int) -> dict[str, str]:
    """Names and types of the columns that make a table ``width`` wide; every third is a number."""
    extra = max(width - len(COLUMNS), 0)
    return {f"extra_{number:03d}": "int" if number % 3 == 0 else "string" for number in range(extra)}


def _shape(case: Case, batches: int) -> str:
    return f"{case.changes}x{batches}-{case.keys}-late{round(case.late * 100)}"


def _make(case: Case, batches: int, seed: int, loads: Path, changes: Path) -> None:
    work = changes.with_name(f"{changes.name}.part")
    shutil.rmtree(work, ignore_errors=True)
    files = SampleFiles(
        rows=case.rows,
        batches=batches,
        changes=case.changes,
        seed=seed,
        keys=case.keys,
        late=case.late,
        parts=max(1, case.rows // _ROWS_A_FILE),
    )
    made = generate(work, files)
    endings = _endings(case.columns, seed)
    for folder, paths in ((loads, made.load), (changes, made.batches)):
        folder.mkdir(parents=True, exist_ok=True)
        for path in paths:
            # The full load depends on rows and seed only: what is there already has the same bytes.
            if not (folder / path.name).is_file():
                if endings:
                    _widen(path, wide_columns(case.columns), endings)
                path.replace(folder / path.name)
    shutil.rmtree(work)


def _endings(width: int, seed: int) -> list[bytes]:
    extra = wide_columns(width)
    if not extra:
        return []
    rng = np.random.default_rng([seed, width])
    numbers = rng.integers(0, 100_000, (_POOL, len(extra)))
    kinds = list(extra.values())
    return [
        "".join(f",{n}" if kind == "int" else f",w{n:05d}" for n, kind in zip(row, kinds, strict=True)).encode()
        for row in numbers.tolist()
    ]


def _widen(path: Path, names: Iterable[str], endings: list[bytes]) -> None:
    """Lengthen every record; the generator's records are single lines unless they are asked to be nasty."""
    wide = path.with_suffix(".wide")
    with path.open("rb") as narrow, wide.open("wb") as out:
        out.write(narrow.readline().rstrip(b"\n") + "".join(f",{name}" for name in names).encode() + b"\n")
        for number, line in enumerate(narrow):
            out.write(line.rstrip(b"\n") + endings[number * 7919 % _POOL] + b"\n")
    wide.replace(path)
