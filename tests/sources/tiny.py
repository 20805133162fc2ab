"""A kind of source as small as can be: JSON lines whose files are ordered by their names."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from frazil.formats.json_lines import JsonLinesFile, fields_in
from frazil.formats.records import file_columns
from frazil.sources.base import (
    FileRecords,
    Listing,
    PlainMeaning,
    RecordMeaning,
    SourceFile,
    change_position,
    stored_path,
)
from frazil.sources.kinds import KINDS, add_source
from frazil.sources.new_files import Content, find_new
from frazil.spec import Pipeline, Table
from frazil.spec.model.source import SourceSpec
from frazil.spec.sql.names import quote
from frazil.storage.base import Found
from frazil.storage.files import find

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from frazil.sources.base import NewFile, SourceDelta
    from frazil.sources.ledger import Ledger
    from frazil.storage.files import HashedFile
    from frazil.testing.changes import Record


class TinySpec(SourceSpec):
    """A folder of files ``*.jsonl``."""

    kind: Literal["tiny"] = "tiny"
    path: str

    locations = property(lambda self: {"path": (self.path,)})
    operation_field = property(lambda _: "what")
    orders_records = property(lambda _: False)
    types_fields = property(lambda _: False)
    truncates = property(lambda _: True)
    meaning = property(lambda _: {"kind": "tiny"})

    def field_names(self, declared: tuple[str, ...]) -> None:
        """Every record names its fields."""

    def is_bookkeeping(self, field: str) -> bool:
        """Only the operation is."""
        return field == "what"


@dataclass(frozen=True)
class TinySource:
    """A source of files whose records have ``what``: ``set``, ``unset`` or ``empty``."""

    table: Table

    def list(self, folder: Path) -> Listing:
        found = [
            one for one in find(self.table.source.locations["path"][0], folder, (".jsonl",)) if isinstance(one, Found)
        ]
        files = [
            SourceFile(
                path=stored_path(one.uri, folder),
                uri=one.uri,
                name=one.name,
                size_bytes=one.size_bytes,
                modified_ns=one.modified_ns,
                load=False,
                position=change_position(one.name),
            )
            for one in found
        ]
        return Listing(tuple(sorted(files, key=lambda file: file.position)))

    def find_new(self, folder: Path, ledger: Ledger) -> SourceDelta:
        return find_new(self.list(folder), ledger, self._inspect, settle_seconds=0)

    def _inspect(self, hashed: HashedFile, _: SourceFile) -> Content:
        data = b"".join(iter(hashed.read, b""))
        return Content(self._columns(fields_in(data.splitlines())))

    def _columns(self, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
        return file_columns(((name, "string") for name in names), "what")

    def named_fields(self, file: SourceFile) -> tuple[tuple[str, str], ...]:
        with open(file.uri, "rb") as lines:  # noqa: PTH123
            return self._columns(fields_in(lines))

    def columns(self, files: Sequence[NewFile], existing: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*existing, *(name for file in files for name, _ in file.columns)]))

    def known_fields(self, existing: Mapping[str, str], named: Sequence[Sequence[tuple[str, str]]]) -> dict[str, str]:
        return {**existing, **{name: kind for one in named for name, kind in one}}

    def read(self, file: NewFile, columns: Sequence[str], **limits: int) -> FileRecords:
        mine = {name.lower(): name for name, _ in file.columns}
        known = None if set(columns) <= {*mine.values()} else [*mine.values()]
        return FileRecords(
            reader=JsonLinesFile(file.uri, mine, **limits), fields=tuple(mine.values()), known=known, lists=True
        )

    def recount(self, uri: str) -> int:
        return sum(bool(line.strip()) for line in Path(uri).read_bytes().split(b"\n"))

    def meaning(self, fields: Mapping[str, str], position: str) -> RecordMeaning:
        del position
        change_class = (
            "CASE _cdc_op WHEN 'set' THEN 'upsert' WHEN 'unset' THEN 'delete' WHEN 'empty' THEN 'truncate' END"
        )
        plain = PlainMeaning(operation=fields["what"], classes={"set": "upsert", "unset": "delete"})
        return RecordMeaning(operation=quote(fields["what"]), change_class=change_class, old_keys={}, plain=plain)

    def advice(self, named: Sequence[Sequence[tuple[str, str]]]) -> None:
        """Nothing."""

    def reading(self) -> dict[str, Any]:
        return {"path": [*self.table.source.locations["path"]], "by_place": False}


class TinyForm:
    """Writes such files."""

    source = "{kind: tiny, path: ./landing}"

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        file = landing / f"{number:06}.jsonl"
        lines: list[dict[str, Any]] = []
        for record in records:
            numbers = {name: None if record[name] is None else int(record[name] or 0) for name in ("id", "qty")}
            rest = {name: text for name, text in record.items() if name not in {"op", *numbers}}
            lines.append({"what": "unset" if record["op"] == "D" else "set", **numbers, **rest})
        file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        return [file]

    def spoil(self, file: Path) -> int:
        with file.open("ab") as end:
            end.write(b'{"what": "set", "id": \n[1]\n{"id": 1, "ID": 2}\n{"what": "maybe", "id": 1}\n\xff\n')
        return 5


def add() -> None:
    """Add the kind: the entry point of a distribution."""
    add_source(TinySpec, TinySource)


@contextmanager
def tiny_kind() -> Iterator[None]:
    """Let declarations name this kind, for a while."""
    declared = Table.model_fields["source"]
    before = declared.annotation, declared.discriminator, declared.metadata
    add()
    yield
    del KINDS["tiny"]
    declared.annotation, declared.discriminator, declared.metadata = before
    Table.model_rebuild(force=True)
    Pipeline.model_rebuild(force=True)
