"""What is tried: the kinds of lakes, the engines, and what each engine is asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final

ENGINES: Final = ("spark", "pyiceberg", "duckdb", "trino")
TRIED: Final = ("read", "write", "time travel", "maintenance")
CATALOGS: Final = ("sqlite", "postgresql", "rest", "glue")
STORES: Final = ("disk", "s3")
FORMATS: Final = (2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a lake stands on."""

    catalog: str
    store: str
    format_version: int

    @property
    def name(self) -> str:
        """Return the word for it on the command line, such as ``rest-s3-3``."""
        return f"{self.catalog}-{self.store}-{self.format_version}"


KINDS: Final = tuple(
    Kind(catalog=catalog, store=store, format_version=version)
    for catalog, store, version in product(CATALOGS, STORES, FORMATS)
    if (catalog, store) != ("rest", "disk")  # the catalog of SeaweedFS keeps tables in its own buckets only
)
