"""Tell people what became wrong and what is over, without failing or holding up the work that found it.

Records of runs alone would not do. They know nothing of captures, lags and checks, of runs that never began, or of a
message that its receiver did not take. A file that is lost costs one message more for each cause that stands.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import smtplib
import ssl
import time
import warnings
from contextlib import suppress
from dataclasses import replace
from email.message import EmailMessage
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import frazil
from frazil.audit.run_files import files_places, write_file
from frazil.errors import BusyError, FrazilError, FrazilWarning, SetupError, StorageError
from frazil.interop.notify.message import (
    News,
    NotifyMessage,
    PartVerdict,
    of_comparisons,
    of_errors,
    of_freshness,
    of_lags,
    of_marks,
    of_run,
)
from frazil.runner.report import RunFailedError
from frazil.spec.model.notify import TLS_PORT
from frazil.spec.secrets import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from pathlib import Path

    from frazil.runner.options import CaptureOptions, WatchOptions
    from frazil.runner.report import RunReport, VerifyReport
    from frazil.sources.capture import Landed
    from frazil.spec import Notify, Pipeline
    from frazil.spec.model.notify import Email, Event


_SECONDS: Final = 10.0
"""A run waits so long for its messages, all together."""
_ANSWER_SECONDS: Final = 8.0
"""Receivers get so much of it."""
_LOOK_SECONDS: Final = 60.0
"""So often a process that follows a source asks how far it is behind, and tries again what was not taken."""


def notified(pipeline: Pipeline, work: Callable[[], RunReport]) -> RunReport:
    """Run, and tell the receivers of the declaration; a message that is not taken is a warning of the report.

    Raises:
        FrazilError: as the run raises it.
    """
    if not pipeline.notify:
        return work()
    try:
        report = work()
    except RunFailedError as error:
        _tell_run(pipeline, error.report)
        raise
    except BusyError:
        raise  # another run does the work, and tells
    except Exception as error:
        notify(pipeline, "run", [of_errors("", [_code(error)])])
        raise
    _tell_run(pipeline, report)
    return report


def notify(pipeline: Pipeline, origin: str, verdicts: Iterable[PartVerdict]) -> None:
    """Send the findings of other work than a run; a message that is not taken is a :class:`FrazilWarning`."""
    if pipeline.notify:
        for text in tell(pipeline, origin, [*verdicts]):
            warnings.warn(text, FrazilWarning, stacklevel=3)


def notified_following(pipeline: Pipeline, origin: str, work: Callable[[], int]) -> int:
    """Follow a source, and tell the receivers if it ends by an error.

    Raises:
        FrazilError: as the work raises it.
    """
    try:
        return work()
    except Exception as error:
        notify(pipeline, origin, [of_errors("", [_code(error)])])
        raise


def _code(error: Exception) -> str:
    return error.code if isinstance(error, FrazilError) else FrazilError.code


def notified_watch(pipeline: Pipeline, options: WatchOptions, names: Collection[str]) -> WatchOptions:
    """Return options with which a watch of some tables tells the receivers."""
    if not pipeline.notify:
        return options
    following = Following(pipeline, "run", names, options.tell)

    def turned(found: RunReport | FrazilError | None) -> None:
        options.turned(found)
        if isinstance(found, FrazilError):
            following.turned([] if isinstance(found, BusyError) else [of_errors("", [found.code])])
        else:
            following.turned([] if found is None else of_run(found), "" if found is None else found.run_id)

    return replace(options, turned=turned)


def notified_capture(pipeline: Pipeline, options: CaptureOptions, names: Collection[str]) -> CaptureOptions:
    """Return options with which a capture of some tables tells the receivers."""
    if not pipeline.notify:
        return options
    following = Following(pipeline, "capture", names, lambda text: options.tell(pipeline.pipeline, text))

    def turned(name: str, landed: Landed, errors: Sequence[FrazilError]) -> None:
        options.turned(name, landed, errors)
        following.turned([of_errors("", ()), of_errors(name, [error.code for error in errors])])

    return replace(options, turned=turned)


def _tell_run(pipeline: Pipeline, report: RunReport) -> None:
    names = {table.table for table in report.tables if table.outcome != "not started"}
    verdicts = [*of_run(report), *looked(pipeline, names)]
    report.warnings += tell(pipeline, "run", verdicts, run_id=report.run_id)
    report.warnings += tell_verified(pipeline, report.verified)


def tell_verified(pipeline: Pipeline, reports: Sequence[VerifyReport]) -> list[str]:
    """Send what comparisons with sources found, as ``frazil check --source`` does, see :func:`tell`.

    Cost: nothing without ``verify``; else reads two small files.
    """
    if pipeline.verify is None or not pipeline.notify:
        return []
    from frazil.serve.checks import last_checks  # noqa: PLC0415 - PyArrow comes with it

    return tell(pipeline, "source", [*of_comparisons(reports), *of_marks(pipeline, last_checks(pipeline))])


def looked(pipeline: Pipeline, names: Collection[str]) -> list[PartVerdict]:
    """Return how far captures are behind and how old marts are, if a receiver wants to know; never raise.

    Cost: five seconds if servers do not answer; nothing without captures and rules on freshness.
    """
    from frazil.serve.check.rules import test_freshness  # noqa: PLC0415 - DuckDB takes time to import
    from frazil.serve.lag import Lags  # noqa: PLC0415

    wanted, found = {event for one in pipeline.notify for event in one.on}, list[PartVerdict]()
    if "lag" in wanted:
        with suppress(Exception):
            found += of_lags(Lags(pipeline, names).all())
    if "stale" in wanted:
        with suppress(Exception):
            found += of_freshness(pipeline, test_freshness(pipeline, names, now=dt.datetime.now(dt.UTC)))
    return found


def tell(pipeline: Pipeline, origin: str, verdicts: Sequence[PartVerdict], *, run_id: str = "") -> list[str]:
    """Send each receiver what it does not know yet.

    Args:
        pipeline: the declaration.
        origin: the work that found the verdicts; each has a memory of its own.
        verdicts: what is known now. Parts that are not among them stay as they are.
        run_id: id of the run; empty without a run.

    Returns:
        A sentence for each message that was not taken. It never raises, and takes ten seconds at most.
    """
    telling = _Telling(pipeline, origin, verdicts, run_id)
    telling.start()
    telling.join(_SECONDS)
    return telling.warnings()


def trial(pipeline: Pipeline) -> list[tuple[str, str | None]]:
    """Send every receiver a test message; return their names, each with why it failed, or None."""
    message = NotifyMessage(pipeline=pipeline.pipeline, origin="doctor", run_id="", is_test=True)
    sending = [_Sending(number, one, message, pipeline) for number, one in enumerate(pipeline.notify, 1)]
    return [(one.name, one.trouble) for one in _done(sending)]


class Following:
    """Sends the findings of a process that runs for long: at each change, and else once a minute.

    Args:
        pipeline: the declaration.
        origin: as for :func:`tell`.
        names: source tables that it follows.
        say: called with what did not work.
    """

    def __init__(self, pipeline: Pipeline, origin: str, names: Collection[str], say: Callable[[str], None]) -> None:
        self._pipeline, self._origin, self._names, self._say = pipeline, origin, names, say
        self._known: dict[tuple[Event, str], PartVerdict] = {}
        self._is_left, self._next = False, 0.0

    def turned(self, verdicts: Iterable[PartVerdict], run_id: str = "") -> None:
        """Take what a turn found; without verdicts, only see whether a minute has passed."""
        new = {(one.event, one.part): one for one in verdicts}
        is_due = time.monotonic() >= self._next
        has_news = any(self._known.get(name) != one for name, one in new.items())
        self._known |= new
        if not is_due and (self._is_left or not has_news):
            return
        if is_due:
            self._known |= {(one.event, one.part): one for one in looked(self._pipeline, self._names)}
            self._next = time.monotonic() + _LOOK_SECONDS
        troubles = tell(self._pipeline, self._origin, [*self._known.values()], run_id=run_id)
        self._is_left = bool(troubles)
        for text in troubles:
            self._say(text)


class _Sending(Thread):
    """Sends one message. The process may end while a receiver is silent."""

    def __init__(self, number: int, receiver: Notify, message: NotifyMessage, pipeline: Pipeline) -> None:
        super().__init__(daemon=True)
        self.name = f"notify {number} ({receiver.name})"
        self.trouble: str | None = "no answer in time"
        self._receiver, self._message, self._folder = receiver, message, pipeline.folder

    def run(self) -> None:
        try:
            send_message(self._receiver, self._message, self._folder)
        except NotifyError as error:
            self.trouble = error.message
        else:
            self.trouble = None


def _done(sending: Sequence[_Sending]) -> Sequence[_Sending]:
    until = time.monotonic() + _ANSWER_SECONDS
    for one in sending:
        one.start()
    for one in sending:
        one.join(max(0.0, until - time.monotonic()))
    return sending


class _Telling(Thread):
    """Compares with the file, sends the news, and writes the file: each may wait for a store."""

    def __init__(self, pipeline: Pipeline, origin: str, verdicts: Sequence[PartVerdict], run_id: str) -> None:
        super().__init__(daemon=True)
        self._pipeline, self._origin, self._verdicts, self._run_id = pipeline, origin, verdicts, run_id
        self._troubles: list[str] | None = None
        self._sending: list[_Sending] = []

    def run(self) -> None:
        troubles: list[str] = []
        try:
            troubles += self._tell()
        except Exception as error:  # noqa: BLE001 - whatever it is, the run is not to blame
            troubles.append(f"the file of sent messages cannot be written: {type(error).__name__}")
        self._troubles = troubles

    def warnings(self) -> list[str]:
        """Return what did not work so far."""
        slow = [f"{one.name}: {one.trouble}" for one in self._sending if one.trouble]
        found = self._troubles if self._troubles is not None else slow or ["no answer in time"]
        return [f"[{NotifyError.code}] {text}; it is sent the next time" for text in found]

    def _tell(self) -> list[str]:
        before = read_sent(self._pipeline, self._origin)
        after, pending = dict(before), {}
        for number, one in enumerate(self._pipeline.notify, 1):
            known = before.get(receiver_id(one), {})
            news, next_known = compare_news(one, known, self._verdicts)
            wanted = tuple(own for own in news if own.event in one.on)
            after[receiver_id(one)] = next_known
            if wanted:
                name, run_id = self._pipeline.pipeline, self._run_id
                message = NotifyMessage(pipeline=name, origin=self._origin, run_id=run_id, news=wanted)
                pending[receiver_id(one)] = _Sending(number, one, message, self._pipeline)
        self._sending = [*pending.values()]
        _done(self._sending)
        for receiver, sent in pending.items():
            if sent.trouble:
                after[receiver] = before.get(receiver, {})
        if after != before:
            write_sent(self._pipeline, self._origin, after)
        return [f"{sent.name}: {sent.trouble}" for sent in pending.values() if sent.trouble]


Open: TypeAlias = dict[str, dict[str, list[str]]]
"""Event -> part -> causes that a receiver knows of."""

_SORT: Final = "notify"
_UNREADABLE: Final = (OSError, ValueError, TypeError, AttributeError, StorageError, SetupError)


def receiver_id(receiver: Notify) -> str:
    """Return what a receiver is known by: its declaration, which has references in place of secrets."""
    return hashlib.sha256(receiver.model_dump_json().encode()).hexdigest()[:16]


def read_sent(pipeline: Pipeline, origin: str) -> dict[str, Open]:
    """Return what each receiver knows; empty without a readable file.

    While the warehouse did not answer, the file was written beside the declaration: both places count.
    """
    found: dict[str, Open] = {}
    for place in files_places(pipeline, _SORT):
        with suppress(*_UNREADABLE):
            text = b"{}" if place is None else place.read(_name(pipeline, origin))
            for name, known in json.loads(text).items():
                mine = found.setdefault(name, {})
                for event, parts in known.items():
                    own = {part: [*map(str, causes)] for part, causes in parts.items()}
                    mine[event] = own | mine.get(event, {})
    return found


def write_sent(pipeline: Pipeline, origin: str, known: dict[str, Open]) -> None:
    """Write what each declared receiver knows.

    Raises:
        OSError: it cannot be written.
    """
    kept, name = {*map(receiver_id, pipeline.notify)}, _name(pipeline, origin)
    text = json.dumps({one: parts for one, parts in known.items() if one in kept}, indent=1)
    written = write_file(pipeline, _SORT, name, text.encode())
    for place in files_places(pipeline, _SORT):
        if place is not None and place != written:
            with suppress(*_UNREADABLE):
                place.remove([name])


def compare_news(receiver: Notify, known: Open, verdicts: Iterable[PartVerdict]) -> tuple[list[News], Open]:
    """Compare what a receiver knows with what is found.

    Returns:
        The news, also those that the receiver does not want, and what it knows after them.
    """
    news: list[News] = []
    after: dict[str, Any] = {event: dict(parts) for event, parts in known.items()}
    for verdict in verdicts:
        here = after.setdefault(verdict.event, {})
        before, now = here.get(verdict.part, []), verdict.causes_for(receiver)
        if new := tuple(cause for cause in now if cause not in before):
            own = News(event=verdict.event, part=verdict.part, causes=new, was=verdict.event, verdict=verdict)
            news.append(own)
        elif before and not now and verdict.event != "quarantine":
            # Records in quarantine stay there: the next batch without any recovers nothing.
            over = tuple(before)
            news.append(News(event="recovered", part=verdict.part, causes=over, was=verdict.event, verdict=verdict))
        if now:
            here[verdict.part] = [*now]
        else:
            here.pop(verdict.part, None)
    return news, {event: parts for event, parts in after.items() if parts}


def _name(pipeline: Pipeline, origin: str) -> str:
    whose = hashlib.sha256(pipeline.pipeline.encode()).hexdigest()[:16]
    return f"{whose}.{origin}.json"


SECONDS: Final = 8.0
"""A receiver may take so long for each step of an exchange."""


class NotifyError(SetupError):
    """A receiver of messages did not take one."""

    code = "FZ915"


def send_message(receiver: Notify, message: NotifyMessage, folder: Path) -> None:
    """Send a message.

    Args:
        receiver: the receiver; its references are resolved now.
        message: the message.
        folder: folder of the declaration, where paths of secrets start.

    Raises:
        NotifyError: it was not taken. The error never holds an address, a login or an answer.
    """
    try:
        if receiver.email is not None:
            _mail(receiver.email, message, folder)
        else:
            address = resolve(receiver.webhook or "", setting="notify.webhook", folder=folder)
            values: dict[str, Any] = message.as_values()
            _post(address, values if receiver.form == "json" else {"text": _for_slack(message.text)})
    except FrazilError as error:
        raise NotifyError(error.message) from None  # a reference that is not set
    except Exception as error:  # noqa: BLE001 - its own text may hold the address
        raise NotifyError(_why(error)) from None


def _post(address: str, values: dict[str, Any]) -> None:
    if not address.startswith(("https://", "http://")):
        raise NotifyError("its address does not begin with https:// or http://")
    head = {"Content-Type": "application/json", "User-Agent": f"frazil/{frazil.__version__}"}
    request = Request(address, data=json.dumps(values).encode(), headers=head, method="POST")  # noqa: S310 - see above
    with build_opener(_NoRedirect).open(request, timeout=SECONDS):
        pass


def _mail(mail: Email, message: NotifyMessage, folder: Path) -> None:
    written = EmailMessage()
    written["From"], written["To"], written["Subject"] = mail.sender, ", ".join(mail.to), f"frazil: {message.title}"
    written["Auto-Submitted"] = "auto-generated"
    written.set_content(message.text)
    password = resolve(mail.password or "", setting="notify.email.password", folder=folder)
    tls = ssl.create_default_context()
    is_tls = mail.port == TLS_PORT
    server = (
        smtplib.SMTP_SSL(mail.host, mail.port, timeout=SECONDS, context=tls)
        if is_tls
        else smtplib.SMTP(mail.host, mail.port, timeout=SECONDS)
    )
    with server:
        if mail.starttls and not is_tls:
            server.starttls(context=tls)
        if mail.user is not None:
            server.login(mail.user, password)
        server.send_message(written)


def _for_slack(text: str) -> str:
    """Return a text in which no name is a link or calls a channel."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _why(error: Exception) -> str:
    match error:
        case HTTPError():
            return f"HTTP {error.code}"
        case URLError(reason=Exception() as reason):
            return type(reason).__name__
        case smtplib.SMTPResponseException():
            return f"{type(error).__name__} {error.smtp_code}"
        case _:
            return type(error).__name__


class _NoRedirect(HTTPRedirectHandler):
    """A receiver sends messages nowhere else: a redirect is an error."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow nothing."""
