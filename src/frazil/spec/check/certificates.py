"""The rules over certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.spec.load.problem import Problem
from frazil.spec.secrets import is_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.model.pipeline import Pipeline


def certificate_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Find what is wrong with the key of certificates."""
    key, at = pipeline.certificate_key, ("certificate_key",)
    if key is None:
        return
    if not is_reference(key):
        # The text itself never goes into a message.
        hint = "write ${env:SEAL_KEY} or ${file:path}"
        yield Problem(at, "'certificate_key' is a secret in plain text", hint)
    if not pipeline.certificates:
        yield Problem(at, "there is a certificate_key, and no certificates", "write certificates: true")
