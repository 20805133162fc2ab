"""Every example of the docs is run, in order, and does what its page says."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Final

import pytest
import sqlglot
import yaml
from pyspark.sql import SparkSession
from tests.docs.follow import NOT_RUN, Reader
from tests.docs.page import LANGUAGES, MARKS, Block, Code, Command, Written, blocks, matches, steps

from frazil.catalog.conf import PREFIX
from frazil.spec.load.document import read_document
from frazil.spec.load.parse import parse_declaration
from frazil.testing.generate import generate
from frazil.testing.kafka import kafka
from frazil.testing.postgres import find_programs, postgres_server
from frazil.testing.sample_files import SampleFiles

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = {
    f"{path.relative_to(ROOT)}": path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
}
BEGINS: Final = {"README.md": "examples/airbnb", "docs/errors.md": "examples/airbnb"}
"""Folder that a page begins in, where that is not the clone."""
LONG: Final = tuple(
    f"docs/{name}.md" for name in ("erase", "handover", "personal-data", "python", "quickstart", "rollback", "time")
)
"""Pages of many runs, which `make e2e` follows."""

ON_POSTGRESQL: Final = "docs/first-postgresql.md"
ON_KAFKA: Final = "docs/first-kafka.md"
"""The pages that need a server."""

DIRECTIVES: Final = ("{toctree}", "{eval-rst}", "{frazil-commands}")
"""What only the site shows: `make docs` fails where it cannot."""

BLOCKS: Final = [(name, block) for name, page in PAGES.items() for block in blocks(page)]
PARTS: Final = [block for name, block in BLOCKS if name.startswith("docs/declaration")]
"""Blocks that may be a part of a declaration."""


def of(language: str) -> list[Any]:
    return [pytest.param(block, id=f"{name}:{block.line}") for name, block in BLOCKS if block.language == language]


@pytest.fixture
def reader(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Reader:
    """Stands where the page begins, beside a few orders; a session that the page asks Spark for has no lake yet."""
    session = spark.newSession()
    for setting in [name for name in session.conf.getAll if name.startswith(f"{PREFIX}.") or name == PREFIX]:
        session.conf.unset(setting)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", session)
    reader = Reader(tmp_path)
    monkeypatch.chdir(tmp_path / BEGINS.get(request.getfixturevalue("name"), ""))
    generate(Path("landing/shop/orders"), SampleFiles(rows=20, batches=1, changes=5, seed=1))
    return reader


@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in LONG else [])
        for name, page in PAGES.items()
        if steps(page) and name not in (ON_POSTGRESQL, ON_KAFKA)
    ],
)
def test_a_page_does_what_it_says(name: str, reader: Reader) -> None:
    for step in steps(PAGES[name]):
        reader.follow(step)


@pytest.mark.long
@pytest.mark.server
@pytest.mark.spark
@pytest.mark.parametrize("name", [ON_POSTGRESQL])
def test_the_page_on_postgresql_does_what_it_says(name: str, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = find_programs()[0]
    monkeypatch.setenv("PATH", f"{programs.folder}{os.pathsep}{os.environ['PATH']}")
    with postgres_server(programs, settings={"wal_level": "logical"}) as server:
        monkeypatch.setenv("SHOP_DB", server.url)
        for step in steps(PAGES[name]):
            reader.follow(step)


@pytest.mark.long
@pytest.mark.server
@pytest.mark.spark
@pytest.mark.parametrize("name", [ON_KAFKA])
def test_the_page_on_kafka_does_what_it_says(name: str, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    with kafka() as broker:
        monkeypatch.setenv("SHOP_KAFKA", broker.servers)
        for step in steps(PAGES[name]):
            reader.follow(step)


@pytest.mark.parametrize(("name", "block"), [pytest.param(*each, id=f"{each[0]}:{each[1].line}") for each in BLOCKS])
def test_every_block_is_of_a_known_kind(name: str, block: Block) -> None:
    assert block.language in DIRECTIVES or (block.language in LANGUAGES and block.mark in ("", *MARKS)), name


@pytest.mark.parametrize("block", of("text"))
def test_drawings_show_neither_commands_nor_errors(block: Block) -> None:
    assert not re.search(r"^\$ |^\[FZ\d|^frazil ", block.text, re.MULTILINE)


@pytest.mark.parametrize("block", of("python"))
def test_python_is_python(block: Block) -> None:
    assert compile(block.text, "page", "exec")


@pytest.mark.parametrize("block", of("yaml"))
def test_yaml_is_a_declaration_or_a_part_of_one(block: Block) -> None:
    """What a reader writes or is shown meets the commands; ``tests/spec/test_declaration_docs.py`` tries the parts."""
    if block.mark == "fragment":
        assert [*yaml.safe_load_all(block.text)]
    elif not block.mark:
        data = read_document(block.text).data
        assert isinstance(data, dict)
        assert {"pipeline", "tables"} <= data.keys() or block in PARTS
        assert "tables" not in data or parse_declaration(block.text).tables


@pytest.mark.parametrize("block", of("json"))
def test_json_is_json(block: Block) -> None:
    assert json.loads(block.text)


@pytest.mark.parametrize("block", of("sql"))
def test_sql_is_sql(block: Block) -> None:
    assert all(sqlglot.parse(block.text, dialect="duckdb"))


def test_the_list_of_commands_that_are_not_run_has_only_used_ones() -> None:
    programs = {step.words[0] for page in PAGES.values() for step in steps(page) if isinstance(step, Command)}

    assert set(NOT_RUN) <= programs


PRINTED = """\
hosts: 3 files, 10 Spark jobs

 table     strategy   seconds
 ─────────────────────────────
 marts.h   load           3.5

done in 8.3 s
"""


@pytest.mark.parametrize(
    "page",
    [
        PRINTED,
        PRINTED.replace("10 Spark jobs", "1 Spark job").replace("3.5", "12.0").replace("8.3", "1,000.1"),
        PRINTED.replace("   ", " ").replace("\n\n", "\n").replace("─", ""),
        PRINTED.replace("3 files", "… files"),
        "hosts: …\n…\ndone in 8.3 s\n",
    ],
)
def test_times_jobs_blanks_and_rules_do_not_count(page: str) -> None:
    assert matches(page, PRINTED)


@pytest.mark.parametrize(
    "page",
    [
        "",
        PRINTED.replace("3 files", "4 files"),
        PRINTED.replace("load", "row_delta"),
        PRINTED.replace("seconds", "  "),
        PRINTED.replace(" marts.h   load           3.5\n", ""),
        PRINTED + "more\n",
        PRINTED.replace("3 files", "… file"),
    ],
)
def test_all_else_counts(page: str) -> None:
    assert not matches(page, PRINTED)


PAGE = """\
```console
$ frazil run   # once
done
$ frazil run
```

```python
print(1)
```

```text
1
```

Not what it prints:

```text
2
```

```yaml writes=a.yml
a: 1
```

```python fragment
no
```
"""


def test_a_page_is_read_in_order() -> None:
    run, again, code, file = steps(PAGE)

    assert run == Command(2, "frazil run   # once", "done\n")
    assert run.words == ["frazil", "run"]
    assert again == Command(4, "frazil run", "")
    assert code == Code(7, "print(1)\n", "1\n")
    assert file == Written(21, "a.yml", "a: 1\n")
