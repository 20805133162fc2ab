"""What of an audit log is landed, kept in a file beside the landing files."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from frazil.sources.capture import land_file

if TYPE_CHECKING:
    from pathlib import Path

    from frazil.spec.model.kinds.audit_log import AuditLog


@dataclass(slots=True)
class Bookmark:
    """What was landed so far.

    Attributes:
        number: of the last turn that landed files.
        snapshot: text of the snapshot that saw all that is landed; empty before the first turn.
        system: identifier of the database's cluster; empty where it may not be asked.
        database: name of the database: all databases of a cluster share its transactions.
        tables: tables that are level with the snapshot.
        seen: numbers of records that are landed although the snapshot is not sure of their transactions.
        low: records up to this number are landed for sure.
        fence: a number that will be ``low`` once all transactions before ``fence_xid`` have ended.
        fence_xid: drawn a turn after ``fence``; 0 where it is not drawn.
        greatest: of the numbers that were landed.
        filenode: of the sequence that numbers are drawn from, which another one tells that it began again; 0 for none.
    """

    number: int = 0
    snapshot: str = ""
    system: str = ""
    database: str = ""
    tables: list[str] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    low: int = 0
    fence: int = 0
    fence_xid: int = 0
    greatest: int = 0
    filenode: int = 0

    @classmethod
    def read(cls, path: Path) -> Bookmark:
        """Read the bookmark; one of nothing where there is no file yet."""
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else cls()

    def write(self, path: Path) -> None:
        """Write the bookmark, whole or not at all."""
        text = json.dumps(asdict(self))
        land_file(path, lambda part: _write(part, text))


def bookmark_path(root: Path, spec: AuditLog) -> Path:
    """Return where the bookmark of a log is."""
    return root / f".{spec.log}.bookmark.json"


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
