"""How DuckDB reaches an object store: the login, and the address of a store that is not Amazon's."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from frazil.errors import SetupError
from frazil.storage.store_client import login

if TYPE_CHECKING:
    from frazil.spec.model.stores import StoreAccess


class StoreUnknownToDuckDBError(SetupError):
    """DuckDB has no client here for a kind of object store."""

    code = "FZ911"

    def __init__(self, root: str) -> None:
        super().__init__(
            f"DuckDB cannot read {root} here: it reads S3 and what speaks its language",
            hint="ask Spark or Trino; frazil run, rebuild and maintain work on it",
        )


def duckdb_secret(access: StoreAccess, name: str) -> str:
    """Write the statement that lets DuckDB into what a login is for, and nowhere else. It can hold secrets.

    Raises:
        StoreUnknownToDuckDBError: it is not S3.
    """
    if access.scheme != "s3":
        raise StoreUnknownToDuckDBError(access.root)
    settings = {"TYPE": "s3", "REGION": access.get("region") or "us-east-1"}
    if known := login(access):
        settings |= {"KEY_ID": known["access_key_id"], "SECRET": known["secret_access_key"]}
        settings |= {"SESSION_TOKEN": known["session_token"]} if known.get("session_token") else {}
    if endpoint := access.get("endpoint"):
        parts = urlsplit(endpoint)
        settings |= {"ENDPOINT": f"{parts.netloc}{parts.path}".rstrip("/")}
        settings |= {"USE_SSL": "false" if parts.scheme == "http" else "true"}
    settings["URL_STYLE"] = "path" if access.path_style else "vhost"
    written = ", ".join(f"{key} {_literal(value)}" for key, value in settings.items())
    scopes = ", ".join(_literal(f"{scheme}://{access.bucket}/{access.below}") for scheme in ("s3", "s3a", "s3n"))
    return f"CREATE SECRET {name} ({written}, SCOPE [{scopes}])"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
