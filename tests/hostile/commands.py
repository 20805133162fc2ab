"""Hostile command lines over a declaration of tables a and b, and a lake that nothing was written to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Line:
    """A command line, the exit code it ends with, and a piece of what it says; ``HERE`` is the project's folder."""

    line: str
    code: int
    says: str
    answer: str | None = None


LINES: Final = tuple(
    Line(*row)
    for row in (
        ("nosuch", 2, "No such command"),
        ("run HERE --nosuch", 2, "No such option"),
        ("run HERE HERE", 2, "unexpected extra argument"),
        ("run NOWHERE", 2, "hint: frazil init writes one"),
        ("run HERE --select nosuch", 2, "nosuch"),
        ("run HERE --select a --select bb", 2, "hint: "),
        ("run HERE --select ''", 2, "hint: "),
        ("run HERE --select '['", 2, "hint: "),
        ("plan HERE --select '*x'", 2, "hint: "),
        ("plan HERE --select '../a'", 2, "hint: "),
        ("status HERE --select a --select", 2, "requires an argument"),
        ("watch HERE --every 0", 2, "--every"),
        ("watch HERE --every soon", 2, "--every"),
        ("watch HERE --select nosuch", 2, "nosuch"),
        ("rebuild HERE --select nosuch", 2, "nosuch"),
        ("rebuild HERE", 2, "hint: --yes answers the question", ""),
        ("rebuild HERE", 2, "hint: --yes answers the question", "perhaps\nn\n"),
        ("drop HERE", 4, "hint: make it: frazil run"),
        ("drop HERE --select nosuch", 4, "hint: make it: frazil run"),
        ("drop HERE --select '*'", 4, "hint: make it: frazil run"),
        ("maintain HERE --select nosuch", 2, "nosuch"),
        ("key a 1 --project HERE", 4, "hint: "),
        ("key nosuch 1 --project HERE", 2, "hint: "),
        ("key a 1 2 --project HERE", 2, "hint: "),
        ("key a --project HERE", 2, "Missing argument"),
        ('key a "1\'; drop table a; --" --project HERE', 4, "hint: "),
        ("query 'select * from marts.a' HERE", 4, "hint: "),
        ("query 'select * from nosuch' HERE", 4, "hint: "),
        ("check HERE", 4, "hint: make it: frazil run"),
        ("check HERE --json", 4, '"code": "FZ304"'),
        ("status HERE --json", 4, '"code": "FZ304"'),
        ("doctor NOWHERE", 0, "Java"),
        ("doctor NOWHERE --repair", 2, "hint: frazil init writes one"),
        ("init HERE", 2, "[FZ105]"),
        ("init HERE/new --from NOWHERE", 3, "[FZ2"),
        ("init HERE/new --from HERE/lake", 3, "[FZ2"),
        ("init HERE/frazil.yml", 2, "hint: "),
        ("init /proc/new", 2, "hint: "),
        ("init HERE/made/new --sample --rows -1", 2, "rows"),
        ("init HERE/made/new --sample --rows 10 --keys nosuch", 2, "nosuch"),
        ("init HERE/made/new --sample --rows 10 --late 2", 2, "shares lie from 0 to 1"),
        ("init HERE/frazil.yml --sample", 2, "hint: "),
        ("init HERE/made/new --sample --rows 0 --batches 0", 2, "rows and parts begin at 1"),
    )
)


QUERIES: Final = tuple(
    Line(*row)
    for row in (
        ("query '' HERE", 2, "FZ"),
        ("query ';' HERE", 2, "FZ"),
        ("query 'selct 1' HERE", 2, "not SQL"),
        ("query 'select 1; select 2' HERE", 2, "FZ"),
        ("query 'drop table marts.csv' HERE", 2, "a query reads"),
        ("query 'delete from marts.csv' HERE", 2, "a query reads"),
        ("query \"copy (select 1) to 'x.csv'\" HERE", 2, "a query reads"),
        ("query 'install httpfs' HERE", 2, "a query reads"),
        ("query 'set memory_limit = 0' HERE", 2, "a query reads"),
        ("query \"select * from read_csv('/etc/passwd')\" HERE", 2, "disabled by configuration"),
        ("query \"select * from '/etc/passwd'\" HERE", 2, "FZ"),
        ("query 'select * from nosuch' HERE", 2, "FZ"),
        ("query \"select error('away')\" HERE --json", 2, "away"),
        ("key csv nosuch --project HERE", 2, "FZ"),
        ("key csv 1 2 --project HERE", 2, "FZ"),
    )
)
"""The same over a lake with a mart ``csv`` that has a key ``id`` of type int."""
