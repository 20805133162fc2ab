"""The table of a random story: its source, and its declaration from day to day."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Final, Literal

from tests.properties.story_source import FORMS, SourceTable, fields_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.properties.story_source import Event, Part

Mart = Literal["hard", "soft", "past"]

QTY: Final = ("int", "bigint", "decimal(22,2)", "string")
LIMIT: Final = 1000
DAYS: Final = (5, 12, 20, 40)
"""How long changes may be kept; a story with a retention tells about fifteen days a part."""
FIRST_BY_PLACE: Final = 2100
"""Seed from which on a source that orders its changes itself may have a retention too."""
MARTS: Final[tuple[tuple[Mart, ...], ...]] = (
    ("hard",),
    ("hard", "soft"),
    ("soft", "past"),
    ("hard", "past"),
    ("hard", "soft", "past"),
)
"""The marts that a story may have; the first ones are there for what a baseline keeps for them."""
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
    """The declaration of a story's table.

    Attributes:
        mode: ``closed`` lists the columns, ``open`` ends with ``*``, ``inferred`` has none.
        types: column -> declared type.
        renamed: ``note`` is declared to be called ``remark`` now.
        limited: ``qty`` has a largest value.
        nulls: NULL leaves the value that a row has.
        deletes: of the history.
        previous: there is a column with the key before its last change.
        bitemporal: the history keeps what was known before.
        keeps_days: days for which changes are kept one by one; 0 for no limit.
        layout: more settings of the current mart.
    """

    mode: str
    types: tuple[tuple[str, str], ...]
    renamed: bool = False
    limited: bool = False
    nulls: bool = False
    deletes: Literal["close", "mark"] = "close"
    previous: bool = False
    bitemporal: bool = False
    keeps_days: int = 0
    layout: str = ""

    def needs_all_changes(self, before: Declared) -> bool:
        """Return whether what was declared before cannot become this from a baseline."""
        free = {"deletes": self.deletes, "keeps_days": self.keeps_days, "layout": self.layout}
        return replace(before, **free) != self  # type: ignore[arg-type]


@dataclass(eq=False)
class StoryTable:
    """The table of a story, and its progress.

    Attributes:
        seed: seed of the draw, and its number.
        parts: the parts to deliver.
        arrived: the parts that were delivered.
        ages: its changes are days apart, not seconds, and it may have a retention.
        by_place: its source orders the changes itself, and says when each was.
        marts: its kinds of marts.
    """

    seed: int
    size: int
    steps: int
    arrived: list[Part] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.form = FORMS[self.seed % len(FORMS)]
        self.kind = self.form.partition("_")[0]
        self.time = _TIMES[self.kind]
        self.sequenced = self.kind == "dms" and self.chance.random() < 0.7
        self.sequenced |= self.kind == "audit" and self.chance.random() < 0.4
        self.by_place = self.seed >= FIRST_BY_PLACE and not self.sequenced and self.kind != "dms"
        self.ages = (self.sequenced or self.by_place) and self.chance.random() < 0.6
        self.marts: tuple[Mart, ...] = self.chance.choice(MARTS[not self.ages :])
        unit = timedelta(days=1) if self.ages else timedelta(seconds=1)
        table = SourceTable(self.form, self.chance, behind=self.kind != "postgres", unit=unit)
        self.parts = [table.part(number, self.size) for number in range(self.steps)]
        self.waiting = [*self.parts]
        if self.kind != "postgres" and self.chance.random() < 0.4:
            self.chance.shuffle(self.waiting)
        self.deliver()
        self.declared = self._first()

    @property
    def times(self) -> list[str]:
        """Return the column of the marts that says when a change was; none where no mart asks for it."""
        return [] if self.by_place and self.marts == ("hard",) else [self.time]

    def deliver(self) -> list[Part]:
        """Let the next parts arrive, or none."""
        some = [self.waiting.pop(0) for _ in range(self.chance.choice((1, 1, 1, 2))) if self.waiting]
        self.arrived += some
        return some

    @property
    def name(self) -> str:
        """Return the name of its table."""
        return f"t{self.seed}"

    def path(self, folder: Path) -> Path:
        """Return the folder of its files."""
        return folder / "landing" / (f"public.things_{self.seed}" if self.kind == "postgres" else f"{self.seed}")

    def events(self) -> Iterator[tuple[Part, int, Event]]:
        """Return what has arrived, in the order of the source, with the number of each record in its file."""
        for part in sorted(self.arrived, key=lambda part: part.number):
            for row, event in enumerate(part.events, start=1):
                yield part, row, event

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
        mode = self.chance.choice(modes if not self.ages else modes[:2])
        names = [name for name in seen if mode == "closed" or self.chance.random() < 0.5]
        types = tuple((name, self.chance.choice(QTY[:2]) if name == "qty" else "string") for name in names)
        nulls = self.chance.random() < 0.15
        made = Declared(mode=mode, types=() if mode == "inferred" else types, nulls=nulls)
        previous = mode != "inferred" and self.chance.random() < 0.3
        made = replace(made, limited=self.chance.random() < 0.3, previous=previous)
        if self.ages:
            return replace(made, keeps_days=self.chance.choice((0, *DAYS)))
        return replace(made, bitemporal=self.chance.random() < 0.4)

    def change(self) -> None:
        """Declare something else."""
        if self.chance.random() < 0.2:
            now = self.declared
            days = self.chance.choice((0, *DAYS, *DAYS)) if self.ages else 0
            self.declared = replace(now, keeps_days=days, bitemporal=not self.ages and not now.bitemporal)
            return
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
            f'{{name: {self.now(name)}, type: "{kind}"{limit if name == "qty" else ""}}}' for name, kind in now.types
        ]
        own += ["{name: prev_id, type: bigint}"] if now.previous else []
        columns = ", ".join([*own, '"*"'] if now.mode == "open" else own)
        order = f"sequence_by: [{self.time}]" if self.sequenced else "effective_at: ts" if self.kind == "dms" else ""
        marts = {
            "hard": f"kind: current, name: hard_{self.seed}{now.layout}",
            "soft": f"kind: current, deletes: soft, name: soft_{self.seed}",
            "past": f"kind: history, name: past_{self.seed}, deletes: {now.deletes}"
            f"{', bitemporal: true' if now.bitemporal else ''}",
        }
        listed = "".join(f"      - {{{marts[mart]}}}\n" for mart in self.marts)
        return f"""
  - name: {self.name}
    source: {{{source.format(place=place, seed=self.seed)}}}
    keys: [id]
    max_bad_fraction: 1
    {order}
    ignore_null_updates: {f"{now.nulls}".lower()}
    evolution: {{on_type_change: evolve}}
    {"renames: {note: remark}" if self._renames else ""}
    {f"retention: {{changes_days: {now.keeps_days}}}" if now.keeps_days else ""}
    {f"columns: [{columns}]" if now.mode != "inferred" else ""}
    marts:
{listed}"""

    @property
    def _renames(self) -> bool:
        return self.declared.renamed and (self.declared.mode != "closed" or "note" in dict(self.declared.types))

    def now(self, source: str) -> str:
        """Return the name that a field of the source has now."""
        return "remark" if self._renames and source == "note" else source

    def columns(self) -> dict[str, str]:
        """Return the columns of the marts with their types, without ``id`` and the time."""
        found = {self.now(name): kind for name, kind in self.declared.types}
        if self.declared.previous:
            found["prev_id"] = "bigint"
        if self.declared.mode != "closed":
            types: dict[str, str] = {}
            for source, kind in self.seen().items():
                name = self.now(source)
                types[name] = max(types.get(name, kind), kind, key=_WIDTHS.index)
            found = types | found
        return found
