"""NOTHING-LOST: every record of a hostile file is in the marts or in quarantine, every file or error reported."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.hostile.commands import QUERIES, Line
from tests.hostile.files import CSV, ENTRIES, OPEN, PARQUET, TS, VALUES, Entry, File, Value
from tests.hostile.situation import Said, bug_in, command

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

_TABLE: Final = """
  - name: {name}
    source: {{kind: dms, path: ./landing/{name}, settle_seconds: 0, {source}}}
    keys: [id]
    sequence_by: [ts]
    max_bad_fraction: 1
    columns: [{{name: id, type: int}}, {{name: ts, type: timestamp}}, {columns}]
    marts: [{marts}]
"""
_TOP: Final = "pipeline: hostile\nlake: {warehouse: ./lake}\ntables:"
_TYPES: Final = list(dict.fromkeys(value.type for value in VALUES))


def table(
    name: str, *, columns: str = "{name: v}", source: str = "header: true", marts: str = "{kind: current}"
) -> str:
    """Declare a table."""
    return _TABLE.format(name=name, columns=columns, source=source, marts=marts)


def land(folder: Path, files: tuple[File, ...]) -> None:
    """Write the files of a table."""
    folder.mkdir(parents=True)
    for number, file in enumerate(files):
        (folder / f"LOAD{number:03}{file.ending}").write_bytes(file.stored(number + 100))


def land_values(folder: Path) -> None:
    """Write one record a value, which is in the field of its type."""
    folder.mkdir(parents=True)
    names = [f"c{number}" for number in range(len(_TYPES))]
    lines = [",".join(["op", "id", "ts", *names])]
    for number, value in enumerate(VALUES):
        fields = [f'"{value.text}"' if kind == value.type else "NULL" for kind in _TYPES]
        lines.append(",".join(["I", f"{number}", TS, *fields]))
    (folder / "LOAD000.csv").write_text("\n".join([*lines, ""]), encoding="utf-8")


def typed(number: int, kind: str) -> str:
    """Declare the column of a type."""
    name = f"c{number}"
    more = f'type: int, expr: "cast({name} as int)"' if kind == "expr" else f"type: '{kind}'"
    return f"{{name: {name}, {more}}}"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[Path, Said]:
    """A lake of all hostile files, and what the run said that made it."""
    del spark  # only there so that Java runs
    folder = tmp_path_factory.mktemp("hostile")
    for name, files in (("csv", CSV), ("open", OPEN), ("parquet", PARQUET)):
        land(folder / "landing" / name, files)
    land_values(folder / "landing" / "values")
    tables = (
        table("csv"),
        table("open", columns='"*"', marts="{kind: current, deletes: soft}, {kind: history}"),
        table("parquet", source="format: parquet"),
        table("values", columns=", ".join(typed(*kind) for kind in enumerate(_TYPES))),
    )
    (folder / "frazil.yml").write_text(_TOP + "".join(tables), encoding="utf-8")
    return folder, command("run", f"{folder}", "--json")


def asked(folder: Path, sql: str) -> list[dict[str, Any]]:
    """Ask the lake."""
    return list(json.loads(command("query", sql, f"{folder}", "--json").stdout))


@pytest.fixture(scope="module")
def outcomes(lake: tuple[Path, Said]) -> dict[str, tuple[Counter[str], Counter[str]]]:
    """How many records of each file are typed, and how many in quarantine, by table."""
    folder, _ = lake
    layers = ("changes", "quarantine")
    sql = 'select _cdc_file as file, count(*) as n from silver."{}_{}" group by 1'
    return {
        name: tuple(
            Counter({row["file"]: row["n"] for row in asked(folder, sql.format(name, layer))}) for layer in layers
        )  # type: ignore[misc]
        for name in ("csv", "open", "parquet")
    }


ROWS: Final = [
    pytest.param(name, number, file, id=f"{name}: {file.name}")
    for name, files in (("csv", CSV), ("open", OPEN), ("parquet", PARQUET))
    for number, file in enumerate(files)
]


@pytest.mark.spark
@pytest.mark.parametrize(("name", "number", "file"), ROWS)
def test_every_record_of_a_file_is_kept_or_in_quarantine(
    name: str, number: int, file: File, outcomes: dict[str, tuple[Counter[str], Counter[str]]]
) -> None:
    path = f"landing/{name}/LOAD{number:03}{file.ending}"
    kept, quarantined = outcomes[name]

    assert (kept[path], quarantined[path]) == (file.kept, file.quarantined)


@pytest.fixture(scope="module")
def values(lake: tuple[Path, Said]) -> dict[int, dict[str, Any]]:
    """Rows of the table of values, each as text."""
    columns = ", ".join(f"cast(c{number} as varchar) as c{number}" for number in range(len(_TYPES)))
    return {row["id"]: row for row in asked(lake[0], f'select id, {columns} from marts."values"')}


@pytest.mark.spark
@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.text!r} as {value.type}")
def test_a_value_is_kept_exactly_or_its_record_is_in_quarantine(
    value: Value, values: dict[int, dict[str, Any]]
) -> None:
    row = values.get(VALUES.index(value))

    assert (row and row[f"c{_TYPES.index(value.type)}"]) == value.kept


@pytest.mark.spark
def test_the_run_and_the_proofs_hold(lake: tuple[Path, Said]) -> None:
    folder, said = lake
    report = json.loads(said.stdout)

    assert (said.code, report["errors"]) == (0, [])
    quarantined = {each["table"]: each["quarantined"] for each in report["tables"]}
    assert quarantined == {
        "csv": sum(file.quarantined for file in CSV),
        "open": sum(file.quarantined for file in OPEN),
        "parquet": sum(file.quarantined for file in PARQUET),
        "values": sum(value.kept is None for value in VALUES),
    }
    for table in report["tables"]:
        [inserted] = {mart["inserted"] for mart in table["marts"]}
        assert inserted == table["changes"]
    checked = command("check", f"{folder}", "--json")
    assert [found for found in json.loads(checked.stdout) if not found["ok"] and found["law"] != "SOURCE"] == []
    assert checked.code == 0
    assert command("run", f"{folder}").stdout.startswith("hostile: nothing new")


@pytest.mark.spark
@pytest.mark.parametrize("line", QUERIES, ids=lambda line: line.line)
def test_a_question_without_an_answer_has_a_clear_error(line: Line, lake: tuple[Path, Said]) -> None:
    said = command(*shlex.split(line.line.replace("HERE", f"{lake[0]}")))

    assert (said.code, line.says in said.text) == (line.code, True), said.text


@pytest.mark.spark
def test_a_reader_that_closes_the_pipe_early_is_not_an_error(lake: tuple[Path, Said]) -> None:
    asked = ["query", "select repeat('x', 5000000) as x", f"{lake[0]}", "--csv"]
    script = f"{shlex.join([sys.executable, '-c', 'from frazil.cli import main; main()', *asked])} | head -c 1"

    done = subprocess.run(
        ["bash", "-c", f"{script} >/dev/null; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 128 + 13
    assert not bug_in(done.stderr), done.stderr


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A plan over all hostile folders."""
    folder = tmp_path_factory.mktemp("entries")
    for number, entry in enumerate(ENTRIES):
        landing = folder / "landing" / f"e{number}"
        landing.mkdir(parents=True)
        entry.put(landing)
    text = _TOP + "".join(table(f"e{number}", source=entry.source) for number, entry in enumerate(ENTRIES))
    (folder / "frazil.yml").write_text(text, encoding="utf-8")
    return dict(json.loads(command("plan", f"{folder}", "--json").stdout))


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_good_files_of_a_folder_are_taken_and_others_reported(entry: Entry, plan: dict[str, Any]) -> None:
    name = f"e{ENTRIES.index(entry)}"
    [step] = [step for step in plan["steps"] if step["step"] == "Ingest" and step["table"] == name] or [{}]
    errors = [error for error in plan["errors"] if error["name"] == name]

    assert len(step.get("files", [])) == entry.taken
    assert entry.says in json.dumps([step, errors, plan["passed"].get(name), plan["warnings"].get(name)])
    assert all(error["hint"] for error in errors)
