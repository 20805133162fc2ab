"""What a check found, for people: table by table, what fails first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.cli.console import out
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.serve.check.finding import Finding

_RANK = {False: 0, None: 1, True: 2}
_SIGNS = {False: "WRONG", None: "?", True: "ok"}
_STYLES = {False: "red", None: "yellow", True: ""}


def show_proofs(findings: Sequence[Finding], unseen: Sequence[Finding] = ()) -> None:
    """Print the findings of each table, a line each, with a headline; last what no proof has looked at.

    Args:
        findings: the proofs.
        unseen: of tables what the proofs do not see, each with the command that looks at it.
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
                out.print(f"         hint: {one.hint}", markup=False)
        for one in unseen:
            if one.source_table == source:
                out.print(f"  {one.detail}: {one.hint}", markup=False)
        out.print()


def summary(findings: Sequence[Finding]) -> str:
    """Return in words the number of proofs that hold, that fail and that cannot be told."""
    counts = {ok: sum(finding.ok is ok for finding in findings) for ok in _RANK}
    said = [
        counted(counts[False], "proof fails", "proofs fail") if counts[False] else "",
        counted(counts[True], "proof holds", "proofs hold") if counts[True] else "",
        f"{counted(counts[None], 'proof')} cannot be told" if counts[None] else "",
    ]
    return ", ".join(filter(None, said)) or "nothing to prove"


def _texts(findings: Sequence[Finding]) -> tuple[list[str], list[str]]:
    return [finding.law for finding in findings], [finding.table for finding in findings]
