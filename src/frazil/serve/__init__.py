"""Looks at the lake without a JVM: the catalog and the metadata are read as files, the rows by DuckDB.

Nothing here writes to the lake. The order of the modules: ``catalogs`` and ``tables`` find the tables,
``duck`` reads them; ``query``, ``status``, ``key`` and ``check`` answer, ``plain`` writes answers as JSON.
"""

from __future__ import annotations
