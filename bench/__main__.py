"""``python -m bench``: run works, draw their results."""

from __future__ import annotations

import argparse
import shutil
import sys
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Final

from bench.cases import WORKS
from bench.contenders import PLACES
from bench.data import BUILD
from bench.draw import draw
from bench.results import RESULTS, Results
from bench.turns import Manner, NoisyError, take_turns
from bench.works import SPECIAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.cases import Work


_SHAPE: Final = ("rows", "changes", "keys", "late", "tables", "columns")


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; give its exit code."""
    given = _parser().parse_args(words)
    match given.command:
        case "list":
            _list()
        case "clean":
            shutil.rmtree(BUILD, ignore_errors=True)
        case "draw":
            for path in draw():
                print(path)
        case "run":
            for name in given.work:
                try:
                    _run(name, _chosen(WORKS[name], given), given)
                except NoisyError as error:
                    print(f"stopped: {error}", file=sys.stderr)
                    return 3
    return 0


def _run(name: str, plan: Work, given: argparse.Namespace) -> None:
    print(f"{name}: {plan.about}", flush=True)
    results = Results.open(given.results or name)
    manner = Manner(timeout_s=given.timeout, strict=given.strict, say=lambda line: print(line, flush=True))
    for case in plan.cases:
        print(f" {case.title}", flush=True)
        rows = SPECIAL[name](plan, case, manner) if name in SPECIAL else take_turns(plan, case, manner)
        # Kept after every case, so that a run that is stopped was not for nothing.
        results.put(rows)
        results.save()
    print(f" kept in bench/results/{results.path.name}")


def _chosen(plan: Work, given: argparse.Namespace) -> Work:
    """Change a plan as the command line says.

    Sizes and shapes choose among the plan's cases; where none of those fits, they make new ones, with the first
    case's contenders.
    """
    named = {field: getattr(given, field) for field in ("rounds", "warm", "batches", "heap")}
    plan = replace(plan, **{field: number for field, number in named.items() if number is not None})
    wanted = {field: found for field in _SHAPE if (found := getattr(given, field)) is not None}
    cases = [case for case in plan.cases if all(getattr(case, field) in found for field, found in wanted.items())]
    if not cases:
        mixes = product(*wanted.values())
        cases = [replace(plan.cases[0], **dict(zip(wanted, mix, strict=True))) for mix in mixes]
    if given.contenders:
        cases = [replace(case, contenders=tuple(given.contenders)) for case in cases]
    return replace(plan, cases=tuple(cases))


def _list() -> None:
    for name, plan in WORKS.items():
        print(f"{name:8} {plan.about} ({len(plan.cases)} cases, {plan.rounds} rounds)")
        for case in plan.cases:
            print(f"         {case.title}: {', '.join(case.contenders)}")
    print()
    for name, (_, about) in PLACES.items():
        print(f"{name:18} {about}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Frazil side by side with its peers.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="works, their cases, and contenders")
    commands.add_parser("draw", help="make the pictures and pages of the docs from bench/results")
    commands.add_parser("clean", help="remove data and tables in build/bench")
    run = commands.add_parser("run", help="run works; what was measured replaces older rows of the same cases")
    run.add_argument("work", nargs="+", choices=sorted(WORKS), help="which")
    run.add_argument("--rows", type=_numbers, help="rows of the full load, such as 1000000,5000000")
    run.add_argument("--changes", type=_numbers, help="records of a batch")
    run.add_argument("--keys", type=_words, help="mixed, recent, uniform, hot")
    run.add_argument("--late", type=_shares, help="share of late changes, such as 0,0.1")
    run.add_argument("--tables", type=_numbers, help="tables in one run")
    run.add_argument("--columns", type=_numbers, help="columns of a table")
    run.add_argument("--contenders", type=_words, help="names, with commas")
    run.add_argument("--rounds", type=int, help="turns of every contender")
    run.add_argument("--warm", type=int, help="batches before the clock starts")
    run.add_argument("--batches", type=int, help="batches under the clock in each turn")
    run.add_argument("--heap", help="memory of a JVM, such as 4g")
    run.add_argument("--timeout", type=float, default=1800.0, help="seconds a turn may take")
    run.add_argument("--strict", action="store_true", help="stop when others use more than a tenth of the machine")
    run.add_argument("--results", help=f"keep under another name in {RESULTS.name}, such as trial")
    return parser


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _shares(text: str) -> list[float]:
    return [float(share) for share in text.split(",")]


def _words(text: str) -> list[str]:
    return text.split(",")


if __name__ == "__main__":
    sys.exit(main())
