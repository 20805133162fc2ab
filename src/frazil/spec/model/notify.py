"""Receivers of messages to people, and what they are sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from pydantic import Field

from frazil.spec.load.problem import Problem
from frazil.spec.model.base import Spec
from frazil.spec.secrets import REFERENCE, broken_reference, is_reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frazil.spec.load.problem import Path

Event: TypeAlias = Literal["failed", "recovered", "quarantine", "lag", "stale", "different", "unverified"]
"""Kind of a message."""

_HERE: Final = ("localhost", "127.0.0.1", "::1")
TLS_PORT: Final = 465
"""Port of mail servers that speak TLS from the first byte."""


class Email(Spec):
    """A mail server, and the people who get mail from it."""

    to: tuple[str, ...] = Field(min_length=1, description="Addresses that get the mail.")
    sender: str = Field(min_length=1, description="Address that the mail is from.")
    host: str = Field(min_length=1, description="Mail server.")
    port: int = Field(default=587, ge=1, le=65535, description="Its port; 465 speaks TLS from the first byte.")
    starttls: bool = Field(default=True, description="Begin TLS before the login, as port 587 expects.")
    user: str | None = Field(default=None, description="Name to log in with; left out: no login.")
    password: str | None = Field(
        default=None, description="A reference such as ${file:mail.password}, never the word itself."
    )

    @property
    def is_private(self) -> bool:
        """Return whether a login cannot be read on its way."""
        return self.starttls or self.port == TLS_PORT or self.host in _HERE


class Notify(Spec):
    """One receiver: a webhook or a mail server."""

    webhook: str | None = Field(
        default=None, description="Address that messages are posted to; a reference such as ${env:SLACK_URL}."
    )
    form: Literal["text", "json"] = Field(
        default="text", description='Body of a post: text is {"text": …}, as Slack takes it; json has the events too.'
    )
    email: Email | None = Field(default=None, description="Mail server, in place of a webhook.")
    on: tuple[Event, ...] = Field(
        default=get_args(Event), min_length=1, description="Messages that this receiver gets; left out: all."
    )
    quarantine_rows: int = Field(
        default=0, ge=0, description="More records of a run than this in quarantine are a message."
    )
    lag_seconds: float = Field(default=900, gt=0, description="A capture that is further behind is a message.")
    lag_mb: float = Field(default=1024, gt=0, description="As above, in megabytes that the server keeps.")

    @property
    def name(self) -> str:
        """Return the kind of the receiver, without its address."""
        return "webhook" if self.email is None else "email"


def notify_problems(receivers: Sequence[Notify]) -> Iterator[Problem]:
    """Yield problems of receivers: their addresses and logins are references, and travel encrypted."""
    for number, one in enumerate(receivers):
        at: Path = ("notify", number)
        if (one.webhook is None) == (one.email is None):
            yield Problem(at, "a receiver is either a webhook or an email", "make two entries, or remove one")
        if one.webhook is not None:
            yield from _address((*at, "webhook"), one.webhook)
        if one.email is not None:
            yield from _login((*at, "email"), one.email)


def _address(at: Path, address: str) -> Iterator[Problem]:
    # The text itself never goes into a message: who knows the address can post to it.
    if broken_reference(address) or not REFERENCE.search(address):
        yield Problem(at, "'webhook' is a secret in plain text", "write ${env:SLACK_URL} or ${file:path}")


def _login(at: Path, mail: Email) -> Iterator[Problem]:
    if mail.password is not None and (broken_reference(mail.password) or not is_reference(mail.password)):
        yield Problem((*at, "password"), "'password' is a secret in plain text", "write ${env:NAME} or ${file:path}")
    if (mail.user is None) != (mail.password is None):
        yield Problem(at, "a login has both user and password", "add the other one")
    if mail.user is not None and not mail.is_private:
        yield Problem((*at, "starttls"), "the password would travel in plain text", "write starttls: true")
    if bad := [address for address in (*mail.to, mail.sender) if not _is_address(address)]:
        yield Problem(at, f"{bad[0]!r} is not an address", "write name@host")


def _is_address(text: str) -> bool:
    name, _, host = text.rpartition("@")
    return bool(name and host) and text.isascii() and text.isprintable() and not {*text} & {*' <>,;:"'}
