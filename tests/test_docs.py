"""What the docs say is so: errors, commands, settings, links and files. Their examples are run in ``tests/docs``."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import typer

import frazil
from frazil.cli.main import COMMANDS, app
from frazil.errors import FrazilError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
TEXTS: Final = {f"{page.relative_to(ROOT)}": page.read_text(encoding="utf-8") for page in PAGES}
USERS: Final = "\n".join(text for name, text in TEXTS.items() if name.startswith(("README", "docs/")))
LONG_LINES: Final = "docs/benchmarks/numbers.md"
"""The page that may have longer lines: benchmarks write it."""
LAWS: Final = [
    "CONVERGE",
    "ORDER",
    "LATE",
    "NO-RESURRECTION",
    "UNSEEN",
    "DELETES",
    "HISTORY",
    "AGREE",
    "MISSING-IS-NOT-NULL",
    "KEY-CHANGE",
    "TRUNCATE",
    "HANDOVER",
    "ONCE",
    "NOTHING-LOST",
    "EVOLVE",
    "ERASE",
]


def without_code(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def errors() -> list[type[FrazilError]]:
    """Every error class of the product: all modules are imported to find them."""
    for module in pkgutil.walk_packages(frazil.__path__, "frazil."):
        importlib.import_module(module.name)
    found, waiting = [], [FrazilError]
    while waiting:
        kind = waiting.pop()
        found.append(kind)
        waiting += [child for child in kind.__subclasses__() if child.__module__.startswith("frazil.")]
    return sorted(set(found), key=lambda kind: kind.code)


def test_every_error_is_documented_with_code_exit_and_retry(
    errors: list[type[FrazilError]],
) -> None:
    told = re.findall(r"^\| `(FZ\d{3})` \| `(\w+)` \| (\d+) \| (yes|no) \|", TEXTS["docs/errors.md"], re.MULTILINE)

    assert told == [
        (kind.code, kind.__name__, f"{kind.exit_code}", "yes" if kind.retryable else "no") for kind in errors
    ]


def test_no_two_errors_have_one_code(errors: list[type[FrazilError]]) -> None:
    codes = [kind.code for kind in errors]

    assert sorted(codes) == sorted(set(codes))


def test_every_exit_code_is_documented(errors: list[type[FrazilError]]) -> None:
    exits = TEXTS["docs/errors.md"].partition("## Exit codes")[2].partition("## All errors")[0]
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", exits, re.MULTILINE)}

    assert {0, 1, *(kind.exit_code for kind in errors)} <= told


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str) -> None:
    assert re.search(rf"\bfrazil {command}\b", USERS)


def test_the_list_of_commands_says_what_their_help_says() -> None:
    def listed(command: Any, name: str) -> Iterator[str]:
        parts = getattr(command, "commands", None)
        if parts is None:
            yield f"| `{name}` | {' '.join(command.help.partition(chr(10) * 2)[0].split())} |"
        else:
            yield from (row for part, one in parts.items() if not one.hidden for row in listed(one, f"{name} {part}"))

    shown = [line for line in TEXTS["docs/commands.md"].splitlines() if line.startswith("| `frazil")]

    assert shown == [*listed(typer.main.get_command(app), "frazil")]


def test_every_environment_variable_is_documented() -> None:
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    read = set(re.findall(r"\bFRAZIL_[A-Z_]*[A-Z]\b", sources))

    assert {name for name in read if f"`{name}`" not in "\n".join(TEXTS.values())} == set()


@pytest.mark.parametrize("law", LAWS)
def test_every_law_is_documented(law: str) -> None:
    pages = "".join(text for name, text in TEXTS.items() if name.startswith("docs/guarantees/"))

    assert re.search(rf"^##+ {law}$", pages, re.MULTILINE)


@pytest.mark.parametrize("name", TEXTS)
def test_links_lead_to_files_and_headings_that_are_there(name: str) -> None:
    page = ROOT / name
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", without_code(TEXTS[name])):
        path, _, heading = link.partition("#")
        target = (page.parent / path).resolve() if path else page

        assert target.exists(), f"{name}: {link}"
        if heading:
            assert heading in headings(target), f"{name}: {link}"


def headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", without_code(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_decision_is_in_the_list_of_decisions() -> None:
    titles = {
        Path(name).name: TEXTS[name].partition("\n")[0].partition(" · ")[2]
        for name in TEXTS
        if re.fullmatch(r"docs/decisions/\d{4}-.*", name)
    }
    listed = re.findall(r"^\| \[\d{4}\]\((.*?)\) \| (.*) \|$", TEXTS["docs/decisions/README.md"], re.MULTILINE)

    assert listed == sorted(titles.items())


def test_every_page_is_in_the_list_of_pages_and_on_the_site() -> None:
    pages = {name.removeprefix("docs/").removesuffix(".md") for name in TEXTS if name.startswith("docs/")}
    pages -= {name for name in pages if re.match(r"decisions/\d", name)} | {"README", "index"}
    listed = {link.partition("#")[0] for link in re.findall(r"\]\(([\w/-]+)\.md\)", TEXTS["docs/README.md"])}

    assert pages == listed
    assert pages <= {*TEXTS["docs/index.md"].split()}


def test_pages_are_short() -> None:
    """A page has at most 12 KB, but for the list of errors and the numbers that the benchmarks write."""
    long = {
        name for name, text in TEXTS.items() if name.startswith(("README", "docs/")) and len(text.encode()) > 12_288
    }

    assert long == {"docs/errors.md", "docs/benchmarks/numbers.md"}


@pytest.mark.parametrize("name", [name for name in TEXTS if name != LONG_LINES])
def test_lines_of_pages_are_short(name: str) -> None:
    """A line has at most 120 characters, except rows of tables, and commands and outputs."""
    lines = without_code(TEXTS[name]).splitlines()

    assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []


@pytest.mark.parametrize("name", TEXTS)
def test_files_that_are_named_are_there(name: str) -> None:
    named = set(re.findall(r"`((?:src|tests|docs|examples|scripts|bench)/[\w./-]+)`", TEXTS[name]))

    assert {path for path in named if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_names_a_machine(name: str) -> None:
    """Paths and hosts of a page's author do not help readers."""
    assert not re.search(r"/(?:home|root|Users|tmp|work)/\w", TEXTS[name])
