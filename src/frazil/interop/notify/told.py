"""Causes that each receiver knows of and that are not over yet: a small file beside the records of runs.

Records of runs alone would not do. They know nothing of captures, lags and checks, of runs that never began, or of a
message that its receiver did not take. A file that is lost costs one message more for each cause that stands.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from frazil.audit.run_files import files_places, write_file
from frazil.errors import SetupError, StorageError
from frazil.interop.notify.message import News

if TYPE_CHECKING:
    from collections.abc import Iterable

    from frazil.interop.notify.verdicts import PartVerdict
    from frazil.spec import Notify, Pipeline

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
