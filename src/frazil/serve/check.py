"""``frazil check``: prove by DuckDB that the tables say what the changes say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.serve.check_files import prove_files
from frazil.serve.check_marts import prove_marts
from frazil.serve.duck import connect
from frazil.serve.finding import Finding, Proof
from frazil.serve.layers import layers
from frazil.serve.tables import NoLakeError, tables
from frazil.spec.select import selected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.spec import Pipeline

__all__ = ["Finding", "check"]


def check(pipeline: Pipeline, *, select: Sequence[str] = ()) -> list[Finding]:
    """Prove the laws that can be seen in the tables, as they are at this moment.

    - ONCE: no path and no content was taken twice.
    - NOTHING-LOST: the records of every file, counted anew at the source, are in bronze; every record of
      bronze is a change or in quarantine, and not both.
    - ONE ROW: a current table has a key at most once.
    - HISTORY: versions begin before they end and do not overlap; ``is_current`` says whether one is open.
    - CONVERGE: each mart holds exactly what all changes up to its batch fold to.
    - AGREE: marts of a table at one batch show the same living rows.

    Args:
        pipeline: the declaration.
        select: tables to look at, as for a run; all by default.

    Returns:
        The findings, those that hold too, table by table.

    Raises:
        NoLakeError: no table of the lake exists.
        UnknownSelectionError: a word of ``select`` matches nothing.

    Cost: reads all files of the source and all tables once or a few times; what does not fit into memory
    goes to temporary files.
    """
    located = tables(pipeline)
    if not located:
        raise NoLakeError(pipeline.lake.warehouse)
    names = selected(pipeline, select)
    findings: list[Finding] = []
    with connect(located) as connection:
        for table in pipeline.tables:
            if table.name not in names:
                continue
            here = layers(pipeline, table, located)
            proof = Proof(pipeline=pipeline, here=here, connection=connection)
            if not here.bronze.exists:
                findings.append(
                    Finding(law="NOTHING-LOST", table=here.bronze.name, ok=None, detail="no such table yet")
                )
                continue
            findings += [*prove_files(proof), *prove_marts(proof)]
    return findings
