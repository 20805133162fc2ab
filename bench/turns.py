"""Let contenders work in turn: A B A B, each turn in a process of its own, from the same loaded table."""

from __future__ import annotations

import hashlib
import shutil
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.data import BUILD, ROOT, dataset
from bench.process import Order, WorkerFailedError, work
from bench.truth import BY_COLUMN, BY_SOURCE, expected, found

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.cases import Case, Work
    from bench.data import Dataset

    Row = dict[str, Any]

QUIET: Final = 0.10
"""Share of the machine that others may take before a number is marked as noisy."""

_IMMUTABLE: Final = frozenset({".parquet", ".csv", ".avro", ".puffin", ".bin"})
_MARTS: Final = {
    "frazil": ("current", "history"),
    "frazil-history": ("history",),
    "recipe-history": ("history",),
    "recipe-both": ("current", "history"),
    "limit-write": (),
}
_DELETES: Final = {"recipe-history": BY_COLUMN, "recipe-both": BY_COLUMN}
"""How contenders time deletes in a history, where they do it otherwise than Frazil: the published recipe knows no time
but the column's. Each is judged by what it says itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How turns are taken, whatever the case.

    Attributes:
        timeout_s: a process that takes longer is killed and its contender left out.
        strict: stop at the first noisy number instead of marking it.
        say: is given a line for people now and then.
    """

    timeout_s: float = 1800.0
    strict: bool = False
    say: Callable[[str], None] = print


class NoisyError(Exception):
    """Others took more of the machine than a strict run allows."""


def take_turns(plan: Work, case: Case, manner: Manner) -> list[Row]:
    """Run one case.

    Returns:
        Rows of every contender, load, batch and reading, each with the case, the round and whether the table
        was ``right`` at the end (None without a table to check). A contender that failed has one row with
        ``error``.
    """
    files = dataset(case, plan.warm + plan.batches)
    rows: list[Row] = []
    failed: set[str] = set()
    for number in range(plan.rounds):
        order = case.contenders if number % 2 == 0 else case.contenders[::-1]
        for name in order:
            if name in failed:
                continue
            labels = labels_of(case) | {"contender": name, "round": number}
            try:
                turn = _turn(name, plan, files, manner)
            except WorkerFailedError as error:
                failed.add(name)
                manner.say(f"  {name}: FAILED: {error}")
                rows = [row for row in rows if row["contender"] != name]
                rows.append(labels | {"phase": "failed", "error": _without_paths(str(error)), "right": False})
                continue
            rows += [labels | row for row in turn]
            manner.say(f"  {case.title} · {number + 1}/{plan.rounds} · {name}: {_line(turn)}")
            _mind_noise(turn, manner)
    return rows


def labels_of(case: Case) -> Row:
    """Name what tells one case's rows from another's."""
    return {name: number for name, number in asdict(case).items() if name != "contenders"}


def _turn(name: str, plan: Work, files: Dataset, manner: Manner) -> list[Row]:
    home, out = BUILD / "homes" / name, BUILD / "export" / name
    shutil.rmtree(out, ignore_errors=True)
    batches = files.batches[: plan.warm + plan.batches]
    order = Order(
        contender=name,
        home=str(home),
        columns=files.columns,
        tables=files.tables,
        heap=plan.heap,
        batches=[[str(path) for path in batch] for batch in batches],
        warm=plan.warm,
        read=True,
        export={mart: str(out / mart) for mart in _marts(name)},
    )
    if plan.batches:
        _restore(order, files, manner)
    else:
        _empty(home)
        order = replace(order, load=[str(path) for path in files.load])
    rows = work(order, BUILD / "logs", manner.timeout_s)
    right = _is_right(name, files, batches, out)
    shutil.rmtree(out, ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)
    return [row | {"right": right} for row in rows]


def _restore(order: Order, files: Dataset, manner: Manner) -> None:
    """Put the loaded tables into the contender's home; load them first where that was not done yet."""
    home = Path(order.home)
    kept = BUILD / "prepared" / f"{order.contender}@{files.name}"
    stamp = kept / "made-by"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != _sources_digest():
        shutil.rmtree(kept, ignore_errors=True)
        _empty(home)
        manner.say(f"  {order.contender}: loading {files.name}")
        load = [str(path) for path in files.load]
        work(replace(order, load=load, batches=(), read=False, export={}), BUILD / "logs", manner.timeout_s)
        kept.parent.mkdir(parents=True, exist_ok=True)
        home.rename(kept)
        stamp.write_text(_sources_digest(), encoding="utf-8")
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(kept, home, copy_function=_link_or_copy, ignore=shutil.ignore_patterns("made-by"))


def _link_or_copy(source: str, target: str) -> str:
    """Files that no table format ever changes are linked, so that a table is there again in no time."""
    if Path(source).suffix in _IMMUTABLE:
        Path(target).hardlink_to(source)
    else:
        shutil.copy2(source, target)
    return target


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _sources_digest() -> str:
    """A loaded table is used again only while the code that made it is the same."""
    here = Path(__file__).parent
    sources = [*sorted((here / "contenders").glob("*.py")), *sorted((here.parent / "src" / "frazil").rglob("*.py"))]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()


def _marts(name: str) -> tuple[str, ...]:
    return _MARTS.get(name, ("current",))


def _is_right(name: str, files: Dataset, batches: tuple[tuple[Path, ...], ...], out: Path) -> bool | None:
    marts, deletes = _marts(name), _DELETES.get(name, BY_SOURCE)
    if not marts:
        return None
    first = files.tables[0]
    load = [path for path in files.load if path.parent.name == first]
    changes = [path for batch in batches for path in batch if path.parent.name == first]
    keep = BUILD / "data" / "truth.json"
    return all(
        found(mart, out / mart, files.columns)
        == expected(mart, load, changes, files.columns, keep, deletes=deletes if mart == "history" else BY_SOURCE)
        for mart in marts
    )


def _mind_noise(rows: list[Row], manner: Manner) -> None:
    worst = max((row.get("other_share", 0.0) for row in rows if row["phase"] in {"apply", "load"}), default=0.0)
    if worst > QUIET:
        manner.say(f"    noisy: others took up to {worst:.0%} of the machine")
        if manner.strict:
            raise NoisyError(f"others took {worst:.0%} of the machine, more than {QUIET:.0%}")


def _line(rows: list[Row]) -> str:
    clock = [row for row in rows if row["phase"] in {"apply", "load"} and "part" not in row]
    if not clock:
        return "nothing measured"
    wall, cpu = sum(row["wall_s"] for row in clock), sum(row["cpu_s"] for row in clock)
    verdict = {True: "right", False: "WRONG TABLE", None: "no table to check"}[rows[0]["right"]]
    return f"{wall / len(clock):.2f} s, {cpu / len(clock):.2f} CPU s, {verdict}"


def _without_paths(text: str) -> str:
    return text.replace(f"{ROOT}/", "").replace(sys.prefix, "<python>")
