"""The page ``/correct``: correct records in quarantine, see how many of them would pass, and replay them.

The address names the records: all that break one rule, or one record. The form has the correction.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse

from frazil import api
from frazil.host import scratch
from frazil.spec.sql.select import source_table
from frazil.ui.pages import Page, address

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from starlette.requests import Request

    from frazil.serve.corrections import Chosen, Line
    from frazil.spec import Pipeline
    from frazil.ui.pages import Shown

_SHOWN: Final = 25
_VALUE: Final = "value:"
_EMPTY: Final = "empty:"
NULL: Final = "null"
ABSENT: Final = "absent"
TEXT: Final = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """One correction for many records.

    Attributes:
        field: the field to correct, in any case.
        how: ``part`` replaces a text in the value, ``whole`` sets the value, ``null`` sets NULL.
        old, new: the texts.
    """

    field: str
    how: str
    old: str
    new: str

    def corrected(self, line: Line) -> Line | None:
        """Return a line with the field corrected; None if the record has no such field, or is right already."""
        record = line["record"] or {}
        name = next((name for name in record if name.lower() == self.field.lower()), None)
        if name is None:
            return None
        before = record[name]
        after = None if self.how == NULL else self.new if self.how == "whole" else self._replaced(before)
        return None if after == before else {**line, "record": {**record, name: after}}

    def _replaced(self, before: str | None) -> str | None:
        return before if before is None or not self.old else before.replace(self.old, self.new)


def typed_fields(form: Mapping[str, str], record: Mapping[str, str | None] | None) -> dict[str, str | None]:
    """Return the fields of a record from its form.

    A browser changes the ends of lines, so a value counts as changed only if it differs beyond them.

    Args:
        form: ``value:<field>`` with each text, and ``empty:<field>`` with what an empty text means.
        record: the fields before; None if they could not be read.
    """
    before, found = record or {}, dict[str, str | None]()
    for key, text in form.items():
        name = key.removeprefix(_VALUE)
        if name == key:
            continue
        typed, meant = text.replace("\r\n", "\n"), form.get(f"{_EMPTY}{name}", TEXT)
        old = before.get(name)
        if typed or meant == TEXT:
            is_same = old is not None and typed == _as_sent(old)
            found[name] = old if is_same else typed
        elif meant == NULL:
            found[name] = None
    return found


def _as_sent(text: str) -> str:
    """Return a text as a browser sends it back, with a line feed at the end of each line."""
    sent = text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
    return sent.replace("\r\n", "\n").replace("\r", "\n")


def show_correct(request: Request, pipeline: Pipeline) -> Shown:
    """Return the form, and with its fields the preview; start the replay if the form says so."""
    asked, form = request.query_params, request.state.form
    table, row = source_table(pipeline, asked.get("table", "")), asked.get("row", "")
    chosen = api.Chosen(
        rule=asked.get("rule") or None,
        column=asked.get("column") or None,
        file=asked.get("file") or None,
        row=int(row) if row.isdecimal() and row.isascii() else None,
    )
    line = None
    if chosen.file is not None and chosen.row is not None:
        line, fields = api.quarantined_line(pipeline, table.name, chosen.file, chosen.row)
        if line is None:
            raise HTTPException(HTTPStatus.NOT_FOUND, "This record is not in quarantine any more")
    elif chosen.rule is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, "The address names neither a rule nor a record")
    else:
        fields = api.quarantined_line(pipeline, table.name, "", 0)[1]
    values = {"table": table, "chosen": chosen, "line": line, "fields": fields, "form": form, "judged": None}
    if not form:
        return values
    edit = _edit(form, line)
    if form.get("do") == "replay":
        return _replay(request, pipeline, table.name, chosen, edit)
    return values | _preview(pipeline, table.name, chosen, edit)


def _edit(form: Mapping[str, str], line: Line | None) -> Callable[[Line], Line | None]:
    if line is not None:
        record = typed_fields(form, line["record"])
        return lambda line: None if record == (line["record"] or {}) else {**line, "record": record}
    return Replacement(
        field=form.get("field", ""), how=form.get("how", ""), old=form.get("old", ""), new=form.get("new", "")
    ).corrected


def _preview(pipeline: Pipeline, table: str, chosen: Chosen, edit: Callable[[Line], Line | None]) -> dict[str, Any]:
    """Return how many records the correction changes, what is known of them, and the first of them."""
    count = 0
    shown: list[tuple[Line, Line]] = []

    def seen(line: Line) -> Line | None:
        nonlocal count
        count += 1
        after = edit(line)
        if after is not None and len(shown) < _SHOWN:
            shown.append((line, after))
        return after

    held = scratch()
    try:
        file = held.folder / "corrections.jsonl"
        api.quarantine_to(pipeline, table, file, chosen=chosen, edit=seen)
        judged = api.judge_corrections(pipeline, table, file)
    finally:
        held.remove()
    doubts = {(one.file, one.row): names for one, names in zip(judged.corrections, judged.doubts, strict=False)}
    return {"judged": judged, "count": count, "rows": [_row(*pair, doubts) for pair in shown]}


def _row(before: Line, after: Line, doubts: Mapping[tuple[str, int], tuple[str, ...]]) -> dict[str, Any]:
    old, new = before["record"] or {}, after["record"]
    changed = [
        {"name": name, "old": old.get(name), "new": new.get(name), "was": name in old, "is": name in new}
        for name in dict.fromkeys((*old, *new))
        if (name in old, old.get(name)) != (name in new, new.get(name))
    ]
    place = before["file"], before["row"]
    return {"file": place[0], "row": place[1], "changed": changed, "doubts": doubts.get(place)}


def _replay(
    request: Request, pipeline: Pipeline, table: str, chosen: Chosen, edit: Callable[[Line], Line | None]
) -> Shown:
    """Write the corrections to a file, start their replay, and go to the quarantine, which shows how it goes."""
    held = scratch()
    file = Path(held.folder, "corrections.jsonl")
    try:
        count = api.quarantine_to(pipeline, table, file, chosen=chosen, edit=edit)
        is_started = count > 0 and request.app.state.replays.start(table, file, count, held)
    except BaseException:
        held.remove()
        raise
    if not is_started:
        held.remove()
        why = "another replay is at work" if count else "nothing is to be corrected any more"
        raise HTTPException(HTTPStatus.CONFLICT, f"Nothing was started: {why}")
    return RedirectResponse(address("/quarantine", table=table), HTTPStatus.SEE_OTHER)


CORRECT: Final = Page(path="/correct", template="correct.html", show=show_correct, writes=True)
