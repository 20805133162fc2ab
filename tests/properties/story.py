"""A story by lot: what its source tells, what is declared of it from day to day, and what its tables must hold then.

What the tables must hold is said by :mod:`frazil.testing.oracle`; here stands which changes the records are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal

from tests.properties.story_source import FORMS, SPOILED, SourceTable, fields_of

from frazil.sources.postgres.landing import hex_lsn
from frazil.testing.oracle import Change, current, history, soft

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.properties.story_source import Event, Part

QTY: Final = ("int", "bigint", "decimal(22,2)", "string")
LIMIT: Final = 1000
_TIMES: Final = {"dms": "ts", "audit": "audit_timestamp", "postgres": "__committed_at"}
_SOURCES: Final = {
    "dms_csv": "kind: dms, path: {place}, header: true, before_image_prefix: BI_",
    "dms_parquet": "kind: dms, path: {place}, format: parquet, before_image_prefix: BI_",
    "audit": "kind: audit_log, path: {place}, table: public.things, old_data: old_data",
    "postgres": "kind: postgres, url: postgresql://nobody, table: things_{seed}, landing: ./landing",
}
_WIDTHS: Final = ("int", "bigint", "string")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What is declared of a story's table.

    Attributes:
        mode: ``closed`` lists the columns, ``open`` ends with ``*``, ``inferred`` has none.
        types: column -> declared type.
        renamed: ``note`` is declared to be called ``remark`` now.
        limited: ``qty`` has a largest value.
        nulls: NULL leaves the value that a row has.
        deletes: of the history.
        previous: there is a column with the key before its last change.
        layout: more settings of the current mart.
    """

    mode: str
    types: tuple[tuple[str, str], ...]
    renamed: bool = False
    limited: bool = False
    nulls: bool = False
    deletes: Literal["close", "mark"] = "close"
    previous: bool = False
    layout: str = ""


@dataclass(eq=False)
class Story:
    """A story, as far as it has come.

    Attributes:
        seed: what it is drawn by; its number.
        parts: what will be told.
        arrived: the parts that were delivered.
        corrected: numbers of the events whose records were wrong and have been corrected.
    """

    seed: int
    size: int
    steps: int
    arrived: list[Part] = field(default_factory=list)
    corrected: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.form = FORMS[self.seed % len(FORMS)]
        self.kind = self.form.partition("_")[0]
        self.time = _TIMES[self.kind]
        self.sequenced = self.kind == "dms" and self.chance.random() < 0.7
        self.sequenced |= self.kind == "audit" and self.chance.random() < 0.4
        table = SourceTable(self.form, self.chance, behind=self.kind != "postgres")
        self.parts = [table.part(number, self.size) for number in range(self.steps)]
        self.waiting = [*self.parts]
        if self.kind != "postgres" and self.chance.random() < 0.4:
            self.chance.shuffle(self.waiting)
        self.deliver()
        self.declared = self._first()

    def deliver(self) -> list[Part]:
        """Let the next parts arrive, or none."""
        some = [self.waiting.pop(0) for _ in range(self.chance.choice((1, 1, 1, 2))) if self.waiting]
        self.arrived += some
        return some

    def path(self, folder: Path) -> Path:
        """Return the folder of its files."""
        return folder / "landing" / (f"public.things_{self.seed}" if self.kind == "postgres" else f"{self.seed}")

    def seen(self) -> dict[str, str]:
        """Return the fields that have come, with the types that they have at the source: the widest of them."""
        found: dict[str, str] = {}
        for part in self.arrived:
            here = {source for event in part.events for source in fields_of(self.form, part, event)}
            for source, kind in part.schema.values():
                if self.kind != "audit" or source in here:
                    own = kind if self.form in ("dms_parquet", "postgres") else "string"
                    found[source] = max(found.get(source, own), own, key=_WIDTHS.index)
        return found

    def _first(self) -> Declared:
        modes = ("closed", "open", "inferred") if self.form in ("dms_parquet", "postgres") else ("closed", "open")
        seen = [name for name in ("name", "qty", "note") if name in self.seen()]
        mode = self.chance.choice(modes)
        names = [name for name in seen if mode == "closed" or self.chance.random() < 0.5]
        types = tuple((name, self.chance.choice(QTY[:2]) if name == "qty" else "string") for name in names)
        nulls = self.chance.random() < 0.15
        made = Declared(mode=mode, types=() if mode == "inferred" else types, nulls=nulls)
        previous = mode != "inferred" and self.chance.random() < 0.3
        return replace(made, limited=self.chance.random() < 0.3, previous=previous)

    def change(self) -> None:
        """Declare something else."""
        now, seen = self.declared, self.seen()
        types = dict(now.types)
        match self.chance.randrange(8):
            case 0 | 1 if "qty" in types:
                types["qty"] = self.chance.choice(QTY)
            case 2 | 3 if now.mode != "inferred":
                name = self.chance.choice(["name", "qty", "extra", "note"])
                if name in types and len(types) > 1 and self.chance.random() < 0.4:
                    del types[name]
                elif name in seen and name not in types:
                    types[name] = "bigint" if name == "qty" else "string"
            case 4:
                now = replace(now, renamed=now.renamed or "remark" in seen or self.chance.random() < 0.3)
            case 5:
                now = replace(now, limited=not now.limited)
            case 6:
                now = replace(
                    now, deletes="mark" if self.chance.random() < 0.5 else "close", nulls=self.chance.random() < 0.2
                )
            case 7 if now.mode != "inferred" and self.chance.random() < 0.5:
                now = replace(now, previous=not now.previous)
            case _:
                now = replace(now, layout=self.chance.choice(("", ", partition_by: [id]", ", sort_by: [id]")))
        self.declared = replace(now, types=tuple(types.items()))

    @property
    def limited(self) -> bool:
        """Return whether ``qty`` has a largest value."""
        return self.declared.limited and dict(self.declared.types).get("qty", "string") != "string"

    def yaml(self) -> str:
        """Write the table."""
        now, place = self.declared, f"./landing/{self.seed}"
        source = _SOURCES.get(self.form) or _SOURCES[self.kind]
        own = ["{name: id, type: int}"] + (["{name: ts, type: timestamp}"] if self.kind == "dms" else [])
        limit = f", max: {LIMIT}" if self.limited else ""
        own += [
            f'{{name: {self._now(name)}, type: "{kind}"{limit if name == "qty" else ""}}}' for name, kind in now.types
        ]
        own += ["{name: prev_id, type: bigint}"] if now.previous else []
        columns = ", ".join([*own, '"*"'] if now.mode == "open" else own)
        order = f"sequence_by: [{self.time}]" if self.sequenced else "effective_at: ts" if self.kind == "dms" else ""
        return f"""
  - name: t{self.seed}
    source: {{{source.format(place=place, seed=self.seed)}}}
    keys: [id]
    {order}
    ignore_null_updates: {f"{now.nulls}".lower()}
    evolution: {{on_type_change: evolve}}
    {"renames: {note: remark}" if self._renames else ""}
    {f"columns: [{columns}]" if now.mode != "inferred" else ""}
    marts:
      - {{kind: current, name: hard_{self.seed}{now.layout}}}
      - {{kind: current, deletes: soft, name: soft_{self.seed}}}
      - {{kind: history, name: past_{self.seed}, deletes: {now.deletes}}}
"""

    @property
    def _renames(self) -> bool:
        return self.declared.renamed and (self.declared.mode != "closed" or "note" in dict(self.declared.types))

    def _now(self, source: str) -> str:
        return "remark" if self._renames and source == "note" else source

    def columns(self) -> dict[str, str]:
        """Return the columns of the marts with their types, without ``id`` and the time."""
        found = {self._now(name): kind for name, kind in self.declared.types}
        if self.declared.previous:
            found["prev_id"] = "bigint"
        if self.declared.mode != "closed":
            types: dict[str, str] = {}
            for source, kind in self.seen().items():
                name = self._now(source)
                types[name] = max(types.get(name, kind), kind, key=_WIDTHS.index)
            found = types | found
        return found

    def _values(self, part: Part, event: Event) -> dict[str, Any] | None:
        """Return the values that a record carries; None of one that goes to quarantine."""
        wrong = event.spoiled if event.number not in self.corrected else ""
        if wrong == "id" and event.op != "T":
            return None
        if event.op in "DT":
            return {}
        found: dict[str, Any] = {}
        columns = self.columns()
        for name, right in event.values.items():
            column, text = self._now(part.schema[name][0]), SPOILED if wrong == name else right
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

    def events(self) -> Iterator[tuple[Part, int, Event]]:
        """Return what has arrived, in the order of the source, with the number of each record in its file."""
        for part in sorted(self.arrived, key=lambda part: part.number):
            for row, event in enumerate(part.events, start=1):
                yield part, row, event

    def bad(self) -> set[int]:
        """Return the numbers of the events whose records are in quarantine."""
        return {event.number for part, _, event in self.events() if self._values(part, event) is None}

    def changes(self) -> list[Change]:
        """Return the accepted changes."""
        columns, found = [*self.columns()], list[Change]()
        touched: dict[int, None] = {}
        rows: dict[int, dict[str, Any]] = {}
        for part, row, event in self.events():
            if (values := self._values(part, event)) is None:
                continue
            one = Change(
                key=(event.key,),
                sequence=(event.time,) if self.sequenced else (),
                position=self._position(part, event),
                row=row,
                deleted=event.op in "DT",
                values={},
                event_time=event.time,
            )
            if event.op == "T":
                found += [replace(one, key=(key,)) for key in touched]
                rows.clear()
                continue
            touched[event.key] = None
            if event.op == "D":
                rows.pop(event.key, None)
            else:
                before = rows.get(event.key, {})
                if event.moves:
                    touched[event.old_key] = None
                    found.append(replace(one, key=(event.old_key,), deleted=True))
                    # A row keeps under its new key what its change does not carry.
                    before = rows.pop(event.old_key, {})
                    values = {name: values.get(name, before.get(name)) for name in columns}
                rows[event.key] = before | values
                one = replace(one, values=values | {"id": event.key, self.time: event.time})
            found.append(one)
        return found

    def _position(self, part: Part, event: Event) -> str:
        match self.kind:
            case "dms":
                return f"1/20260101-{part.number:09}.{self.form.removeprefix('dms_')}"
            case "audit":
                return f"1/{event.number:020}"
            case _:
                return f"1/{hex_lsn(event.number)}-{1:010d}"

    def marts(self) -> dict[str, list[dict[str, Any]]]:
        """Ask the oracle what the marts hold."""
        changes, tracked = self.changes(), [*self.columns()]
        columns = ["id", self.time, *tracked]
        return {
            f"hard_{self.seed}": current(changes, columns),
            f"soft_{self.seed}": soft(changes, columns),
            f"past_{self.seed}": history(changes, columns, tracked, self.declared.deletes),
        }


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
