"""Description of the marts for other tools: columns, keys and rules of each mart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from frazil.catalog.catalogs import NoLakeError
from frazil.serve.layers import layers
from frazil.serve.tables import tables
from frazil.silver.contract import settle
from frazil.silver.rules import row_rules
from frazil.spec.contract import added_columns
from frazil.spec.sql.sql import mart_named, referenced_fields
from frazil.spec.tables import source_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.silver.contract import Contract
    from frazil.silver.rules import RowRule
    from frazil.spec import Pipeline, Rule, Table
    from frazil.spec.model.mart import Mart
    from frazil.spec.tables import LakeTable


@dataclass(frozen=True, slots=True, kw_only=True)
class MartRule:
    """A rule of a whole mart.

    Attributes:
        rule: the declared rule.
        fields: referenced columns of the other mart.
        is_exact: whether all rows of the other mart are living rows.
    """

    rule: Rule
    fields: tuple[str, ...] = ()
    is_exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MartContract:
    """A mart as its readers see it.

    Attributes:
        table: its name in the catalog.
        source: its source table.
        mart: its declaration.
        columns: name -> type; columns of the contract, then the mart's own.
        keys: columns that identify a row of the source table.
        orders: columns that order its changes.
        rules: rules of single rows, including those that only warn.
        mart_rules: rules of all its living rows together.
    """

    table: LakeTable
    source: str
    mart: Mart
    columns: dict[str, str]
    keys: tuple[str, ...]
    orders: tuple[str, ...]
    rules: tuple[RowRule, ...]
    mart_rules: tuple[MartRule, ...] = ()

    @property
    def has_living_rows(self) -> bool:
        """Whether every row is living, so that it has neither deleted rows nor old versions."""
        return self.living == "true"

    @property
    def living(self) -> str:
        """Return the SQL condition of its living rows."""
        if self.mart.kind == "history":
            return "is_current and not is_deleted"
        return "not is_deleted" if self.mart.deletes == "soft" else "true"

    @property
    def required(self) -> frozenset[str]:
        """Return the columns that are never NULL."""
        return frozenset({*self.keys, *self.orders, *(rule.columns[0] for rule in self.rules if _is_required(rule))})

    @property
    def says(self) -> str:
        """Return its description, as one sentence."""
        if self.mart.kind == "history":
            return f"Every version of the rows of {self.source}."
        rest = ", deleted ones flagged" if self.mart.deletes == "soft" else ""
        return f"The rows of {self.source} as they are now{rest}."


def mart_contracts(pipeline: Pipeline) -> Iterator[MartContract]:
    """Yield every mart of a pipeline, in the order of the declaration; starts no JVM.

    Undeclared columns of the source are included once the lake has them.

    Raises:
        FrazilError: the catalog cannot be read.
    """
    for table in pipeline.tables:
        contract = _contract(pipeline, table)
        made = source_tables(pipeline, table).marts
        for mart, one in zip(table.marts, made, strict=True):
            yield MartContract(
                table=one,
                source=table.name,
                mart=mart,
                columns={column.name: column.type for column in contract.columns} | added_columns(mart),
                keys=contract.keys,
                orders=contract.sequence_by,
                rules=row_rules(contract),
                mart_rules=tuple(_mart_rule(pipeline, rule) for rule in contract.rules if rule.expr is None),
            )


def _mart_rule(pipeline: Pipeline, rule: Rule) -> MartRule:
    found = None if rule.references is None else mart_named(pipeline, rule.references.to)
    if found is None or rule.references is None:
        return MartRule(rule=rule)
    other, mart = found
    return MartRule(rule=rule, fields=referenced_fields(rule.references, other), is_exact=_has_living_rows(mart))


def _has_living_rows(mart: Mart) -> bool:
    return mart.kind == "current" and mart.deletes == "hard"


def _contract(pipeline: Pipeline, table: Table) -> Contract:
    try:
        return layers(pipeline, table, tables(pipeline)).contract
    except NoLakeError:
        return settle(table, {})


def _is_required(rule: RowRule) -> bool:
    return rule.name == "not_null" and rule.on_violation != "warn"
