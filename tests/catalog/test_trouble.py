"""Errors of other libraries are known by their types."""

from __future__ import annotations

import errno
import sqlite3
import subprocess
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from frazil.catalog.trouble import translate_error, translated
from frazil.duck import _extension, duck_literal, open_database
from frazil.errors import FrazilError
from frazil.spark.gateway import java_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HEAP = """
import os
import signal
import sys
import frazil
from frazil.spark.session import spark_session
from frazil.catalog.trouble import translate_error
spark = spark_session(frazil.load(sys.argv[1]), memory="512m", short=True)
java = spark._jvm.java.lang.reflect.Array
for size in (1, 2, 4):
    try:
        kept = java.newInstance(spark._jvm.java.lang.Long.TYPE, size * 100_000_000)
    except Exception as error:
        print(translate_error(error))
        break
os.killpg(spark._sc._gateway.proc.pid, signal.SIGKILL)
spark._sc._gateway.proc.wait()
for work in (lambda: spark.range(3).count(), lambda: frazil.run(sys.argv[1], spark=spark)):
    try:
        work()
    except Exception as error:
        print(translate_error(error))
"""


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("SQLite's own words")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "x"), "FZ301"),
        (OSError(errno.EDQUOT, "x"), "FZ301"),
        (sqlite_error(sqlite3.SQLITE_FULL), "FZ301"),
        (PermissionError(errno.EACCES, "x"), "FZ302"),
        (OSError(errno.EROFS, "x"), "FZ302"),
        (sqlite_error(sqlite3.SQLITE_READONLY), "FZ302"),
        (sqlite_error(sqlite3.SQLITE_BUSY), "FZ303"),
        (sqlite_error(sqlite3.SQLITE_NOTADB), "FZ303"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "FZ307"),
        (TimeoutError("x"), "FZ307"),
        (MemoryError(), "FZ906"),
        (duckdb.OutOfMemoryException("x"), "FZ906"),
        (duckdb.IOException("Cannot open file '/a/marts/t/data/x=1/1.parquet'"), "FZ306"),
        (Py4JNetworkError("x"), "FZ907"),
        (FileNotFoundError(errno.ENOENT, "x"), None),
        (duckdb.IOException("x"), None),
        (ValueError("No such type"), None),
        (KeyError("CommitFailedException"), None),
    ],
)
def test_an_error_is_known_by_its_type_or_number(error: Exception, code: str | None) -> None:
    known = translate_error(error)

    assert (known.code if known else None) == code


def test_an_error_is_recognised_by_its_cause() -> None:
    error = RuntimeError("x")
    error.__cause__ = OSError(errno.ENOSPC, "y")

    with pytest.raises(FrazilError, match="FZ301"), translated():
        raise error


def test_a_bug_is_left_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError), translated():
        _ = 1 / 0


@pytest.mark.spark
@pytest.mark.parametrize(
    ("java", "words", "code"),
    [
        ("java.io.IOException", "No space left on device", "FZ301"),
        ("java.nio.file.AccessDeniedException", "/lake", "FZ302"),
        ("java.sql.SQLException", "x", "FZ303"),
        ("java.sql.SQLException", "No suitable driver found for jdbc:postgresql://db/catalog", "FZ903"),
        ("org.apache.iceberg.jdbc.UncheckedSQLException", "x", "FZ303"),
        (
            "org.apache.iceberg.exceptions.NotFoundException",
            "no file: s3://b/marts/t/metadata/1.metadata.json",
            "FZ306",
        ),
        ("org.apache.iceberg.exceptions.ForbiddenException", "x", "FZ309"),
        ("org.apache.iceberg.exceptions.NotAuthorizedException", "x", "FZ309"),
        ("org.apache.iceberg.exceptions.ServiceUnavailableException", "x", "FZ307"),
        ("java.net.ConnectException", "x", "FZ307"),
        ("java.net.SocketTimeoutException", "x", "FZ307"),
        ("java.net.BindException", "x", "FZ903"),
        ("java.lang.OutOfMemoryError", "Java heap space", "FZ906"),
        ("java.lang.IllegalStateException", "x", None),
        (
            "java.lang.IllegalArgumentException",
            "Invalid update timestamp 1: before the latest metadata log entry timestamp 9",
            "FZ311",
        ),
        (
            "org.apache.iceberg.exceptions.BadRequestException",
            "Malformed request: invalid metadata: invalid update timestamp 1: before last snapshot log entry at 9",
            "FZ311",
        ),
        ("java.lang.IllegalStateException", "Cannot call methods on a stopped SparkContext.", "FZ907"),
    ],
)
def test_an_error_of_java_is_known_by_its_class(spark: SparkSession, java: str, words: str, code: str | None) -> None:
    jvm = spark._jvm
    assert jvm
    kind = getattr(jvm, java)
    # Iceberg's take a format and its arguments.
    cause = kind(words, spark._sc._gateway.new_array(jvm.Object, 0)) if "iceberg" in java else kind(words)  # type: ignore[union-attr]

    with pytest.raises(Exception, match=java) as caught:
        jvm.java.util.concurrent.CompletableFuture.failedFuture(cause).join()

    known = translate_error(caught.value)
    assert (known.code if known else None) == code


@pytest.mark.spark
@pytest.mark.parametrize("ask", [java_table, SparkSession.table], ids=["by Iceberg", "by Spark"])
def test_a_catalog_that_spark_cannot_load_is_away(ask: Callable[[SparkSession, str], Any], spark: SparkSession) -> None:
    """Iceberg takes the name of such a catalog for a namespace of Spark's own."""
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.away", "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set("spark.sql.catalog.away.type", "rest")
    session.conf.set("spark.sql.catalog.away.uri", "http://127.0.0.1:1")

    with pytest.raises(Exception, match=r"RESTException|single-part") as caught:
        ask(session, "away.silver.t")

    known = translate_error(caught.value)
    assert known is not None
    assert (known.code in {"FZ303", "FZ307"}, known.retryable) == (True, True)


class _Answers(BaseHTTPRequestHandler):
    """A store that gives one answer to everything."""

    status = HTTPStatus.NOT_FOUND

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def store() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def asked(port: int) -> str | None:
    """Return the code of what DuckDB says of a file that a store has."""
    connection = open_database({}, {})
    connection.execute(f"LOAD {duck_literal(str(_extension('httpfs')))}")
    file = f"http://127.0.0.1:{port}/lake/marts/t/metadata/snap-1.avro"
    try:
        connection.execute("SELECT * FROM read_avro(?)", [file])
    except duckdb.Error as error:
        known = translate_error(error)
        return known.code if known else None
    return ""


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (HTTPStatus.NOT_FOUND, "FZ306"),
        (HTTPStatus.INTERNAL_SERVER_ERROR, "FZ307"),
        (HTTPStatus.SERVICE_UNAVAILABLE, "FZ307"),
    ],
)
def test_a_table_is_damaged_only_where_the_store_says_that_a_file_is_not_there(
    store: ThreadingHTTPServer, status: HTTPStatus, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Answers, "status", status)

    assert asked(store.server_port) == code


def test_a_store_that_does_not_answer_damages_nothing(store: ThreadingHTTPServer) -> None:
    store.shutdown()
    store.server_close()

    assert asked(store.server_port) == "FZ307"


@pytest.mark.fault
def test_a_too_small_heap_and_a_killed_java_have_errors(tmp_path: Path) -> None:
    (tmp_path / "frazil.yml").write_text(
        "pipeline: shop\nlake: {warehouse: ./lake}\ntables:\n"
        "  - {name: t, source: {kind: dms, path: ./landing}, keys: [id], columns: [{name: id, type: int}]}\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", HEAP, tmp_path], capture_output=True, text=True, timeout=300, check=False
    )

    assert "[FZ906] Java needs more memory" in done.stdout, done.stderr
    assert "FRAZIL_DRIVER_MEMORY" in done.stdout
    assert "[FZ907] Java has ended" in done.stdout, done.stderr
    assert "[FZ903] Java has ended, and with it every session of this process" in done.stdout, done.stderr
