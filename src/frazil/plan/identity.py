"""Identity of a table: the pipeline, source table and role in its bookmark.

The name alone is not enough: users swap names and move namespaces, and two pipelines can share a catalog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from frazil.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from frazil.spec.tables import LakeTable, Role


class OtherOwnerError(DeclarationError):
    """A table of the lake belongs to another pipeline, another source table or another layer."""

    code = "FZ108"

    def __init__(self, name: str, owner: str, wanted: str) -> None:
        self.name, self.owner, self.wanted = name, owner, wanted
        super().__init__(
            f"{name} belongs to {owner}, and the declaration wants it for {wanted}",
            hint="give this pipeline namespaces or table names of its own; or, where the table is not needed any more, "
            "remove it with frazil drop, run with the declaration that it belongs to",
        )


def role_of(bookmark: Mapping[str, Any]) -> Role | None:
    """Return the role in a bookmark; for older bookmarks without one, infer it from other entries, else None."""
    if "role" in bookmark:
        role: Role = bookmark["role"]
        return role
    signs: dict[str, Role] = {"gold": "gold", "fields": "bronze", "since": "silver"}
    return next((role for sign, role in signs.items() if sign in bookmark), None)


def belongs(table: LakeTable, bookmark: Mapping[str, Any], *, pipeline: str) -> bool:
    """Return whether a table of the lake is the declared one.

    Args:
        table: the table of the declaration.
        bookmark: bookmark of its newest commit; empty for a table never written, which belongs to its first writer.
        pipeline: name of the pipeline.

    Returns:
        False for a mart of another source table of the same pipeline, which can be rebuilt from this table's changes.
        True otherwise.

    Raises:
        OtherOwnerError: the table belongs to another pipeline, has another role, or has another table's records.
    """
    if not bookmark:
        return True
    made_of, found = table.made_of, role_of(bookmark) or table.role
    theirs, source = bookmark.get("pipeline", pipeline), bookmark.get("gold" if found == "gold" else "table", made_of)
    if theirs == pipeline and found == table.role and (source == made_of or found == "mart"):
        return bool(source == made_of)
    owner = f"pipeline {theirs!r}, as the {found} of {source!r}"
    raise OtherOwnerError(table.full_name, owner, f"the {table.role} of {made_of!r} of pipeline {pipeline!r}")
