"""Where a lake stands and what its sources offer, read without a JVM: what ``plan`` starts from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.plan.state import BRONZE, SILVER, State, gold_state, table_state
from frazil.serve.duck import connect, scan
from frazil.serve.tables import NoLakeError, stand, tables
from frazil.sources.offer import LEDGER_FIELDS, Ledger, offer

if TYPE_CHECKING:
    from frazil.serve.tables import Located
    from frazil.spec import Pipeline


def state(pipeline: Pipeline) -> State:
    """Read what a run would start from. A lake that does not exist yet stands nowhere.

    Raises:
        SourceError: a landing folder is missing.
        HistoryChangedError: a known file has other content.
    """
    try:
        located = tables(pipeline)
    except NoLakeError:
        located = {}
    spaces = pipeline.lake.namespaces
    found = {}
    for table in pipeline.tables:
        bronze = located.get((spaces.bronze, table.name))
        marts = {
            name: stand(located.get((spaces.marts, name))) for name in (table.mart_name(mart) for mart in table.marts)
        }
        bookmarks = {
            BRONZE: stand(bronze).bookmark,
            SILVER: stand(located.get((spaces.silver, f"{table.name}_changes"))).bookmark,
        } | {name: mart.bookmark for name, mart in marts.items()}
        ledger = _ledger(located, bronze) if bronze and bookmarks[BRONZE] else Ledger()
        rows = {name: mart.records for name, mart in marts.items()}
        found[table.name] = table_state(table, bookmarks, offer(table, pipeline.folder, ledger), rows)
    gold = {gold.name: stand(located.get((spaces.gold, gold.name))).bookmark for gold in pipeline.gold}
    return State(tables=found, gold=gold_state(pipeline, gold))


def _ledger(located: Located, bronze: str) -> Ledger:
    fields = ", ".join(f"_cdc_ledger.{name}" for name in LEDGER_FIELDS)
    with connect(located) as database:
        rows = database.execute(
            f"SELECT _cdc_file, _cdc_position, _cdc_batch, {fields} FROM {scan(bronze)} WHERE _cdc_kind = 'file'"
        ).fetchall()
    return Ledger.of(rows)
