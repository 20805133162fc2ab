"""Receivers of messages at work on 127.0.0.1: a webhook, and a mail server with and without TLS."""

from __future__ import annotations

import datetime as dt
import json
import ssl
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.answering import Quiet, address_of, answering

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Webhook:
    """What a webhook got, and what it answers: a status, and how long it waits before."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.status = 200
        self.address = ""

    @property
    def texts(self) -> list[str]:
        return [one["text"] for one in self.got]


@contextmanager
def webhook() -> Iterator[Webhook]:
    """A server that keeps what is posted to it, unless its status is an error."""
    hook = Webhook()

    class Keeps(Quiet, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if hook.status == 200:
                hook.got.append(body)
            self.send_response(hook.status)
            if 300 <= hook.status < 400:
                self.send_header("Location", hook.address)
            self.end_headers()

        def do_GET(self) -> None:
            self.do_POST()

    with answering(ThreadingHTTPServer(("127.0.0.1", 0), Keeps)) as server:
        hook.address = f"{address_of(server)}/services/s3cret"
        yield hook


class Mails:
    """What a mail server heard: its commands, whether within TLS, and the mails."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, bool]] = []
        self.mails: list[str] = []
        self.port = 0


class _Speaks(StreamRequestHandler):
    """As much SMTP as a client needs."""

    heard: Mails
    tls: ssl.SSLContext | None

    def handle(self) -> None:
        self.is_safe = False
        self.say("220 here")
        with suppress(ssl.SSLError):  # the client knows no such certificate
            while line := self.rfile.readline().decode().rstrip("\r\n"):
                self.heard.commands.append((line, self.is_safe))
                self.answer(line.split(" ")[0].upper())

    def answer(self, word: str) -> None:
        if word == "EHLO":
            self.say("250-here", *(["250-STARTTLS"] if self.tls and not self.is_safe else []), "250 AUTH PLAIN")
        elif word == "STARTTLS" and self.tls:
            self.say("220 go on")
            self.request = self.tls.wrap_socket(self.request, server_side=True)
            self.is_safe = True
            self.setup()
        elif word == "DATA":
            self.say("354 go on")
            lines = iter(lambda: self.rfile.readline().decode(), ".\r\n")
            self.heard.mails.append("".join(lines).replace("\r\n", "\n"))
            self.say("250 taken")
        else:
            self.say({"AUTH": "235 welcome", "QUIT": "221 bye"}.get(word, "250 well"))

    def say(self, *lines: str) -> None:
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())


@contextmanager
def mail_server(tls: ssl.SSLContext | None = None) -> Iterator[Mails]:
    """A mail server, with STARTTLS if it has a certificate."""
    heard = Mails()
    own = type("Speaks", (_Speaks,), {"heard": heard, "tls": tls})
    with answering(ThreadingTCPServer(("127.0.0.1", 0), own)) as server:  # type: ignore[type-var]
        heard.port = server.server_address[1]
        yield heard


def certificate(folder: Path) -> Path:
    """Write a certificate of ``localhost`` with its key into one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    text = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file = folder / "mail.pem"
    file.write_bytes(text + made.public_bytes(pem))
    return file
