"""From changes in PostgreSQL to a current table: every way takes its turns on a server of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psycopg

from bench.capture_way import TABLE, TOTALS
from bench.capture_ways import WAYS
from bench.data import BUILD, ROOT
from bench.meter import Meter
from bench.process import Watch, WorkerFailedError
from bench.turns import labels_of
from frazil.testing.postgres import postgres_server

if TYPE_CHECKING:
    from bench.cases import Case, Work
    from bench.turns import Manner

    Row = dict[str, Any]

_INSERT: Final = """\
INSERT INTO orders SELECT g, g %% 997, 'new', (g %% 10000) / 100.0, 'note for order ' || g, now(),
    jsonb_build_object('items', g %% 7, 'sku', md5(g::text)) FROM generate_series(%s::bigint, %s::bigint) AS g"""
_UPDATE: Final = """\
UPDATE orders SET status = 'paid', amount = amount + 1, updated_at = now()
    WHERE id IN (SELECT id FROM orders ORDER BY md5(id || %s::text) LIMIT %s)"""
_DELETE: Final = "DELETE FROM orders WHERE id IN (SELECT id FROM orders ORDER BY md5(%s::text || id) LIMIT %s)"


def capture(plan: Work, case: Case, manner: Manner) -> list[Row]:
    """Run one case: a tenth of the changes are deletes, a fifth inserts, the rest updates, keys all over the table.

    CPU seconds count the way's own processes, without the server, from before the changes are made until its table has
    them. There are no wall seconds: some ways work while the changes are made.
    """
    rows: list[Row] = []
    failed: set[str] = set()
    for number in range(plan.rounds):
        for name in case.contenders if number % 2 == 0 else case.contenders[::-1]:
            labels = labels_of(case) | {"contender": name, "round": number}
            if name in failed:
                continue
            try:
                turn = _turn(name, plan, case)
            except WorkerFailedError as error:
                failed.add(name)
                rows = [row for row in rows if row["contender"] != name]
                rows.append(labels | {"phase": "failed", "error": f"{error}"[:200], "right": False})
                manner.say(f"  {name}: FAILED: {error}")
                continue
            rows += [labels | row for row in turn]
            each = ", ".join(f"{row['cpu_s']:.2f}" for row in turn)
            manner.say(f"  {number + 1}/{plan.rounds} · {name}: {each} CPU s, right: {turn[0]['right']}")
    return rows


def _turn(name: str, plan: Work, case: Case) -> list[Row]:
    home = BUILD / "homes" / name
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    log = BUILD / "logs" / f"{name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        postgres_server() as server,
        log.open("wb") as sink,
        psycopg.connect(server.url, autocommit=True) as session,
    ):
        session.execute(TABLE)
        session.execute(_INSERT, (1, case.rows))
        command = [sys.executable, "-m", "bench.capture", name, f"{home}", server.url, plan.heap]
        # Debezium's engine writes a log where it works.
        seen = os.environ | {"PYTHONPATH": f"{ROOT}"}
        worker = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink, cwd=home, env=seen, text=True
        )
        watch = Watch(worker.pid)
        try:
            rows = _batches(worker, watch, session, (plan, case))
        finally:
            worker.kill()
            worker.wait()
            watch.end()
    shutil.rmtree(home, ignore_errors=True)
    return rows


def _batches(worker: Any, watch: Watch, session: Any, what: tuple[Work, Case]) -> list[Row]:
    plan, case = what
    _ask(worker, "open")
    rows: list[Row] = []
    for number in range(-plan.warm, plan.batches):
        watch.phase = f"{number}"
        _ask(worker, "begin")
        _change(session, case.rows, number + plan.warm, case.changes)
        row = _ask(worker, f"apply {case.changes}")
        if number >= 0:
            peak = watch.peak_bytes[f"{number}"]
            rows.append({"phase": "apply", "batch": number, "peak_bytes": peak, **row})
    [wanted] = session.execute(f"SELECT {TOTALS} FROM orders").fetchall()
    found = _ask(worker, "totals")
    right = found == [*map(str, wanted)]
    return [row | {"right": right} for row in rows]


def _change(session: Any, rows: int, number: int, changes: int) -> None:
    inserts, deletes = changes // 5, changes // 10
    first = rows + number * inserts + 1
    session.execute(_INSERT, (first, first + inserts - 1))
    session.execute(_UPDATE, (f"{number}", changes - inserts - deletes))
    session.execute(_DELETE, (f"{number}", deletes))


def _ask(worker: Any, word: str) -> Any:
    try:
        worker.stdin.write(f"{word}\n")
        worker.stdin.flush()
    except BrokenPipeError:
        raise WorkerFailedError(f"ended before {word}; its log says why") from None
    # What libraries print comes in between.
    for line in worker.stdout:
        if line.startswith("answer "):
            return json.loads(line.removeprefix("answer "))
    raise WorkerFailedError(f"ended in {word}; its log says why")


def _serve(name: str, home: str, url: str, heap: str) -> None:
    """Do what the parent asks for, in a process of its own."""
    way = WAYS[name](Path(home), url, heap)
    meter = Meter()
    for line in sys.stdin:
        word, _, given = line.strip().partition(" ")
        answer: Any = None
        match word:
            case "open":
                way.open()
            case "begin":
                meter.__enter__()
            case "apply":
                way.apply(int(given))
                meter.__exit__(None, None, None)
                values = meter.reading.as_values()
                # The server works beside it, so what others took says nothing.
                answer = {field: values[field] for field in ("cpu_s", "compile_s", "tasks_s") if field in values}
            case _:
                answer = way.totals()
        print(f"answer {json.dumps(answer)}", flush=True)


if __name__ == "__main__":
    _serve(*sys.argv[1:5])
