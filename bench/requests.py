"""How many requests of S3 a batch takes: ``python -m bench.requests [batches] [rows]``.

A thousand changes a batch go into a current mart, one with soft deletes, and a history, on a lake in SeaweedFS with its
catalog on the local disk. A proxy between the two counts. A run with nothing to do follows each batch that is shown.
"""

from __future__ import annotations

import http.client
import json
import statistics
import sys
import tempfile
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import frazil
from bench.meter import Meter
from bench.partial import Writer
from frazil.errors import FrazilError
from frazil.spark.session import spark_session
from frazil.testing.s3 import s3_server

if TYPE_CHECKING:
    from collections.abc import Iterator

CHANGES: Final = 1_000
_SHOWN: Final = frozenset({1, 2, 5, 10, 11, 20, 50, 99, 100})
_KINDS: Final = (
    (".metadata.json", "metadata file"),
    ("/snap-", "list of manifests"),
    (".avro", "manifest"),
    (".parquet", "data file"),
    (".puffin", "data file"),
)
"""Part of a key -> what a request is about."""


class Counts:
    """Counts requests, by method and by what they are about."""

    def __init__(self) -> None:
        self._lock, self._found = threading.Lock(), Counter[tuple[str, str]]()

    def add(self, method: str, path: str) -> None:
        """Count one request."""
        kind = next((kind for part, kind in _KINDS if part in urlsplit(path).path), "other")
        with self._lock:
            self._found[method, kind] += 1

    def take(self) -> Counter[tuple[str, str]]:
        """Return the counts since the last time."""
        with self._lock:
            found, self._found = self._found, Counter()
        return found


@contextmanager
def counting(port: int, counts: Counts) -> Iterator[str]:
    """Hand requests on to a server while the block runs, and count them; gives the address that takes them."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            counts.add(self.command, self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            # A connection of its own: the store signs for the host that the client asked, so headers stay as they are.
            behind = http.client.HTTPConnection("127.0.0.1", port)
            behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, text in self.headers.items():
                if name.lower() not in {"connection", "expect"}:
                    behind.putheader(name, text)
            behind.endheaders(body or None)
            answer = behind.getresponse()
            found = answer.read()
            self.send_response_only(answer.status, answer.reason)
            for name, text in answer.getheaders():
                if name.lower() not in {"connection", "transfer-encoding", "content-length"}:
                    self.send_header(name, text)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else f"{len(found)}"
            if length is not None:
                self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(found)
            behind.close()

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Say nothing: clients end connections that they do not need as they like."""

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def main(batches: int, rows: int) -> None:
    """Apply batch after batch, and print what some of them took."""
    counts = Counts()
    with (
        tempfile.TemporaryDirectory(prefix="frazil-requests-") as name,
        s3_server() as store,
        counting(store.port, counts) as endpoint,
    ):
        folder, drawn = Path(name), Random(1)
        store.make_bucket("lake")
        (folder / "secret").write_text(store.secret_access_key, encoding="ascii")
        login = {"access_key_id": store.access_key_id, "secret_access_key": "${file:secret}"}
        declared = {
            "pipeline": "shop",
            "lake": {
                "warehouse": "s3://lake/shop",
                "catalog": {"type": "jdbc", "uri": f"jdbc:sqlite:{folder}/lake.db"},
            },
            "stores": {"s3://lake": {"endpoint": endpoint, "region": "us-east-1", **login}},
            "tables": [_TABLE],
        }
        (folder / "frazil.yml").write_text(json.dumps(declared), encoding="utf-8")
        writer = Writer(folder / "landing")
        writer.write("I", range(rows))
        pipeline = frazil.load(folder)
        spark = spark_session(pipeline)
        frazil.run(pipeline, spark=spark)
        print(f"{CHANGES:,} changes a batch, three marts of {rows:,} rows", flush=True)
        all_took = list[int]()
        for number in range(1, batches + 1):
            writer.write("U", drawn.sample(range(rows), CHANGES))
            counts.take()
            with Meter() as meter:
                report = frazil.run(pipeline, spark=spark)
            took = counts.take()
            all_took.append(took.total())
            if report.exit_code:
                raise FrazilError(f"batch {number} failed: {report}")
            if number in _SHOWN:
                frazil.run(pipeline, spark=spark)
                reading, idle = meter.reading, counts.take().total()
                print(f"batch {number}: {took.total()} requests, {reading.wall_s:.1f} s ({reading.cpu_s:.1f} s of CPU)")
                for (method, kind), count in sorted(took.items(), key=lambda one: (one[0][1], one[0][0])):
                    print(f"    {count:4} {method:6} {kind}")
                print(f"    and {idle} requests of an idle run after it", flush=True)
        mean, most = statistics.mean(all_took), max(all_took)
        print(f"{batches} batches: {mean:.0f} requests on average, {most} at most, where files are merged")
        spark.stop()


_TABLE: Final = {
    "name": "orders",
    "source": {"kind": "dms", "path": "./landing", "header": True},
    "keys": ["order_id"],
    "sequence_by": ["updated_at"],
    "columns": [
        {"name": "order_id", "type": "bigint"},
        {"name": "updated_at", "type": "timestamp"},
        {"name": "customer_id", "type": "int"},
        {"name": "status"},
        {"name": "amount", "type": "decimal(12,2)"},
        {"name": "paid", "type": "boolean"},
        {"name": "note"},
        {"name": "address"},
    ],
    "marts": [{"kind": "current"}, {"kind": "current", "deletes": "soft", "name": "orders_soft"}, {"kind": "history"}],
}


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    main(*given, *(12, 100_000)[len(given) :])
