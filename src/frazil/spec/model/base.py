"""Base class of all declared values."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """A declared value: frozen, keyword-only, without unknown settings or side effects."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
