"""The shop with all that reads and drives it, on one machine: PostgreSQL, S3, the lake, Trino, Airflow and dbt.

``make up`` starts it, ``make down`` stops it; servers listen on 127.0.0.1 only, and everything is in build/up.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
from examples.shop.shop import ORDERS, insert, trade
from faker import Faker

from frazil import api
from frazil.errors import FrazilError
from frazil.testing.postgres import PostgresServer, find_programs
from frazil.testing.s3 import S3Server

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
HERE, SHOP = ROOT / "examples" / "stack", ROOT / "examples" / "shop"
UP = Path(os.environ.get("STACK_FOLDER") or ROOT / "build" / "up").resolve()
DAGS, LOGS, PIDS, ENV = UP / "dags", UP / "logs", UP / "pids.json", UP / "env"
PORTS = {"postgres": 5442, "s3": 8333, "trino": 8080, "airflow": 8081}
PORTS |= {name: int(text) for name in PORTS if (text := os.environ.get(f"{name.upper()}_PORT"))}
S3_PORTS = 5
LOCAL_LAKE = "lake: {warehouse: ./lake}\n"
LAKE = f"""\
lake:
  warehouse: s3://shop/lake
  catalog:
    type: jdbc
    uri: jdbc:postgresql://127.0.0.1:{PORTS["postgres"]}/catalog
    user: postgres
    password: ${{env:LAKE_PASSWORD}}
stores:
  s3://shop:
    endpoint: http://127.0.0.1:{PORTS["s3"]}
    region: us-east-1
    access_key_id: ${{env:LAKE_KEY_ID}}
    secret_access_key: ${{env:LAKE_SECRET}}
"""
ORDERS_AT_FIRST, START_SECONDS, STOP_SECONDS = 2_000, 600, 20
AIRFLOW_PARTS = {
    "airflow api-server": ["api-server", "--host", "127.0.0.1", "--port", f"{PORTS['airflow']}", "--workers", "1"],
    # Their log servers listen on all addresses; on one machine the page reads the files.
    "airflow scheduler": ["scheduler", "--skip-serve-logs"],
    "airflow triggerer": ["triggerer", "--skip-serve-logs"],
    "airflow dag-processor": ["dag-processor"],
}


def up() -> None:
    """Start what does not run, and print where it answers."""
    if running():
        say("it runs already; make down stops it")
        return
    began = time.monotonic()
    for name, first in PORTS.items():
        for port in range(first, first + (S3_PORTS if name == "s3" else 1)):
            if answers(port):
                sys.exit(f"port {port} of 127.0.0.1 is in use: make up {name.upper()}_PORT=…")
    copy_files()
    try:
        environment = settings(start_database(), start_store())
        say("the lake: first run")
        call([BIN / "frazil", "run", DAGS / "shop"], environment)
        start_servers(environment)
        say("dbt: first build")
        call(
            [BIN / "frazil", "export", "dbt", DAGS / "shop", "--to", DAGS / "dbt" / "models" / "sources.yml"],
            environment,
        )
        call(dbt_build(), environment)
    except BaseException:
        down()
        raise
    say(f"all of it is up after {time.monotonic() - began:.0f} s")
    tell()


def down() -> None:
    """Stop what runs, tasks at work too, S3 and PostgreSQL last. What they hold stays in build/up."""
    found = running()
    say(f"stopping {', '.join(found)}" if found else "nothing runs")
    last = [process for name in ("s3", "postgres") if (process := found.pop(name, None))]
    stop([one for process in found.values() for one in family(process)], signal.SIGTERM)
    stop(last, signal.SIGINT)
    PIDS.unlink(missing_ok=True)


def family(process: psutil.Process) -> list[psutil.Process]:
    """Return a process and all that it has started."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def stop(processes: list[psutil.Process], how: signal.Signals) -> None:
    """Send a signal to processes, and wait; kill those that do not end."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(how)
    _, left = psutil.wait_procs(processes, timeout=STOP_SECONDS)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def generate_data() -> None:
    """Take new orders in the database, change some, delete some."""
    with shop() as connection:
        highest = connection.execute("SELECT max(order_id) FROM public.orders").fetchone()
        if highest and highest[0]:
            trade(connection, Faker(), highest[0])
        else:
            insert(connection, Faker(), 1, ORDERS_AT_FIRST)
        say_counts(connection)


def truncate() -> None:
    """Empty the table of orders; the audit log has that as one event."""
    with shop() as connection:
        connection.execute("TRUNCATE public.orders")
        say_counts(connection)


def copy_files() -> None:
    """Put DAGs, declaration and dbt project where the servers read them; what they hold from before stays."""
    for folder in (DAGS / "shop", LOGS):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(SHOP / "dag.py", DAGS / "shop")
    begins, _, ends = (SHOP / "frazil.yml").read_text(encoding="utf-8").partition(LOCAL_LAKE)
    (DAGS / "shop" / "frazil.yml").write_text(f"{begins}{LAKE}{ends}", encoding="utf-8")
    shutil.copy(HERE / "reports.py", DAGS)
    shutil.copytree(HERE / "dbt", DAGS / "dbt", dirs_exist_ok=True)


def start_database() -> PostgresServer:
    """Start PostgreSQL with orders and their audit log, and the database of the lake's catalog."""
    say("PostgreSQL")
    folder, programs = UP / "postgres", find_programs()[0]
    server = PostgresServer(programs, folder, {}, port=PORTS["postgres"])
    is_new = not server.data.is_dir()
    if is_new:
        folder.mkdir(parents=True, exist_ok=True)
        server.create()
    else:
        server.password = (folder / "password").read_text(encoding="utf-8")
    server.start()
    remember("postgres", server.pid or 0)
    with shop() as connection:
        if not connection.execute("SELECT FROM pg_database WHERE datname = 'catalog'").rowcount:
            connection.execute("CREATE DATABASE catalog")
        if is_new:
            connection.execute(ORDERS)
            connection.execute(api.audit_trigger("public.audit_log_dml", ["public.orders"]))
            insert(connection, Faker(), 1, ORDERS_AT_FIRST)
    return server


def start_store() -> S3Server:
    """Start the object store, with the bucket of the lake."""
    say("S3")
    folder, port = UP / "s3", PORTS["s3"]
    server = S3Server(folder, port, port + 1, (port + 2, port + 3, port + 4))
    folder.mkdir(exist_ok=True)
    server.start()
    remember("s3", server.pid or 0)
    server.make_bucket("shop")
    return server


def settings(database: PostgresServer, store: S3Server) -> dict[str, str]:
    """Return the environment of everything that is started; what a shell needs of it is in build/up/env."""
    declared = {
        "SHOP_DB": database.url,
        "LAKE_PASSWORD": database.password,
        "LAKE_KEY_ID": store.access_key_id,
        "LAKE_SECRET": store.secret_access_key,
    }
    ENV.touch(mode=0o600)
    ENV.write_text("".join(f"export {name}={shlex.quote(text)}\n" for name, text in declared.items()), encoding="utf-8")
    return {
        **os.environ,
        **declared,
        "PATH": os.pathsep.join([f"{BIN}", f"{AIRFLOW}", os.environ["PATH"]]),
        "AIRFLOW_CONN_SHOP": database.url,
        "TRINO_PORT": f"{PORTS['trino']}",
        "DBT": f"{DBT}",
        "AIRFLOW_HOME": f"{UP / 'airflow'}",
        "AIRFLOW__CORE__DAGS_FOLDER": f"{DAGS}",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{PORTS['airflow']}/execution/",
        "AIRFLOW__API__PORT": f"{PORTS['airflow']}",
    }


def start_servers(environment: dict[str, str]) -> None:
    """Start Trino and Airflow side by side, and wait until both answer and Airflow has read the DAGs."""
    say("Trino and Airflow")
    start("trino", [BIN / "frazil", "serve", "trino", DAGS / "shop", "--port", f"{PORTS['trino']}"], environment)
    call([AIRFLOW / "airflow", "db", "migrate"], environment)
    for name, words in AIRFLOW_PARTS.items():
        start(name, [AIRFLOW / "airflow", *words], environment)
    wait_for("airflow api-server", lambda: airflow("/dags/shop") and airflow("/dags/shop_reports"))
    wait_for("trino", lambda: "answers" in (LOGS / "trino.log").read_text(encoding="utf-8", errors="replace"))


def start(name: str, words: list[Any], environment: dict[str, str]) -> None:
    """Start a server that outlives this process, with a log of its own."""
    with (LOGS / f"{name.replace(' ', '-')}.log").open("wb") as log:
        process = subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    remember(name, process.pid)


def call(words: list[Any], environment: dict[str, str]) -> None:
    """Run a command to its end; if it fails, show what it said and stop."""
    ended = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"{Path(words[0]).name} {words[1]} failed:\n{ended.stdout}{ended.stderr}")


def dbt_build() -> list[Any]:
    """Return the command that builds the reports."""
    return [DBT, "build", "--project-dir", DAGS / "dbt", "--profiles-dir", DAGS / "dbt"]


def remember(name: str, pid: int) -> None:
    """Write down a process, with when it began: another one may have its number later."""
    known = json.loads(PIDS.read_text(encoding="utf-8")) if PIDS.exists() else {}
    PIDS.write_text(json.dumps({**known, name: [pid, psutil.Process(pid).create_time()]}), encoding="utf-8")


def running() -> dict[str, psutil.Process]:
    """Return the processes that this script started and that still run, in the order of their start."""
    known = json.loads(PIDS.read_text(encoding="utf-8")) if PIDS.exists() else {}
    found = {}
    for name, (pid, began) in known.items():
        with suppress(psutil.NoSuchProcess):
            if (process := psutil.Process(pid)).create_time() == began:
                found[name] = process
    return found


def wait_for(name: str, is_there: Callable[[], Any]) -> None:
    """Wait until a server answers; if it ends before, or never does, show the end of its log and stop."""
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends and name in running() and running()[name].status() != psutil.STATUS_ZOMBIE:
        with suppress(OSError):
            if is_there():
                return
        time.sleep(0.5)
    log = (LOGS / f"{name.replace(' ', '-')}.log").read_text(encoding="utf-8", errors="replace")
    sys.exit(f"{name} does not answer; the end of its log:\n{log[-3000:]}")


def airflow(path: str) -> Any:
    """Return what Airflow's API has at a path."""
    place = f"http://127.0.0.1:{PORTS['airflow']}"
    with urllib.request.urlopen(f"{place}/auth/token", timeout=60) as answer:  # noqa: S310
        token = json.load(answer)["access_token"]
    request = urllib.request.Request(f"{place}/api/v2{path}", headers={"Authorization": f"Bearer {token}"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        return json.load(answer)


def answers(port: int) -> bool:
    """Return whether something listens on a port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def shop() -> psycopg.Connection[Any]:
    """Connect to the database of the shop."""
    password = UP / "postgres" / "password"
    if "postgres" not in running():
        sys.exit("nothing runs: make up")
    words = password.read_text(encoding="utf-8")
    return psycopg.connect(f"postgresql://postgres:{words}@127.0.0.1:{PORTS['postgres']}/postgres", autocommit=True)


def say_counts(connection: psycopg.Connection[Any]) -> None:
    """Print how many orders and events of the log there are."""
    counted = connection.execute("SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM audit_log_dml)")
    orders, events = counted.fetchone() or (0, 0)
    say(f"{orders:,} orders, {events:,} events in the audit log; the DAG shop takes them within five minutes")


def tell() -> None:
    """Print where everything answers, and what to click."""
    say(f"""
Airflow     http://127.0.0.1:{PORTS["airflow"]}/      no login. Dags > shop > Trigger starts a run now
            http://127.0.0.1:{PORTS["airflow"]}/dags/shop_reports   waits for new orders and calls dbt
Trino       http://127.0.0.1:{PORTS["trino"]}/ui/   any user name, no password: the queries that run
            jdbc:trino://127.0.0.1:{PORTS["trino"]}/lake   SELECT * FROM lake.gold.revenue_by_day
PostgreSQL  127.0.0.1:{PORTS["postgres"]}   user postgres, password in {UP / "postgres" / "password"}
The lake    s3://shop/lake at 127.0.0.1:{PORTS["s3"]}; its catalog is a database of that PostgreSQL
            . {ENV} && {BIN / "frazil"} status {DAGS / "shop"}
Logs        {LOGS}

make generate-data   changes orders in PostgreSQL; then trigger shop in Airflow, and ask Trino again
make truncate        empties the table
make down            stops everything; make up goes on from there. rm -r {UP} forgets it""")


def say(text: str) -> None:
    """Print a line."""
    print(text, flush=True)  # noqa: T201


BIN = Path(sys.executable).parent
AIRFLOW, DBT = ROOT / ".venv-airflow" / "bin", ROOT / ".venv-dbt" / "bin" / "dbt"
VERBS = {"up": up, "down": down, "generate-data": generate_data, "truncate": truncate}

if __name__ == "__main__":
    try:
        VERBS[sys.argv[1]]()
    except FrazilError as error:
        sys.exit(f"{error}")
