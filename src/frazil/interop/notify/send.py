"""Send one message to one receiver, by HTTP or mail."""

from __future__ import annotations

import json
import smtplib
import ssl
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import frazil
from frazil.errors import FrazilError, SetupError
from frazil.spec.model.notify import TLS_PORT
from frazil.spec.secrets import resolve

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.interop.notify.message import NotifyMessage
    from frazil.spec import Notify
    from frazil.spec.model.notify import Email

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
