"""Whose a table of the lake is: the pipeline, source table and role that its bookmark names.

A table is known by its bookmark and never by its name alone: names are swapped, namespaces are moved, and two
pipelines may share a catalog.
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
    """Return the role that a bookmark names; of one from before it named any, what its other entries show, or None."""
    if "role" in bookmark:
        role: Role = bookmark["role"]
        return role
    signs: dict[str, Role] = {"gold": "gold", "fields": "bronze", "since": "silver"}
    return next((role for sign, role in signs.items() if sign in bookmark), None)


def belongs(table: LakeTable, bookmark: Mapping[str, Any], *, pipeline: str) -> bool:
    """Return whether a table is the one that a declaration means.

    Args:
        table: what the declaration wants it for.
        bookmark: what its newest commit says; empty for a table never written, which belongs to its first writer.
        pipeline: name of the pipeline.

    Returns:
        False for a mart that was made of another source table of the same pipeline: it is a pure function of that
        table's changes, so it can be rebuilt from this one's. True otherwise.

    Raises:
        OtherOwnerError: it is another pipeline's, or has another role, or another table's records.
    """
    if not bookmark:
        return True
    made_of, found = table.made_of, role_of(bookmark) or table.role
    theirs, source = bookmark.get("pipeline", pipeline), bookmark.get("gold" if found == "gold" else "table", made_of)
    if theirs == pipeline and found == table.role and (source == made_of or found == "mart"):
        return bool(source == made_of)
    owner = f"pipeline {theirs!r}, as the {found} of {source!r}"
    raise OtherOwnerError(table.full_name, owner, f"the {table.role} of {made_of!r} of pipeline {pipeline!r}")
