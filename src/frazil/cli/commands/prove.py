"""Commands that prove the tables of a lake and test rules on them: ``check`` and ``test``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from frazil import api
from frazil.cli.console import error_exit, grid, out, print_json, runnable
from frazil.cli.options import AsJson, Select, Verbose, Where
from frazil.cli.progress import CheckProgress
from frazil.errors import DifferenceError
from frazil.serve.check.rules import RulesBrokenError
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.serve.check.finding import Finding
    from frazil.serve.check.rules import RuleTest


Source = Annotated[bool, typer.Option("--source", help="Only compare the marts with the tables at their sources.")]
Against = Annotated[
    str | None, typer.Option("--against", help="Compare the mart of one table with a dump: a file, folder or s3://…")
]
Certificates = Annotated[
    bool, typer.Option("--certificates", help="Only prove that the lake matches its certificates.")
]
Known = Annotated[
    list[str] | None,
    typer.Option("--known", help="With --certificates: hash of a certificate, kept elsewhere, that must exist."),
]


def check(
    path: Where = Path(),
    *,
    select: Select = None,
    source: Source = False,
    against: Against = None,
    certificates: Certificates = False,
    known: Known = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Prove that the tables match their changes, or their source.

    Exit code 9: they differ.

    Example: frazil check my_lake --select orders --against orders.csv
    """
    by_certificates = "--certificates" if certificates else "--known" if known else ""
    others = {"--source": source, "--against": against, "--select or --exclude": select}
    for other in (name for name, given in others.items() if by_certificates and given):
        raise typer.BadParameter(f"{by_certificates} proves the whole lake; remove {other}")
    if source and against is not None:
        raise typer.BadParameter("--source and --against are two comparisons; give one of them")
    with error_exit(as_json=as_json, verbose=verbose):
        unseen: tuple[Finding, ...] = ()
        with CheckProgress(quiet=as_json) as progress:
            if by_certificates:
                findings = api.check_certificates(path, known=known or (), listener=progress)
            elif source or against is not None:
                findings = api.check_source(path, select=select or (), against=against, listener=progress)
            else:
                findings = api.check(path, select=select or (), listener=progress)
                unseen = api.not_compared(path, select=select or ())
        wrong = [finding for finding in findings if finding.ok is False]
        if as_json:
            print_json([asdict(finding) for finding in (*findings, *unseen)])
            if wrong:
                raise typer.Exit(DifferenceError.exit_code)
            return
        show_proofs(findings, unseen)
        if wrong:
            raise DifferenceError(
                summary(findings),
                hint="frazil key explains a row; frazil run --full-refresh rebuilds silver and marts from bronze",
            )
        out.print(summary(findings), style="green", markup=False)


_RANK = {False: 0, None: 1, True: 2}
_SIGNS = {False: "WRONG", None: "?", True: "ok"}
_STYLES = {False: "red", None: "yellow", True: ""}


def show_proofs(findings: Sequence[Finding], unseen: Sequence[Finding] = ()) -> None:
    """Print the findings of each table, failures first, and then what no proof covers.

    Args:
        findings: findings of the proofs.
        unseen: findings for what the proofs do not cover, each with a command as hint.
    """
    law, table = (max((len(text) for text in texts), default=0) for texts in _texts(findings))
    for source in dict.fromkeys(finding.source_table for finding in findings):
        own = [finding for finding in findings if finding.source_table == source]
        style = _STYLES[min((one.ok for one in own), key=_RANK.__getitem__)]
        out.print(f"{source}: {summary(own)}", style=f"bold {style}".strip(), markup=False)
        for one in sorted(own, key=lambda one: _RANK[one.ok]):
            code = f"[{one.code}] " if one.code else ""
            line = f"  {_SIGNS[one.ok]:<5}  {one.law:<{law}}  {one.table:<{table}}  {code}{one.detail}"
            out.print(line, style=_STYLES[one.ok], markup=False)
            for other in one.differences:
                out.print(f"         {other.key}: {other.why}: {other.detail}", style=_STYLES[one.ok], markup=False)
            if one.hint:
                out.print(f"         hint: {runnable(one.hint)}", markup=False)
        for one in unseen:
            if one.source_table == source:
                out.print(f"  {one.detail}: {runnable(one.hint or '')}", markup=False)
        out.print()


def summary(findings: Sequence[Finding]) -> str:
    """Return the numbers of proofs that fail, hold and are undecided, as text."""
    counts = {ok: sum(finding.ok is ok for finding in findings) for ok in _RANK}
    said = [
        counted(counts[False], "proof fails", "proofs fail") if counts[False] else "",
        counted(counts[True], "proof holds", "proofs hold") if counts[True] else "",
        f"{counted(counts[None], 'proof')} undecided" if counts[None] else "",
    ]
    return ", ".join(filter(None, said)) or "nothing to prove"


def _texts(findings: Sequence[Finding]) -> tuple[list[str], list[str]]:
    return [finding.law for finding in findings], [finding.table for finding in findings]


def test(path: Where = Path(), *, select: Select = None, as_json: AsJson = False, verbose: Verbose = False) -> None:
    """Test the rules of contracts on the rows of the marts.

    Exit code 5: a rule is broken that does not only warn.

    Example: frazil test my_lake --select orders
    """
    with error_exit(as_json=as_json, verbose=verbose):
        results = api.test(path, select=select or ())
        is_broken = any(result.ok is False for result in results)
        if as_json:
            from frazil.serve.query.plain import plain  # noqa: PLC0415

            print_json(plain(results))
            if is_broken:
                raise typer.Exit(RulesBrokenError.exit_code)
            return
        show_rules([one for one in results if one.broken != 0])
        if is_broken:
            raise RulesBrokenError(
                rules_summary(results),
                hint="fix the source, or the declaration: if a rule that quarantines changes, the next run rebuilds "
                "the table",
            )
        out.print(rules_summary(results), style="green" if all(one.ok for one in results) else "yellow", markup=False)


def show_rules(results: Sequence[RuleTest]) -> None:
    """Print a line for each rule."""
    if results:
        grid(
            None,
            ("table", "rule", "column", "rows", "broken", "on violation", "detail"),
            [
                (
                    *(one.table, one.rule, one.column or "", f"{one.rows:,}"),
                    *("?" if one.broken is None else f"{one.broken:,}", one.on_violation, one.detail),
                )
                for one in results
            ],
            right=("rows", "broken"),
        )


def rules_summary(results: Sequence[RuleTest]) -> str:
    """Return the numbers of rules that hold, are broken and cannot be tested, as text."""
    if not results:
        return "no table has rules and rows"
    kept = sum(one.broken == 0 for one in results)
    parts = [f"{counted(kept, 'rule is', 'rules are')} kept"]
    broken, warned = (sum(one.ok is ok and bool(one.broken) for one in results) for ok in (False, None))
    untold = sum(one.broken is None for one in results)
    parts += [f"{broken:,} broken"] if broken else []
    parts += [f"{warned:,} broken that only {'warns' if warned == 1 else 'warn'}"] if warned else []
    parts += [f"{untold:,} cannot be tested"] if untold else []
    return ", ".join(parts)
