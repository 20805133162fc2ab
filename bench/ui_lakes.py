"""The lakes that ``bench.ui`` shows, kept in build/bench/ui.

Runs of Frazil make one lake, the shop. The tables of the other lakes are copies of the metadata of the shop's tables.
A page reads no more than that of tables whose rows it does not show.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyarrow import csv

import frazil
from bench.cases import MILLION, Case
from bench.data import BUILD, dataset
from frazil.catalog.catalogs import catalog_reader
from frazil.iceberg.metadata import local_path
from frazil.spec.tables import lake_tables
from frazil.testing.generate import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

ROWS: Final = 5 * MILLION
BAD: Final = MILLION
TABLES: Final = 10_000
NODES: Final = 200
_PLACE: Final = BUILD / "ui"
_CHANGES: Final = 50_000
_RUNS: Final = 20
_BUSY: Final = 20
"""One in so many tables has changes in a usual run."""
_SHOP: Final = f"""\
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: ./landing/orders, header: true, settle_seconds: 0}}
    keys: [id]
    sequence_by: [updated_at]
    columns: [{", ".join(f"{{name: {name}, type: '{kind}'}}" for name, kind in COLUMNS.items())}]
    marts: [{{kind: current}}, {{kind: history}}]
  - name: readings
    source: {{kind: dms, path: ./landing/readings, header: true, settle_seconds: 0}}
    keys: [id]
    sequence_by: [updated_at]
    columns: [{{name: id, type: bigint}}, {{name: updated_at, type: timestamp}}, {{name: sensor}},
      {{name: celsius, type: "decimal(6,2)"}}]
    marts: [{{kind: current}}]
    max_bad_fraction: 1
gold:
  - {{name: by_category, sql: "select category, count(*) as orders from {{{{ orders }}}} group by category"}}
"""


def shop() -> Path:
    """Return a lake with 5 M orders and their history, and 1 M records in quarantine; two runs, in minutes."""
    home = _PLACE / "shop"
    if (home / "done").is_file():
        return home
    shutil.rmtree(home, ignore_errors=True)
    files = dataset(Case(rows=ROWS, changes=_CHANGES), 1)
    landing = home / "landing" / "orders"
    landing.mkdir(parents=True)
    (home / "frazil.yml").write_text(_SHOP, encoding="utf-8")
    _write_readings(home / "landing" / "readings")
    for part in (files.load, files.batches[0]):
        for path in part:
            (landing / path.name).hardlink_to(path)
        subprocess.run([sys.executable, "-m", "frazil", "run", f"{home}"], check=True)
    (home / "done").touch()
    return home


def _write_readings(folder: Path) -> None:
    """Write ten files of records. One record in a hundred is valid, and the others break four rules."""
    folder.mkdir()
    chosen, each = np.random.default_rng(1), BAD // 10
    for file in range(10):
        size = each + each // 100
        ids = np.arange(file * size, (file + 1) * size).astype(str).astype(object)
        times = np.full(size, "2026-01-01 00:00:00", object)
        celsius = chosen.integers(-2000, 4000, size).astype(str).astype(object)
        kind = chosen.integers(0, 10, each)
        wrong = np.arange(each)
        celsius[wrong[kind < 6]] = "n/a"
        celsius[wrong[kind == 6]] = "20.125"
        ids[wrong[kind == 7]] = ""
        times[wrong[kind >= 8]] = "noon"
        made = {"op": ["I"] * size, "id": ids, "updated_at": times, "sensor": [f"s{n % 97}" for n in range(size)]}
        table = pa.table(
            {name: pa.array(values, pa.string()) for name, values in (made | {"celsius": celsius}).items()}
        )
        csv.write_csv(table, folder / f"20260101-{file:09}.csv", csv.WriteOptions(quoting_style="none"))


def many() -> Path:
    """Return a lake of 10,000 tables with a current mart each, and twenty runs that said so."""
    home, names = _PLACE / "many", [f"table_{number:05}" for number in range(TABLES)]
    if not (home / "done").is_file():
        text = "pipeline: shop\nlake: {warehouse: ./lake}\ntables:\n" + "".join(map(_declared, names))
        _make(home, text, dict.fromkeys(names, "readings"))
        _write_runs(home, names)
        (home / "done").touch()
    return home


def drawn() -> tuple[Path, str]:
    """Return a lake, and an aggregate that is made of 199 others, in five layers above the sources."""
    home, tables = _PLACE / "drawn", [f"table_{number:05}" for number in range(25)]
    layers = [[f"gold_{layer}_{number}" for number in range(size)] for layer, size in enumerate((66, 25, 8, 1))]
    golds, below = list[str](), tables
    for layer in layers:
        for number, name in enumerate(layer):
            read = below[number % len(below) :: len(layer)] or [below[number % len(below)]]
            golds.append(_gold(name, read, is_first=below is tables))
        below = layer
    if not (home / "done").is_file():
        text = "pipeline: shop\nlake: {warehouse: ./lake}\ntables:\n" + "".join(map(_declared, tables))
        _make(home, f"{text}gold:\n{''.join(golds)}", dict.fromkeys(tables, "readings"))
        (home / "done").touch()
    return home, layers[-1][0]


def _declared(name: str) -> str:
    return (
        f"  - name: {name}\n"
        f"    source: {{kind: dms, path: ./landing/{name}, header: true}}\n"
        "    keys: [id]\n    sequence_by: [updated_at]\n"
        '    columns: [{name: updated_at, type: timestamp}, "*"]\n'
        "    marts: [{kind: current}]\n"
    )


def _gold(name: str, read: Sequence[str], *, is_first: bool) -> str:
    value = "count(*)" if is_first else "sum(number)"
    parts = [f"select sensor, {value} as number from {{{{ {one} }}}} group by sensor" for one in read]
    return f'  - {{name: {name}, sql: "{" union all ".join(parts)}"}}\n'


def _make(home: Path, declaration: str, like: Mapping[str, str]) -> None:
    """Make a lake: each source table's tables have the metadata of one of the shop's."""
    shutil.rmtree(home, ignore_errors=True)
    (home / "lake").mkdir(parents=True)
    (home / "frazil.yml").write_text(declaration, encoding="utf-8")
    pipeline, model = frazil.load(home), frazil.load(shop())
    located = catalog_reader(model).tables()
    texts = {
        (made.made_of, made.role): _text(located[made.key])
        for made in lake_tables(model)
        if made.key in located and (made.mart is None or made.mart.kind == "current")
    }
    rows = []
    for made in lake_tables(pipeline):
        text = texts.get((like.get(made.made_of, ""), made.role))
        if text is None:
            continue
        table = like[made.made_of]
        folder = home / "lake" / made.namespace / made.name / "metadata"
        folder.mkdir(parents=True)
        file = folder / "00001-copy.metadata.json"
        own = text.replace(f"{shop()}", f"{home}").replace(f'\\"table\\":\\"{table}', f'\\"table\\":\\"{made.made_of}')
        file.write_text(own.replace(f"/{table}", f"/{made.made_of}"), encoding="utf-8")
        rows.append(("lake", made.namespace, made.name, f"file:{file}", None, "TABLE"))
    _write_catalog(home / "lake" / "catalog.db", shop() / "lake" / "catalog.db", rows)


def _text(location: str) -> str:
    path = local_path(location)
    assert path is not None
    return path.read_text(encoding="utf-8")


def _write_catalog(file: Path, model: Path, rows: Sequence[tuple[Any, ...]]) -> None:
    """Write a catalog with the tables of the model's, that Iceberg made, and other rows."""
    with closing(sqlite3.connect(f"file:{model}?mode=ro", uri=True)) as old, closing(sqlite3.connect(file)) as new:
        for (statement,) in old.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"):
            new.execute(statement)
        with new:
            new.executemany("INSERT INTO iceberg_tables VALUES (?, ?, ?, ?, ?, ?)", rows)


def _write_runs(home: Path, names: Sequence[str]) -> None:
    """Write the files of runs: the first wrote all tables, later ones the twentieth part, in turn."""
    folder, model = home / "lake" / ".frazil" / "runs", shop() / "lake" / ".frazil" / "runs"
    folder.mkdir(parents=True)
    start, end = (json.loads(min(model.glob(f"*.{part}.json")).read_text()) for part in ("start", "end"))
    for run in range(_RUNS):
        stem = f"20260101T00{run:02}00.000000Z-{run:08}-0000-7000-8000-000000000000"
        busy = {name for number, name in enumerate(names) if run == 0 or number % _BUSY == run % _BUSY}
        made = _ended(end, f"{stem.partition('Z-')[2]}", [*_parts(end, names, busy)], busy)
        (folder / f"{stem}.start.json").write_text(json.dumps(start, indent=1), encoding="utf-8")
        (folder / f"{stem}.end.json").write_text(json.dumps(made, indent=1), encoding="utf-8")


def _parts(end: Mapping[str, Any], names: Sequence[str], busy: set[str]) -> Iterator[dict[str, Any]]:
    model = next(part for part in end["run"]["facets"]["frazil_run"]["tables"] if part["name"] == "readings")
    idle = model | {"outcome": "nothing new", "files": 0, "rows": 0, "bad": 0, "changes": 0, "quarantined": 0}
    for name in names:
        yield (model if name in busy else idle) | {"name": name}


def _ended(end: Mapping[str, Any], run: str, parts: list[dict[str, Any]], busy: set[str]) -> dict[str, Any]:
    facet = end["run"]["facets"]["frazil_run"] | {"tables": parts, "gold": []}
    outputs = [
        one | {"name": one["name"].replace("readings", name)}
        for name in sorted(busy)
        for one in end["outputs"]
        if "readings" in one["name"]
    ]
    told = end["run"] | {"runId": run, "facets": end["run"]["facets"] | {"frazil_run": facet}}
    return {**end, "run": told, "outputs": outputs}
