"""All problems of a declaration at once, without a look at files or tables.

pydantic checks the shape of each value; the rules here compare settings with one another.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from frazil.errors import DeclarationProblems
from frazil.spec.check.columns import column_problems, mart_problems, retention_problems
from frazil.spec.check.rules import reference_problems, rule_problems
from frazil.spec.check.source import path_problems, source_problems
from frazil.spec.load.problem import Problem, suggestion
from frazil.spec.model.notify import notify_problems
from frazil.spec.model.pipeline import JdbcCatalog, ServiceCatalog, verify_problems
from frazil.spec.model.stores import store_problems
from frazil.spec.pii import pii_problems
from frazil.spec.secrets import broken_reference, has_secret, is_reference, is_secret_name
from frazil.spec.sql.sql import circle, incremental_problems, mart_references, select_problems
from frazil.spec.tables import gold_table, source_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.model.pipeline import Pipeline

__all__ = ["Problem", "check_declaration", "problems"]

NAME: Final = re.compile(r"[a-z0-9_]{1,128}")
"""Pattern of table and namespace names: they become folders, and identifiers in every engine."""


def check_declaration(pipeline: Pipeline) -> None:
    """Raise if a declaration has problems.

    Raises:
        DeclarationProblems: with all problems, one line each.
    """
    if found := problems(pipeline):
        raise DeclarationProblems(str(problem) for problem in found)


def problems(pipeline: Pipeline) -> list[Problem]:
    """Return all problems of a pipeline, in the order of the declaration."""
    found = [*_lake(pipeline), *store_problems(pipeline.stores), *path_problems(pipeline), *_names(pipeline)]
    for index, table in enumerate(pipeline.tables):
        at = ("tables", index)
        found += [*source_problems(table, (*at, "source")), *column_problems(table, at), *rule_problems(table, at)]
        found += retention_problems(table, at)
        for number, mart in enumerate(table.marts):
            found += mart_problems(table, mart, (*at, "marts", number))
    found += [*pii_problems(pipeline), *certificate_problems(pipeline), *notify_problems(pipeline.notify)]
    found += [*verify_problems(pipeline.verify), *reference_problems(pipeline), *_gold(pipeline)]
    return list(dict.fromkeys(found))


def _lake(pipeline: Pipeline) -> Iterator[Problem]:
    lake = pipeline.lake
    if not lake.warehouse.strip():
        yield Problem(("lake", "warehouse"), "the lake has no warehouse", "name a folder, such as ./lake")
    texts: dict[Path, str] = {("lake", "warehouse"): lake.warehouse}
    catalog, at = lake.catalog, ("lake", "catalog")
    if isinstance(catalog, JdbcCatalog | ServiceCatalog):
        texts[*at, "uri"] = catalog.uri or ""
        texts |= {(*at, "properties", name): value for name, value in catalog.properties.items()}
    if isinstance(catalog, JdbcCatalog):
        texts[*at, "password"] = catalog.password or ""
    for prefix, store in pipeline.stores.items():
        known = {name: f"{value}" for name, value in store.model_dump(exclude_none=True).items()}
        texts |= {("stores", prefix, name): value for name, value in known.items()}
    if isinstance(catalog, ServiceCatalog) and catalog.type == "rest" and not catalog.uri:
        yield Problem(at, "the rest catalog has no uri")
    for i, table in enumerate(pipeline.tables):
        for setting, paths in table.source.locations.items():
            texts |= {("tables", i, "source", setting, k): path for k, path in enumerate(paths)}
        texts |= {("tables", i, "source", setting): text for setting, text in table.source.addresses.items()}
        for j, mart in enumerate(table.marts):
            place = ("tables", i, "marts", j, "properties")
            texts |= {(*place, name): value for name, value in mart.properties.items()}
    for path, text in texts.items():
        yield from _secret(path, text)


def _secret(path: Path, text: str) -> Iterator[Problem]:
    # The text itself never goes into a message: messages go to logs.
    name = str(path[-1])
    if broken := broken_reference(text):
        known = "known are ${env:NAME} and ${file:path}"
        yield Problem(path, f"'{name}' has a reference that is not known: {broken.split(':')[0]}:…", known)
    elif is_secret_name(name) and text and not is_reference(text):
        hint = f"write ${{env:{re.sub(r'[^A-Z0-9]', '_', name.upper())}}} or ${{file:path}}"
        yield Problem(path, f"'{name}' is a secret in plain text", hint)
    elif has_secret(text):
        yield Problem(path, f"'{name}' carries a password in plain text", "write ${env:NAME} in its place")


def _names(pipeline: Pipeline) -> Iterator[Problem]:
    spaces = pipeline.lake.namespaces
    for layer in type(spaces).model_fields:
        yield from _name(getattr(spaces, layer), f"namespace of {layer}", ("lake", "namespaces", layer))
    hint = "give one of them a name of its own"
    names = [table.name for table in pipeline.tables]
    again = {index for index, name in enumerate(names) if name in names[:index]}
    for index in sorted(again):
        yield Problem(("tables", index, "name"), f"two tables are named '{names[index]}'", hint)
    makers: dict[str, str] = {}
    for path, name, full, what in _made(pipeline):
        if path[0] == "tables" and path[1] in again:
            continue
        if full in makers:
            yield Problem(path, f"{what} makes '{full}', and so does {makers[full]}", hint)
        makers.setdefault(full, what)
        if name is not None:
            yield from _name(name, what, path)
    marts = {name: what for _, name, what in _marts(pipeline)}
    for index, gold in enumerate(pipeline.gold):
        if gold.name in marts:
            message = f"gold '{gold.name}' has the name of {marts[gold.name]}"
            yield Problem(("gold", index, "name"), message, "give one of them another name")


def _name(name: str, what: str, path: Path) -> Iterator[Problem]:
    if not NAME.fullmatch(name):
        fixed = re.sub(r"\W", "_", name.lower(), flags=re.ASCII)
        hint = f"'{fixed}' would do" if NAME.fullmatch(fixed) else None
        of = "" if f"'{name}'" in what else f" of {what}"
        yield Problem(path, f"name '{name}'{of} is not 1 to 128 of a-z, 0-9 and _", hint)


def _made(pipeline: Pipeline) -> Iterator[tuple[Path, str | None, str, str]]:
    """Yield every table and view: (place, declared name or None, full name, description)."""
    for i, table in enumerate(pipeline.tables):
        made, at, what = source_tables(pipeline, table), ("tables", i), f"table '{table.name}'"
        yield (*at, "name"), table.name, made.bronze.full_name, what
        for own in (made.changes, made.quarantine):
            yield (*at, "name"), None, own.full_name, what
        for j, (mart, own) in enumerate(zip(table.marts, made.marts, strict=True)):
            written = ("name",) if mart.name else ()
            yield (*at, "marts", j, *written), mart.name, own.full_name, f"the {mart.kind} mart of {what}"
        for own in made.views:
            view = (*at, "marts", next(j for j, mart in enumerate(table.marts) if mart is own.mart), "live_view")
            yield view, own.name, own.full_name, f"the live view of {what}"
    for i, gold in enumerate(pipeline.gold):
        yield ("gold", i, "name"), gold.name, gold_table(pipeline, gold).full_name, f"gold '{gold.name}'"


def _marts(pipeline: Pipeline) -> Iterator[tuple[Path, str, str]]:
    for i, table in enumerate(pipeline.tables):
        for j, mart in enumerate(table.marts):
            words = f"the {mart.kind} mart of table '{table.name}'"
            yield ("tables", i, "marts", j), table.mart_name(mart), words


def _gold(pipeline: Pipeline) -> Iterator[Problem]:
    marts = [name for _, name, _ in _marts(pipeline)]
    known = [*marts, *(gold.name for gold in pipeline.gold)]
    in_circle = circle(pipeline)
    for index, gold in enumerate(pipeline.gold):
        at, whose = ("gold", index, "sql"), f"sql of gold '{gold.name}'"
        found = select_problems(gold.sql)
        for text in found:
            yield Problem(at, f"{whose}: {text}")
        read = mart_references(gold.sql)
        for name in read:
            if name not in known:
                yield Problem(
                    at, f"{whose} reads '{name}', which is not a mart or an aggregate", suggestion(name, known)
                )
        if gold.name in in_circle:
            yield Problem(at, f"{whose} reads itself: {' reads '.join(in_circle)}", "leave one of these out")
        if gold.materialized != "incremental" or found:
            continue
        texts = [*incremental_problems(gold.sql)]
        texts += [
            f"{name} is an aggregate: only those over one mart are incremental"
            for name in read
            if name in known[len(marts) :]
        ]
        for text in texts:
            place = ("gold", index, "materialized")
            yield Problem(place, f"gold '{gold.name}' cannot be incremental: {text}", "declare materialized: table")


def certificate_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Yield problems of the certificate key."""
    key, at = pipeline.certificate_key, ("certificate_key",)
    if key is None:
        return
    if not is_reference(key):
        # The text itself never goes into a message.
        hint = "write ${env:SEAL_KEY} or ${file:path}"
        yield Problem(at, "'certificate_key' is a secret in plain text", hint)
    if not pipeline.certificates:
        yield Problem(at, "there is a certificate_key, and no certificates", "write certificates: true")
