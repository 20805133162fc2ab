"""People get one message when something becomes wrong and one when it is over, from receivers at work."""

from __future__ import annotations

import json
import socket
import ssl
import time
import warnings
from threading import Event as Stop
from typing import TYPE_CHECKING, Any

import pytest
from tests.interop.receivers import Webhook, certificate, mail_server, webhook

from frazil import api
from frazil.cli.console import err, error_exit
from frazil.errors import BusyError, ContractError, Failure, FrazilError, SourceError, StorageError
from frazil.interop.notify import notify as telling
from frazil.interop.notify.message import PartVerdict, code_meaning, of_errors, of_findings, of_lags, of_run
from frazil.interop.notify.notify import Following, notified, notify, tell
from frazil.runner.report import GoldReport, RunFailedError, RunReport, TableReport
from frazil.serve.check.finding import Finding
from frazil.serve.lag import CaptureLag
from frazil.spark.session import spark_session
from frazil.spec import DmsFiles, Email, Lake, Notify, Pipeline, Table
from frazil.spec.check.check import check_declaration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.spec.model.notify import Event

HOOK = "${env:HOOK}"


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with webhook() as one:
        monkeypatch.setenv("HOOK", one.address)
        yield one


def pipeline(folder: Path, *receivers: Notify, name: str = "shop") -> Pipeline:
    tables = [
        Table(name=one, source=DmsFiles(path=(f"in/{one}",), header=True), keys=("id",)) for one in ("orders", "items")
    ]
    lake = Lake(warehouse="lake")
    return Pipeline(pipeline=name, lake=lake, tables=tuple(tables), notify=receivers).at(folder)


def ran(*errors: FrazilError, table: str = "orders", quarantined: int = 0) -> RunReport:
    """Report of a run of one table, with these errors."""
    failures = [Failure.of(table, error) for error in errors]
    outcome: Any = "failed" if errors else "done"
    done = TableReport(table=table, outcome=outcome, errors=failures, changes=1, quarantined=quarantined)
    return RunReport(pipeline="shop", run_id="01a21018-86de-7340-824a-42a22f78d9e0", tables=[done])


def told(one: Pipeline, report: RunReport) -> list[str]:
    return tell(one, "run", [*of_run(report)], run_id=report.run_id)


def test_a_cause_is_one_message_however_many_runs_have_it_and_one_when_it_is_over(
    tmp_path: Path, hook: Webhook
) -> None:
    one = pipeline(tmp_path, Notify(webhook=HOOK))

    for report in (ran(), ran(SourceError("a")), ran(SourceError("b")), ran(SourceError("c")), ran(), ran()):
        assert told(one, report) == []

    run = "more: frazil runs 42a22f78d9e0"
    assert hook.texts == [
        f"shop: orders failed: [FZ200] A source is missing, unreadable, or changes during the read.\n{run}",
        f"shop: orders recovered (FZ200 is over)\n{run}",
    ]


def test_another_error_of_a_failed_table_is_another_cause(tmp_path: Path, hook: Webhook) -> None:
    one = pipeline(tmp_path, Notify(webhook=HOOK))

    for report in (ran(SourceError("a")), ran(SourceError("a"), ContractError("b")), ran(ContractError("b")), ran()):
        told(one, report)

    assert [text.split(":")[1].strip() + text.split(":")[2][:8] for text in hook.texts[:2]] == [
        "orders failed [FZ200]",
        "orders failed [FZ400]",
    ]
    assert "orders recovered (FZ400 is over)" in hook.texts[2]
    assert len(hook.texts) == 3


def test_a_table_that_a_run_does_not_try_stays_as_it_is(tmp_path: Path, hook: Webhook) -> None:
    one = pipeline(tmp_path, Notify(webhook=HOOK))
    told(one, ran(SourceError("a")))
    left = RunReport(pipeline="shop", tables=[TableReport(table="orders")], gold=[GoldReport(name="sums")])

    told(one, left)
    told(one, ran(table="items"))
    told(one, ran(SourceError("a")))

    assert len(hook.texts) == 1


def test_tables_with_one_cause_share_a_line(tmp_path: Path, hook: Webhook) -> None:
    errors = [of_errors(f"t{number}", ["FZ200"]) for number in range(8)]

    tell(pipeline(tmp_path, Notify(webhook=HOOK)), "run", errors)

    (text,) = hook.texts
    assert text.startswith("shop: t0, t1, t2, t3, t4 and 3 more failed: [FZ200] ")


def test_messages_hold_no_values_of_rows_and_no_names_of_files(tmp_path: Path, hook: Webhook) -> None:
    hostile = "key 4711 of ada@example.org in <!channel>.csv\n*postgresql://me:word@db*"
    found = Finding(source_table="orders", law="AGREE", table="marts.orders", ok=False, detail=hostile, hint=hostile)
    one = pipeline(tmp_path, Notify(webhook=HOOK), Notify(webhook=HOOK, form="json"))

    told(one, ran(ContractError(hostile, hint=hostile), FrazilError(hostile)))
    notify(one, "check", of_findings([found]))

    assert len(hook.got) == 4
    said = json.dumps(hook.got)
    assert [word for word in ("4711", "ada@", "channel", "word", "csv") if word in said] == []
    assert "orders differs: AGREE" in said


def test_a_hostile_name_is_escaped(tmp_path: Path, hook: Webhook) -> None:
    one = pipeline(tmp_path, Notify(webhook=HOOK), name="<!channel> & co\n\x1b[31m\u202eshop")

    told(one, ran(SourceError("a")))

    assert hook.texts[0].startswith("&lt;!channel&gt; &amp; co ⟦U+001B⟧[31m⟦U+202E⟧shop: orders failed")


def test_the_form_json_has_the_events(tmp_path: Path, hook: Webhook) -> None:
    one = pipeline(tmp_path, Notify(webhook=HOOK, form="json"))

    told(one, ran(quarantined=3))

    (got,) = hook.got
    assert {name: got[name] for name in ("schema_version", "pipeline", "origin", "run_id", "events")} == {
        "schema_version": 1,
        "pipeline": "shop",
        "origin": "run",
        "run_id": "01a21018-86de-7340-824a-42a22f78d9e0",
        "events": [{"event": "quarantine", "part": "orders", "causes": ["quarantine"], "was": "quarantine", "rows": 3}],
    }


def test_a_receiver_gets_what_it_wants_by_its_own_limits(tmp_path: Path, hook: Webhook) -> None:
    wants: list[tuple[Event, ...]] = [("failed",), ("quarantine",), ("lag",)]
    receivers = [Notify(webhook=HOOK, on=on, quarantine_rows=2, lag_mb=1, lag_seconds=60) for on in wants]
    one = pipeline(tmp_path, *receivers)
    far = [CaptureLag(name="slot a", behind_bytes=2_000_000), CaptureLag(name="slot b", behind_seconds=61.0)]
    near = [CaptureLag(name="slot c", behind_bytes=900_000, behind_seconds=59.0), CaptureLag(name="slot d")]

    told(one, ran(quarantined=2))
    tell(one, "run", [*of_lags([*far, *near])])
    told(one, ran(quarantined=3))
    told(one, ran(ContractError("a"), quarantined=9))
    told(one, ran())

    assert [text.partition("\nmore")[0] for text in hook.texts] == [
        "shop: slot a is behind by 2 MB\nshop: slot b is behind by 61 s",
        "shop: orders: 3 records went to quarantine; frazil quarantine orders",
        f"shop: orders failed: [FZ400] {code_meaning('FZ400')}",
    ]


def test_a_receiver_that_refuses_is_a_warning_without_its_address_and_hears_of_it_later(
    tmp_path: Path, hook: Webhook
) -> None:
    hook.status = 404
    with webhook() as other, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTHER", other.address)
        one = pipeline(tmp_path, Notify(webhook=HOOK), Notify(webhook="${env:OTHER}"))
        refused = told(one, ran(SourceError("a")))
        hook.status = 200
        accepted = told(one, ran(SourceError("a")))

    assert refused == ["[FZ915] notify 1 (webhook): HTTP 404; it is sent the next time"]
    assert accepted == []
    assert len(hook.got) == len(other.got) == 1


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (None, "notify.webhook: ${env:HOOK} is not set"),
        ("file:///etc/passwd", "its address does not begin with https:// or http://"),
        ("http://127.0.0.1:1/s3cret", "ConnectionRefusedError"),
        ("http://127.0.0.1:1/s3 cret\n", "InvalidURL"),
    ],
)
def test_an_address_that_does_not_work_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str | None, why: str
) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    if address is not None:
        monkeypatch.setenv("HOOK", address)

    assert told(pipeline(tmp_path, Notify(webhook=HOOK)), ran(SourceError("a"))) == [
        f"[FZ915] notify 1 (webhook): {why}; it is sent the next time"
    ]


def test_a_redirect_is_not_followed(tmp_path: Path, hook: Webhook) -> None:
    with webhook() as other, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOOK", other.address)
        other.status, other.address = 302, hook.address
        warnings = told(pipeline(tmp_path, Notify(webhook=HOOK)), ran(SourceError("a")))

    assert warnings == ["[FZ915] notify 1 (webhook): HTTP 302; it is sent the next time"]
    assert hook.got == []


def test_a_silent_receiver_delays_a_run_by_its_limit_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: Webhook
) -> None:
    monkeypatch.setattr(telling, "_ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("SILENT", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        one = pipeline(tmp_path, Notify(webhook="${env:SILENT}"), Notify(webhook=HOOK))
        began = time.monotonic()
        warnings = told(one, ran(SourceError("a")))

    assert time.monotonic() - began < 5
    assert warnings == ["[FZ915] notify 1 (webhook): no answer in time; it is sent the next time"]
    assert len(hook.got) == 1


def test_mail_goes_to_everybody_with_a_title(tmp_path: Path) -> None:
    with mail_server() as heard:
        mail = Email(to=("a@b.example", "c@d.example"), sender="f@b.example", host="127.0.0.1", port=heard.port)
        one = pipeline(tmp_path, Notify(email=mail.model_copy(update={"starttls": False})), name="shop\nBcc: x@y")
        assert told(one, ran(SourceError("a"), quarantined=1)) == []

    (text,) = heard.mails
    head, _, body = text.partition("\n\n")
    assert {line for line in head.splitlines() if line[:4] in ("To: ", "Subj", "Bcc:")} == {
        "To: a@b.example, c@d.example",
        "Subject: frazil: shop Bcc: x@y: 1 failed, 1 quarantine",
    }
    assert "orders failed: [FZ200]" in body
    assert [line for line, _ in heard.commands if line.startswith("rcpt")] == [
        "rcpt TO:<a@b.example>",
        "rcpt TO:<c@d.example>",
    ]


def test_a_login_is_sent_within_tls_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    (tmp_path / "password").write_text("w0rd\n", encoding="utf-8")

    def mail(port: int) -> Notify:
        login: dict[str, Any] = {"user": "ada", "password": "${file:password}"}
        return Notify(email=Email(to=("a@b.c",), sender="f@b.c", host="localhost", port=port, **login))

    with mail_server() as plain:
        refused = told(pipeline(tmp_path, mail(plain.port)), ran(SourceError("a")))
    with mail_server(context) as heard:
        unknown = told(pipeline(tmp_path, mail(heard.port)), ran(SourceError("a")))
        monkeypatch.setenv("SSL_CERT_FILE", f"{file}")
        taken = told(pipeline(tmp_path, mail(heard.port)), ran(SourceError("a")))

    assert refused == ["[FZ915] notify 1 (email): SMTPNotSupportedError; it is sent the next time"]
    assert unknown == ["[FZ915] notify 1 (email): SSLCertVerificationError; it is sent the next time"]
    assert taken == []
    assert [line for line, _ in plain.commands if "AUTH" in line] == []
    assert [is_safe for line, is_safe in heard.commands if line.startswith("AUTH")] == [True]
    assert len(heard.mails) == 1


def test_a_run_that_cannot_begin_sends_a_message_but_a_busy_pipeline_does_not(tmp_path: Path, hook: Webhook) -> None:
    one = pipeline(tmp_path, Notify(webhook=HOOK))

    def fails(error: FrazilError) -> RunReport:
        raise error

    with pytest.raises(ValueError, match="a bug"):
        notified(pipeline(tmp_path, Notify(webhook=HOOK), name="other"), lambda: RunReport(pipeline=str(int("a bug"))))
    assert hook.got.pop(0)["text"].startswith("other: the run failed: [FZ000] An error that Frazil does not expect.")
    for error in (StorageError("a"), StorageError("b"), BusyError("c")):
        with pytest.raises(type(error)):
            notified(one, lambda error=error: fails(error))  # type: ignore[misc]
    failed = RunFailedError(ran(SourceError("a")), [SourceError("a")])
    with pytest.raises(RunFailedError):
        notified(one, lambda: fails(failed))
    notified(one, ran)

    assert [text.splitlines()[:-1] for text in hook.texts] == [
        [f"shop: the run failed: [FZ300] {code_meaning('FZ300')}"],
        [f"shop: orders failed: [FZ200] {code_meaning('FZ200')}", "shop: the run recovered (FZ300 is over)"][::-1],
        ["shop: orders recovered (FZ200 is over)"],
    ]


RUN = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: orders
    source: {kind: dms, path: ./in, header: true}
    keys: [id]
    sequence_by: [at]
    columns: [{name: id, type: int}, {name: at, type: timestamp}]
    rules: [{name: recent, freshness: {column: at, error_after: {count: 1, period: day}}}]
notify: [{webhook: "${env:HOOK}"}]
"""


@pytest.mark.spark
def test_runs_tell_failures_quarantine_and_freshness(tmp_path: Path, hook: Webhook, spark: SparkSession) -> None:
    del spark  # only there so that Java runs
    (tmp_path / "frazil.yml").write_text(RUN, encoding="utf-8")
    one = api.load(tmp_path)
    session = spark_session(one)

    for _ in range(2):
        with pytest.raises(RunFailedError):
            api.run(one, spark=session)
    (tmp_path / "in").mkdir()
    rows = "I,1,2020-01-01 00:00:00\nI,2,2020-01-01 00:00:00\nI,3,never\n"
    (tmp_path / "in" / "LOAD1.csv").write_text(f"Op,id,at\n{rows}", encoding="utf-8")
    reports = [api.run(one, spark=session) for _ in range(2)]

    assert [report.warnings for report in reports] == [[], []]
    failed, done = (text.splitlines()[:-1] for text in hook.texts)
    assert failed == [f"shop: orders failed: [FZ201] {code_meaning('FZ201')}"]
    assert done == [
        "shop: orders recovered (FZ201 is over)",
        "shop: orders: 1 record went to quarantine; frazil quarantine orders",
        "shop: orders is stale by recent",
    ]


def test_a_pipeline_without_receivers_keeps_nothing(tmp_path: Path) -> None:
    one = pipeline(tmp_path)

    assert notified(one, ran).tables[0].table == "orders"
    notify(one, "check", [])

    assert [*tmp_path.iterdir()] == []


def test_a_watch_tells_changes_and_tries_again_once_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: Webhook
) -> None:
    said: list[str] = []
    following = Following(pipeline(tmp_path, Notify(webhook=HOOK)), "run", {"orders"}, said.append)
    bad, good = of_errors("orders", ["FZ200"]), of_errors("orders", [])

    hook.status = 500
    for _ in range(3):
        following.turned([bad])
    assert said == ["[FZ915] notify 1 (webhook): HTTP 500; it is sent the next time"]
    hook.status = 200
    monkeypatch.setattr(following, "_next", 0.0)
    for verdict in (bad, bad, good, good):
        following.turned([verdict])
    following.turned([])

    assert [text.split("orders ")[1][:9] for text in hook.texts] == ["failed: [", "recovered"]


def test_a_capture_that_fails_sends_a_message(tmp_path: Path, hook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DB", "postgresql://me:hidden@127.0.0.1:1/none")
    (tmp_path / "frazil.yml").write_text(CAPTURED, encoding="utf-8")
    stop, turns = Stop(), iter(range(3))
    options = api.CaptureOptions(turned=lambda *_: stop.set() if next(turns) == 1 else None, every_seconds=0.01)

    code = api.capture(tmp_path, stop, options=options)

    assert code == 3
    (text,) = hook.texts
    assert text.startswith("shop: slot frazil of ${env:SHOP_DB} failed: [FZ210] ")
    assert "hidden" not in text


CAPTURED = """
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - {name: orders, source: {kind: postgres, url: "${env:SHOP_DB}", table: public.o, landing: ./in}, keys: [id]}
notify: [{webhook: "${env:HOOK}"}]
"""


def test_a_doctor_sends_a_test_message_if_it_shall(tmp_path: Path, hook: Webhook) -> None:
    one = pipeline(tmp_path, Notify(webhook=HOOK), Notify(webhook="${env:NOT_SET}"))

    silent = api.doctor(one)
    found = {one.what: (one.ok, one.detail) for one in api.doctor(one, notify=True) if one.what.startswith("notify")}

    assert [one for one in silent if one.what.startswith("notify")] == []
    assert found["notify 1 (webhook)"] == (True, "took a test message")
    assert found["notify 2 (webhook)"] == (False, "notify.webhook: ${env:NOT_SET} is not set")
    assert hook.texts == ["shop: a test message of frazil doctor --notify"]


def test_a_check_that_finds_differences_sends_a_message(tmp_path: Path, hook: Webhook) -> None:
    def found(ok: bool | None) -> Finding:  # noqa: FBT001
        return Finding(source_table="orders", law="AGREE", table="marts.orders", ok=ok, detail="")

    one = pipeline(tmp_path, Notify(webhook=HOOK))
    for ok in (False, None, False, True):
        notify(one, "source", of_findings([found(ok)]))

    assert hook.texts == [
        "shop: orders differs: AGREE\nmore: frazil check --source",
        "shop: orders equal again (AGREE is over)\nmore: frazil check --source",
    ]


def test_a_command_shows_a_message_that_is_not_taken_as_one_line(tmp_path: Path, hook: Webhook) -> None:
    hook.status = 500
    one = pipeline(tmp_path, Notify(webhook=HOOK))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with err.capture() as said, error_exit():
            notify(one, "check", [of_errors("orders", ["FZ200"])])

    assert said.get() == "[FZ915] notify 1 (webhook): HTTP 500; it is sent the next time\n"


def test_a_damaged_file_of_sent_messages_is_as_if_it_were_lost(tmp_path: Path, hook: Webhook) -> None:
    one = pipeline(tmp_path, Notify(webhook=HOOK))
    told(one, ran(SourceError("a")))
    (file,) = (tmp_path / "lake" / ".frazil" / "notify").iterdir()
    whole = json.loads(file.read_text(encoding="utf-8"))
    receiver = next(iter(whole))

    for text in ("", "[]", "{", json.dumps({receiver: 5}), json.dumps({receiver: {"failed": {"orders": 5}}})):
        file.write_text(text, encoding="utf-8")
        assert told(one, ran(SourceError("a"))) == []

    assert len(hook.got) == 6
    assert json.loads(file.read_text(encoding="utf-8")) == whole


def test_a_file_that_cannot_be_kept_is_a_warning(tmp_path: Path, hook: Webhook) -> None:
    one = pipeline(tmp_path, Notify(webhook=HOOK))
    for place in (tmp_path / "lake", tmp_path / ".frazil"):
        place.write_text("no folder", encoding="utf-8")

    (warning,) = told(one, ran(SourceError("a")))

    assert warning.startswith("[FZ915] the file of sent messages cannot be written: ")
    assert len(hook.got) == 1


@pytest.mark.parametrize(
    ("receiver", "says"),
    [
        ("{webhook: 'https://hooks.example/T0/word'}", "'webhook' is a secret in plain text"),
        ("{webhook: '${vault:word}'}", "'webhook' is a secret in plain text"),
        ("{form: json}", "a receiver is either a webhook or an email"),
        ("{email: {to: [a@b], sender: f@b, host: h, user: u, password: word}}", "'password' is a secret"),
        ("{email: {to: [a@b], sender: f@b, host: h, user: u}}", "a login has both user and password"),
        (
            "{email: {to: [a@b], sender: f@b, host: h, user: u, password: '${env:P}', starttls: false}}",
            "the password would travel in plain text",
        ),
        ("{email: {to: ['a@b, c@d'], sender: f@b, host: h}}", "'a@b, c@d' is not an address"),
        ("{webhook: '${env:A}', on: [broken]}", "notify"),
    ],
)
def test_a_wrong_receiver_is_named_without_its_secret(tmp_path: Path, receiver: str, says: str) -> None:
    text = CAPTURED.replace('{webhook: "${env:HOOK}"}', receiver)
    (tmp_path / "frazil.yml").write_text(text, encoding="utf-8")

    with pytest.raises(FrazilError) as raised:
        check_declaration(api.load(tmp_path))

    assert says in f"{raised.value}"
    assert "word'" not in f"{raised.value}".replace("'password'", "")


def test_the_meaning_of_an_unknown_code_is_that_it_is_unexpected() -> None:
    assert code_meaning("FZ000") == code_meaning("XX1") == "An error that Frazil does not expect."
    assert PartVerdict(event="lag", part="a").causes_for(Notify(webhook=HOOK)) == ()
