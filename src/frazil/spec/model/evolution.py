"""Policies for changes of a source's schema."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from frazil.spec.model.base import Spec

OnChange: TypeAlias = Literal["evolve", "keep", "quarantine", "fail"]
"""Follow the change; keep the tables unchanged; send records with the change to quarantine; stop the run."""


class Evolution(Spec):
    """Policies for new, missing and retyped fields of a source."""

    on_new_column: OnChange | None = Field(
        default=None,
        description="A field that the source did not have: evolve (a new column), keep (in bronze alone), quarantine "
        '(records with a value in it) or fail. Left out: evolve; keep where columns are declared without "*".',
    )
    on_missing_column: Literal["keep", "quarantine", "fail"] = Field(
        default="keep",
        description="A field that new files lack: keep (rows keep the values that they had), quarantine (records "
        "without it) or fail.",
    )
    on_type_change: OnChange = Field(
        default="quarantine",
        description="A field whose type at the source is another one: quarantine (a wider type widens the column; "
        "values that fit neither wait), evolve (a type that holds both, at last text), keep (the column "
        "stays as it is) or fail.",
    )
