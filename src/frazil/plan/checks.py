"""Check a declaration against its sources: the names in it, and the settings that bronze was read with."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from frazil.errors import SchemaError
from frazil.marts.layout import mart_columns
from frazil.silver.evolution import added
from frazil.sources.kinds import source_of
from frazil.sources.record_files import ALL, NAMES, known_names
from frazil.spec.contract import added_columns, is_closed
from frazil.spec.load.problem import Problem, suggestion
from frazil.spec.model.mart import History, partition_transform
from frazil.spec.pii import clear_fields, kept_ways, treated_fields
from frazil.spec.sql.sql import fields_of, mart_references, select_problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from frazil.silver.contract import Contract
    from frazil.sources.base import SourceDelta
    from frazil.spec import Pipeline, Table
    from frazil.spec.load.problem import Path

_WORDS: Final = {
    "by_place": "whether files alone order the changes (neither sequence_by nor change_seq)",
    "fields": "the list of fields of files without header",
}


class SourceChangedError(SchemaError):
    """The declaration reads the source with other settings than bronze was read with."""

    code = "FZ504"


def check_reading(table: Table, bronze: Mapping[str, Any], taken: SourceDelta) -> None:
    """Raise if bronze was read with other settings, so that a fresh lake would have other records.

    Args:
        table: the declaration.
        bronze: bronze's bookmark; may be empty.
        taken: the new files of the source.

    Raises:
        SourceChangedError: a setting or the treatment of a field has changed.
        SecondTableError: the records belong to several tables, and the declaration names none.
    """
    known_names(table, bronze, taken.files)
    before: Mapping[str, Any] | None = bronze.get("reading")
    if before is None:
        return
    check_kept(table, bronze)
    if clear := clear_fields(table, bronze):
        raise SourceChangedError(
            f"table {table.name!r}: pii of its columns: bronze holds the values of {', '.join(clear)} as they came",
            hint=f"replace them in all of the lake: frazil erase --select {table.name} --pii; or take pii away again",
        )
    now = source_of(table).reading()
    for setting in sorted((before.keys() | now.keys()) - {"pii"}):
        old, new = before.get(setting), now.get(setting)
        if old == new or (setting == "fields" and old and list(new or ())[: len(old)] == list(old)):
            continue
        if setting == "table" and old is None:
            fits = new == ALL or [new] == bronze.get(NAMES, {}).get("")
        elif setting == "other_fields":
            fits = _keeps_lists(before, now)
        elif setting == "shards":
            fits = all(name == (new or {}).get(place, name) for place, name in (old or {}).items())
        elif setting == "path":
            fits = taken.known or not taken.files or set(old or ()) <= set(new or ())
        else:
            fits = setting == "by_place" and not taken.again
        if not fits:
            found = "" if setting != "path" else ", and none of the files there is known"
            raise SourceChangedError(
                f"table {table.name!r}: {_WORDS.get(setting, f'source.{setting}')} was {_shown(old)} when its files "
                f"were read and is {_shown(new)} now{found}",
                hint=f"set it back; or {_again(table)}",
            )


def _keeps_lists(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return True if files without header that were read by a list of fields are still read by the same list.

    The first record of a file chooses the list by its length. So a list of a new length changes no file that was read.
    """
    lists = {len(names): [*names] for names in (now["fields"], *now.get("other_fields", ()))}
    fields, others = [*before["fields"]], [[*names] for names in before.get("other_fields", ())]
    return lists.get(len(fields), fields) == fields and all(lists.get(len(names)) == names for names in others)


def check_kept(table: Table, bronze: Mapping[str, Any]) -> None:
    """Raise if the treatment of a field changed: its original values are lost.

    Args:
        table: the declaration.
        bronze: bronze's bookmark.

    Raises:
        SourceChangedError: the treatment of a field differs from that of its read records.
    """
    now = treated_fields(table, bronze.get("fields", {}))
    for name, way in kept_ways(table, bronze).items():
        if now.get(name) != way:
            raise SourceChangedError(
                f"table {table.name!r}: pii of its columns was {way} for {name} when its files were read and is "
                f"{_shown(now.get(name))} now; values that were replaced cannot be brought back",
                hint=f"set it back; or {_again(table)}",
            )


def _again(table: Table) -> str:
    return (
        f"drop what was read and read it again: frazil drop --select {table.name}, then frazil run "
        "(the files must still be at the source)"
    )


def _shown(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, dict):
        return ", ".join(f"{name} at {place}" for place, name in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else repr(value)


def name_problems(pipeline: Pipeline, contracts: Mapping[str, Contract]) -> list[Problem]:
    """Return problems of unknown fields and columns.

    Args:
        pipeline: a declaration without other problems.
        contracts: table -> its contract, as :attr:`frazil.plan.state.TableState.contract`; other tables are not
            checked.

    Returns:
        The problems in the order of the declaration. A declared column without a field is another error and not
        included.
    """
    found = [
        problem
        for table in pipeline.tables
        for problem in table_name_problems(pipeline, table, contracts.get(table.name))
    ]
    selects = (gold_name_problem(pipeline, index, contracts) for index in range(len(pipeline.gold)))
    return [*found, *(problem for problem in selects if problem is not None)]


def table_name_problems(pipeline: Pipeline, table: Table, contract: Contract | None) -> list[Problem]:
    """Return the unknown names of one table, as :func:`name_problems`; empty without a contract.

    Args:
        pipeline: the declaration.
        table: one of its tables.
        contract: its contract; None while no field is known.
    """
    at = ("tables", pipeline.tables.index(table))
    return [] if contract is None else [*_fields(table, contract, at), *_columns(table, contract, at)]


def gold_name_problem(pipeline: Pipeline, index: int, contracts: Mapping[str, Contract]) -> Problem | None:
    """Return the problem of an unknown column in the SELECT of an aggregate, or None.

    Args:
        pipeline: the declaration.
        index: number of the aggregate.
        contracts: as for :func:`name_problems`.
    """
    gold = pipeline.gold[index]
    wanted = mart_references(gold.sql)
    marts: dict[str, tuple[str, ...]] = {}
    for table in pipeline.tables:
        for mart in table.marts:
            name = table.mart_name(mart)
            if name in wanted and (contract := contracts.get(table.name)) is not None:
                marts[name] = tuple(mart_columns(mart, contract))
    problem = _select_problem(gold.sql, tuple(marts.items())) if len(marts) == len(wanted) else None
    if problem is None:
        return None
    return Problem(("gold", index, "sql"), f"sql of gold '{gold.name}': {problem[0]}", problem[1])


@lru_cache(256)
def _select_problem(sql: str, marts: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[str, str | None] | None:
    return select_problem(sql, dict(marts))


def _fields(table: Table, contract: Contract, at: Path) -> Iterator[Problem]:
    known = {name.lower() for name, _ in contract.fields}
    for index, column in enumerate(table.columns or ()):
        for field in fields_of(column.expr) if column.expr is not None else ():
            if field.lower() not in known:
                message = (
                    f"expr of column '{column.name}' of table '{table.name}' reads '{field}', which is not a field"
                )
                hint = suggestion(field, [name for name, _ in contract.fields])
                yield Problem((*at, "columns", index, "expr"), message, hint)


def _columns(table: Table, contract: Contract, at: Path) -> Iterator[Problem]:
    """Yield names of columns that an open contract lacks; ``spec.check`` handles closed ones."""
    if is_closed(table):
        return
    settings: list[tuple[Path, Collection[str], Collection[str]]] = [
        ((*at, "keys"), table.keys, contract.names),
        ((*at, "sequence_by"), table.sequence_by, contract.names),
        ((*at, "effective_at"), [table.effective_at] if table.effective_at else [], contract.names),
    ]
    for index, mart in enumerate(table.marts):
        here, own = (*at, "marts", index), (*contract.names, *added_columns(mart))
        settings.append(((*here, "sort_by"), mart.sort_by, own))
        settings.append(
            ((*here, "partition_by"), [partition_transform(text).column for text in mart.partition_by], own)
        )
        if isinstance(mart, History):
            tracks = ("track_history_columns", "track_history_except_columns")
            settings += [((*here, track), getattr(mart, track) or (), contract.names) for track in tracks]
    for path, names, known in settings:
        for name in names:
            if name not in known:
                message = f"{path[-1]} of table '{table.name}' names '{name}', which is not one of its columns"
                hint = f"a field of this name is called 'source_{name}'" if name.lower() in added(table) else None
                yield Problem(path, message, hint or suggestion(name, known))
