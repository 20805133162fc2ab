"""What all declared values share."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """A declared value: frozen, keyword-only, no unknown settings, no side effect."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
