"""A story by lot, and what its tables must hold.

What the tables must hold is said by :mod:`frazil.testing.oracle`; here stands which changes the records are, which of
them came too late, and whose were erased.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from tests.properties.story_source import KEYS, SPOILED
from tests.properties.story_table import LIMIT, StoryTable

from frazil.sources.postgres.landed.landing import hex_lsn
from frazil.testing.oracle import Change, bitemporal, current, history, soft

if TYPE_CHECKING:
    from datetime import datetime

    from tests.properties.story_source import Event, Part

_NOT_TAKEN: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """When silver took a record, and what it held of the past then.

    Attributes:
        batch: of bronze in which it came, or was corrected.
        known_at: when that was.
        horizon: changes before it were folded.
        place: the last place of a change that was folded.
    """

    batch: int
    known_at: datetime
    horizon: datetime | None = None
    place: tuple[str, int] | None = None


@dataclass(eq=False)
class Story(StoryTable):
    """A story, as far as it has come.

    Attributes:
        corrected: number of an event whose record was wrong and has been corrected -> bronze's batch.
        erased: the keys that were erased.
        judged: number of an event -> when its record was taken.
        horizon: changes before it are folded.
        place: the last place of a change that is folded.
        files: number of a part -> name of its file.
    """

    corrected: dict[int, int] = field(default_factory=dict)
    erased: set[int] = field(default_factory=set)
    judged: dict[int, Judged] = field(default_factory=dict)
    horizon: datetime | None = None
    place: tuple[str, int] | None = None
    files: dict[int, str] = field(default_factory=dict)

    def see(
        self,
        horizon: datetime | None,
        place: tuple[str, int] | None,
        silver: int,
        batches: dict[str, int],
        times: dict[int, datetime],
    ) -> None:
        """Record the lake's state: taken records with their times. The lake folds before it takes records.

        Args:
            horizon: of silver.
            place: the last one that silver has folded; the oracle takes it where places are the horizon.
            silver: its batch.
            batches: name of a file -> batch of bronze.
            times: batch of bronze -> when it was known.
        """
        if self.by_place:
            self.horizon, self.place = horizon, place
        elif horizon is not None and horizon != self.horizon:
            known = [change for batch, change in self._changes() if batch < _NOT_TAKEN]
            folded = [(one.position, one.row) for one in known if one.event_time < horizon]
            self.horizon, self.place = horizon, max([*folded, *filter(None, [self.place])], default=None)
        for part, _, event in self.events():
            batch = self.corrected.get(event.number) or batches.get(self.files[part.number], silver + 1)
            before = self.judged.get(event.number)
            if batch <= silver and (before is None or before.batch != batch):
                self.judged[event.number] = Judged(
                    batch=batch, known_at=times[batch], horizon=self.horizon, place=self.place
                )

    def _is_late(self, part: Part, row: int, event: Event) -> bool:
        """Return whether a record came when changes of its time were folded; of a truncate, of behind its place."""
        judged = self.judged.get(event.number)
        if judged is None or judged.horizon is None:
            return False
        if self.by_place:
            is_folded = judged.place is not None and self._place(part, row, event) <= judged.place
            return is_folded or ("past" in self.marts and event.time < judged.horizon)
        if event.op == "T" and judged.place is not None and (self.position(part, event), row) < judged.place:
            return True
        return event.time < judged.horizon

    def _place(self, part: Part, row: int, event: Event) -> tuple[str, int]:
        return self.position(part, event), row

    def _is_wrong(self, event: Event) -> str:
        return event.spoiled if event.number not in self.corrected else ""

    def _is_erased(self, event: Event) -> bool:
        """Return whether a record names an erased key, as its own or as the one before."""
        if event.op == "T":
            return False
        named = set() if self._is_wrong(event) == "id" else {event.key}
        if self.kind != "postgres" or event.moves:
            named.add(event.old_key)
        return bool(named & self.erased)

    def subjects(self, key: int) -> set[int]:
        """Return a key with all other keys of its row: erasing one of them erases all."""
        found, before = {key}, set[int]()
        taken = [one for part, row, one in self.events() if one.moves and self._is_taken(part, row, one)]
        while found != before:
            before = {*found}
            for event in taken:
                if {event.key, event.old_key} & found:
                    found |= {event.key, event.old_key}
        return found

    def some_subject(self) -> set[int]:
        """Draw a key to erase with all that are the same row; nothing where few others would be left."""
        keys = [key for key in KEYS if key not in self.erased]
        found = [key for key in keys if len({*keys} - self.subjects(key)) > 1]
        return self.subjects(self.chance.choice(found)) if found else set()

    def _is_taken(self, part: Part, row: int, event: Event) -> bool:
        is_good = self._values(part, event) is not None
        return is_good and not self._is_erased(event) and not self._is_late(part, row, event)

    def _values(self, part: Part, event: Event) -> dict[str, Any] | None:
        """Return the values that a record carries; None of one that goes to quarantine."""
        wrong = self._is_wrong(event)
        if wrong == "id" and event.op != "T":
            return None
        if event.op in "DT":
            return {}
        found: dict[str, Any] = {}
        columns = self.columns()
        for name, right in event.values.items():
            column, text = self.now(part.schema[name][0]), SPOILED if wrong == name else right
            if column not in columns or (text is None and self.declared.nulls):
                continue
            try:
                found[column] = _typed(text, columns[column])
            except ValueError:
                return None
        if self.limited and (found.get("qty") or 0) > LIMIT:
            return None
        if self.declared.previous and event.moves:
            found["prev_id"] = event.old_key
        return found

    def bad(self) -> set[int]:
        """Return the numbers of the events whose records are in quarantine."""
        return self.late() | {
            event.number
            for part, _, event in self.events()
            if self._values(part, event) is None and not self._is_erased(event)
        }

    def late(self) -> set[int]:
        """Return the numbers of those that are there because their changes came too late."""
        return {
            event.number
            for part, row, event in self.events()
            if self._is_late(part, row, event) and self._values(part, event) is not None and not self._is_erased(event)
        }

    def changes(self) -> list[Change]:
        """Return the accepted changes."""
        return [change for _, change in self._changes()]

    def _changes(self) -> list[tuple[int, Change]]:
        """Return the accepted changes, each with the batch in which it was known.

        A truncate deletes what it knows of: the delete of a key whose older changes come later is known with these.
        """
        columns = [*self.columns()]
        found: list[tuple[int, Change]] = []
        truncates: list[tuple[int, Change]] = []
        rows: dict[int, dict[str, Any]] = {}
        for part, row, event in self.events():
            values = self._values(part, event)
            if values is None or not self._is_taken(part, row, event):
                continue
            one = Change(
                key=(event.key,),
                sequence=(event.time,) if self.sequenced else (),
                position=self.position(part, event),
                row=row,
                deleted=event.op in "DT",
                values={},
                event_time=event.time,
            )
            batch = self._batch(event)
            if event.op == "T":
                truncates.append((batch, one))
                rows.clear()
                continue
            if event.op == "D":
                rows.pop(event.key, None)
            else:
                before = rows.get(event.key, {})
                if event.moves:
                    found.append((batch, replace(one, key=(event.old_key,), deleted=True)))
                    # A row keeps under its new key what its change does not carry.
                    before = rows.pop(event.old_key, {})
                    values = {name: values.get(name, before.get(name)) for name in columns}
                rows[event.key] = before | values
                one = replace(one, values=values | {"id": event.key, self.time: event.time})
            found.append((batch, one))
        return [*found, *_deletes(truncates, found)]

    def _batch(self, event: Event) -> int:
        """Return the batch of bronze in which a record was known; those that silver has not taken come last."""
        judged = self.judged.get(event.number)
        return _NOT_TAKEN if judged is None else judged.batch

    def position(self, part: Part, event: Event) -> str:
        """Return an event's position in its source."""
        match self.kind:
            case "dms":
                return f"1/20260101-{part.number:09}.{self.form.removeprefix('dms_')}"
            case "audit":
                return f"1/{event.number:020}"
            case _:
                return f"1/{hex_lsn(event.number)}-{1:010d}"

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Ask the oracle what the marts hold."""
        changes, tracked = self.changes(), [*self.columns()]
        columns = ["id", *self.times, *tracked]
        found = {}
        for mart in self.marts:
            match mart:
                case "hard":
                    rows = current(changes, columns)
                case "soft":
                    rows = soft(changes, columns)
                case "past" if self.declared.bitemporal:
                    rows = bitemporal(self._batches(), columns, tracked, self.declared.deletes)
                case "past":
                    rows = history(changes, columns, tracked, self.declared.deletes)
            found[f"{mart}_{self.seed}"] = rows
        return found

    def _batches(self) -> list[tuple[datetime, list[Change]]]:
        """Return when each batch was known, and its changes; values that a key change takes are those of today."""
        times = {one.batch: one.known_at for one in self.judged.values()}
        by_batch = groupby(sorted(self._changes(), key=itemgetter(0)), key=itemgetter(0))
        return [(times[batch], [change for _, change in known]) for batch, known in by_batch]


def _deletes(truncates: list[tuple[int, Change]], changes: list[tuple[int, Change]]) -> list[tuple[int, Change]]:
    """Return what truncates come to: a delete of each key with an older change, in order or by its place."""
    found = []
    for batch, one in truncates:
        place, older = (one.position, one.row), dict[Any, int]()
        for known, change in changes:
            its_place = (change.position, change.row)
            if its_place < place or (change.sequence, *its_place) < (one.sequence, *place):
                older[change.key] = min(known, older.get(change.key, known))
        found += [(max(batch, known), replace(one, key=key)) for key, known in older.items()]
    return found


def _typed(text: str | None, kind: str) -> Any:
    """Return the value of a text.

    Raises:
        ValueError: it has none of this type.
    """
    if text is None or kind == "string":
        return text
    number = int(text)
    if kind in ("int", "bigint") and not -(2 ** (31 if kind == "int" else 63)) <= number < 2 ** (
        31 if kind == "int" else 63
    ):
        raise ValueError(text)
    return Decimal(number).quantize(Decimal("0.01")) if kind.startswith("decimal") else number
