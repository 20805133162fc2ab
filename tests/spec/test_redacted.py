"""Addresses can be shown, but not their logins."""

from __future__ import annotations

import pytest

from frazil.spec.secrets import redacted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://key:word@bucket/in", "s3://***@bucket/in"),
        ("no folder 'https://ada@host/x' here", "no folder 'https://***@host/x' here"),
        (
            "jdbc:postgresql://h/db?user=ada&password=word&ssl=true",
            "jdbc:postgresql://h/db?user=ada&password=***&ssl=true",
        ),
        ("https://h/x?X-Amz-Signature=abc&part=1", "https://h/x?X-Amz-Signature=***&part=1"),
        ("https://h/x?sig=abc", "https://h/x?sig=***"),
        ("/landing/a@b/c?d=e", "/landing/a@b/c?d=e"),
        ("file:///lake", "file:///lake"),
    ],
)
def test_logins_and_secrets_of_addresses_are_left_out(text: str, shown: str) -> None:
    assert redacted(text) == shown
