"""The rules over sources and folders: settings of each kind of source, paths that exist, a lake outside of them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from frazil.errors import DeclarationError
from frazil.spec.check.composed import changes_table, handover_problems, shard_tables, sharded_problems
from frazil.spec.contract import is_closed, is_headerless, layout, repeated
from frazil.spec.load.problem import Problem, suggestion
from frazil.spec.location import embedded_catalog, locate, warehouse
from frazil.spec.model.kinds.debezium import DECIMAL, ENCODINGS, OP
from frazil.spec.model.pipeline import EmbeddedCatalog
from frazil.spec.model.stores import is_store
from frazil.spec.secrets import broken_reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frazil.spec.load.problem import Path
    from frazil.spec.location import Location
    from frazil.spec.model.pipeline import Pipeline, Table
    from frazil.spec.model.source import SourceSpec


def dms_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Yield problems of a ``dms`` source; ``at`` is its path in the declaration."""
    yield from _naming_of_fields(table, at)
    if table.source.csv_no_sup_value is not None and table.source.csv_no_sup_value == table.source.csv_null_value:
        message = f"csv_no_sup_value in the source of table '{table.name}' is csv_null_value"
        yield Problem((*at, "csv_no_sup_value"), message, "leave it out: what was not logged cannot be told from NULL")
    yield from _names(table, at)
    yield from _other_fields(table, (*at, "other_fields"))
    yield from _encoding(table, (*at, "encoding"))
    yield from _fields(table, at)
    yield from _signs(table, at)
    yield from _transaction_files(table, at)
    yield from _change_seq(table, (*at, "change_seq"))
    yield from _before_image(table, (*at, "before_image_prefix"))


def _naming_of_fields(table: Table, at: Path) -> Iterator[Problem]:
    source, whose = table.source, f"the source of table '{table.name}'"
    if source.header and source.format == "parquet":
        yield Problem((*at, "header"), f"header in {whose} is for CSV; Parquet files name their fields")
    if source.fields is not None and not is_headerless(table):
        why = "the header names the fields" if source.format == "csv" else "Parquet files name their fields"
        yield Problem((*at, "fields"), f"fields in {whose} has no use: {why}", "leave it out")
    if is_headerless(table) and not source.fields and (not is_closed(table) or not layout(table)):
        yield Problem(
            at,
            f"{whose} has CSV files without a header, and nothing names their fields",
            'write fields: [...] in file order, declare columns without "*", or set header: true',
        )


def _names(table: Table, at: Path) -> Iterator[Problem]:
    source, whose = table.source, f"names in the source of table '{table.name}'"
    if source.names and source.format == "csv" and not source.header:
        yield Problem(
            (*at, "names"), f"{whose} has no use: CSV without a header names no fields", "name them in fields"
        )


def _encoding(table: Table, at: Path) -> Iterator[Problem]:
    source, ascii_signs = table.source, bytes(range(128))
    try:
        is_known = ascii_signs.decode(source.encoding) == ascii_signs.decode()
    except (LookupError, UnicodeError):
        is_known = False
    if not is_known:
        message = f"encoding of the source of table '{table.name}' is '{source.encoding}', which cannot be read"
        yield Problem(at, message, "write one that Python knows and ASCII is a part of, such as latin-1 or cp1252")


def _other_fields(table: Table, at: Path) -> Iterator[Problem]:
    source, whose = table.source, f"other_fields in the source of table '{table.name}'"
    if source.other_fields and (source.fields is None or source.header or source.format != "csv"):
        yield Problem(at, f"{whose} applies only to fields of headerless CSV", "leave it out, or write fields")
        return
    counts = [len(source.fields or ())]
    for index, fields in enumerate(source.other_fields):
        if unknown := [name for name in fields if name not in source.fields]:
            message = f"{whose} names '{unknown[0]}', which is not one of fields"
            yield Problem((*at, index), message, suggestion(unknown[0], source.fields))
        if repeated(fields) or len(fields) in counts:
            yield Problem((*at, index), f"{whose} needs lists of different lengths, each field once")
        counts.append(len(fields))


def _fields(table: Table, at: Path) -> Iterator[Problem]:
    fields = table.source.fields or ()
    for name in repeated(fields):
        yield Problem((*at, "fields"), f"field '{name}' of table '{table.name}' is listed twice")
    for index, field in enumerate(fields):
        if field.lower() == table.source.op.lower():
            message = f"fields of table '{table.name}' lists the op column '{field}'"
            yield Problem((*at, "fields", index), message, "leave it out: it precedes the fields")


def _signs(table: Table, at: Path) -> Iterator[Problem]:
    source, whose = table.source, f"the source of table '{table.name}'"
    for setting, sign in (("csv_delimiter", source.csv_delimiter), ("csv_escape", source.csv_escape)):
        # Records are cut at single bytes, which is right in UTF-8 for ASCII only.
        if sign is not None and (not sign.isascii() or sign in {'"', "\r", "\n", "\0"}):
            hint = "write one ASCII character, neither quote, line end nor NUL"
            yield Problem((*at, setting), f"{setting} of {whose} cannot work", hint)
    if source.csv_escape == source.csv_delimiter:
        yield Problem((*at, "csv_escape"), f"csv_escape of {whose} is the delimiter")


def _transaction_files(table: Table, at: Path) -> Iterator[Problem]:
    source, whose, here = table.source, f"cdc_table of table '{table.name}'", (*at, "cdc_table")
    if source.cdc_table is None:
        return
    if source.cdc_path is None:
        yield Problem(here, f"{whose} applies only with cdc_path", "leave it out")
    if "." not in source.cdc_table:
        yield Problem(here, f"{whose} is not schema.table", "write public.hosts or the like")


def _change_seq(table: Table, at: Path) -> Iterator[Problem]:
    name, fields, whose = table.source.change_seq, layout(table), f"of table '{table.name}'"
    if name is None:
        return
    if not name.strip() or name.lower() == table.source.op.lower():
        yield Problem(at, f"change_seq {whose} must name a field other than the op column")
    elif fields and name not in fields:
        message = f"change_seq {whose} names '{name}', which is not one of its fields"
        yield Problem(at, message, suggestion(name, fields))


def _before_image(table: Table, at: Path) -> Iterator[Problem]:
    prefix, fields, whose = table.source.before_image_prefix, layout(table) or (), f"of table '{table.name}'"
    if prefix is None:
        return
    missing = [prefix + key for key in table.keys if key in fields and prefix + key not in fields]
    if not prefix.strip():
        yield Problem(at, f"before_image_prefix {whose} is empty", "write BI_ or the like, or leave it out")
    elif missing:
        message = f"before_image_prefix {whose} is '{prefix}', but the field '{missing[0]}' is missing"
        yield Problem(at, message, "add it to the fields; without it a changed key is not seen")


_OF_A_DATABASE: Final = ("log", "landing", "xid")
_COLUMNS: Final = ("event_id", "operation", "timestamp", "schema_name", "table_name", "data", "old_data", "xid")


def audit_log_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Yield problems of an ``audit_log`` source; ``at`` is its path in the declaration."""
    source, whose = table.source, f"the source of table '{table.name}'"
    if (source.path is None) == (source.url is None):
        what = "neither path nor url" if source.path is None else "both path and url"
        yield Problem(at, f"{whose} has {what}", "write path for files of the log, or url and log for its database")
    elif source.path is not None:
        for setting in _OF_A_DATABASE:
            if getattr(source, setting) is not None:
                yield Problem((*at, setting), f"{setting} of {whose} applies only with url", "leave it out")
    else:
        yield from (
            Problem(at, f"{whose} has a url and no {setting}", hint)
            for setting, hint in (
                ("log", "write log: public.audit_log_dml or the like"),
                ("landing", "write landing: ./landing/audit_log or the like; the log is captured there"),
            )
            if not getattr(source, setting)
        )
    named = [(setting, getattr(source, setting)) for setting in _COLUMNS if getattr(source, setting) is not None]
    for setting, name in named:
        if not name.strip():
            yield Problem((*at, setting), f"{setting} of {whose} is empty")
    for name in repeated(name for _, name in named):
        settings = [setting for setting, one in named if one.lower() == name]
        yield Problem((*at, settings[1]), f"{' and '.join(settings)} of {whose} are the same column '{name}'")
    if any(part in {"", ".", ".."} or "/" in part for part in source.table.split(".")):
        yield Problem((*at, "table"), f"table of {whose} is not schema.table", "write public.orders or the like")


def debezium_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Yield problems of a ``debezium`` source; ``at`` is its path in the declaration."""
    yield from _place(table, at)
    source, whose = table.source, f"the source of table '{table.name}'"
    if source.form == "envelope" and source.op != OP:
        yield Problem((*at, "op"), f"op of {whose} has no use: an envelope has its own", "write form: flat")
    for field, encoding in source.encodings.items():
        yield from _value_encoding(table, field, encoding, (*at, "encodings", field))


def _place(table: Table, at: Path) -> Iterator[Problem]:
    source, whose = table.source, f"the source of table '{table.name}'"
    kafka = {"servers": source.servers, "topic": source.topic, "landing": source.landing}
    given = [setting for setting, value in kafka.items() if value is not None]
    if source.path is not None:
        for setting in [*given, *(["properties"] if source.properties else [])]:
            yield Problem((*at, setting), f"{whose} has path, and {setting}, which is for a topic", "leave one out")
        if not source.path:
            yield Problem((*at, "path"), f"path of {whose} names nothing", "name a folder, such as ./landing")
    elif not given:
        yield Problem(at, f"{whose} has neither files nor a topic", "write path, or servers, topic and landing")
    else:
        for setting, value in kafka.items():
            if not (value or "").strip():
                yield Problem((*at, setting), f"{whose} is a topic, and has no {setting}")


def _value_encoding(table: Table, field: str, encoding: str, at: Path) -> Iterator[Problem]:
    whose = f"'{field}' in encodings of the source of table '{table.name}'"
    if encoding not in ENCODINGS and not DECIMAL.fullmatch(encoding):
        known = (*ENCODINGS, "decimal(scale)")
        yield Problem(at, f"{whose} is '{encoding}', which is not an encoding", suggestion(encoding, known))
    columns = table.columns or ()
    names = [column.name for column in columns]
    # A field without a column can still have values outside its schema: text lets such records pass.
    if encoding != "text" and is_closed(table) and field not in names and not any(column.expr for column in columns):
        yield Problem(at, f"{whose} is not one of the columns", suggestion(field, names))


def postgres_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Yield problems of a ``postgres`` source; ``at`` is its path in the declaration."""
    source, whose = table.source, f"the source of table '{table.name}'"
    if not all(part.strip() for part in source.schema_and_name):
        yield Problem((*at, "table"), f"{whose} names no table", "write public.orders or the like")
    if any(sign in source.landing for sign in "*?["):
        yield Problem((*at, "landing"), f"landing of {whose} is a pattern", "name one folder")


def snapshot_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Yield problems of a ``snapshot`` source; ``at`` is its path in the declaration."""
    source, whose = table.source, f"the source of table '{table.name}'"
    if (source.path is None) == (source.url is None):
        what = "neither path nor url" if source.path is None else "both path and url"
        yield Problem(at, f"{whose} has {what}", "write path for a folder of dumps, or url and table for a database")
    elif source.url is None:
        yield from (
            Problem((*at, setting), f"{setting} of {whose} applies only with url", "leave it out")
            for setting in ("table", "every_minutes")
            if setting in source.model_fields_set
        )
    elif not all(part.strip() for part in source.schema_and_table):
        yield Problem(at, f"{whose} names no table", "write table: public.prices or the like")
    elif "settle_seconds" in source.model_fields_set:
        yield Problem((*at, "settle_seconds"), f"settle_seconds of {whose} has no use with url", "leave it out")


def source_problems(table: Table, at: Path) -> Iterator[Problem]:
    """Yield problems of a table's source; ``at`` is the path of the source."""
    for setting, paths in table.source.locations.items():
        if not all(path.strip() for path in paths):
            yield Problem((*at, setting), f"an empty {setting} in the source of table '{table.name}'")
    shards = shard_tables(table)
    if shards:
        yield from sharded_problems(table, at)
    parts = [((*at, "shards", name), one) for name, one in shards.items()]
    if (changes := changes_table(table)) is not None:
        yield from handover_problems(table, at)
        snapshots = table.model_copy(update={"source": table.source.snapshots})
        parts += [((*at, "changes"), changes), ((*at, "snapshots"), snapshots)]
    for here, one in parts or ((at, table),):
        yield from _RULES.get(one.source.kind, _no_rules)(one, here)


def _no_rules(table: Table, at: Path) -> Iterator[Problem]:
    del table, at
    yield from ()


_RULES: Final = {
    "audit_log": audit_log_problems,
    "debezium": debezium_problems,
    "dms": dms_problems,
    "postgres": postgres_problems,
    "snapshot": snapshot_problems,
}
"""``kind`` of a source -> the rules of this kind."""


_ANY_DEPTH: Final = "**"


def path_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Yield folders that cannot be resolved, and sources whose recursive search would include the warehouse."""
    lake: tuple[str, ...] | None = None
    try:
        lake = _parts(warehouse(pipeline))
        if isinstance(pipeline.lake.catalog, EmbeddedCatalog):
            embedded_catalog(pipeline)
    except DeclarationError as error:
        yield from _unknown(("lake", "warehouse"), pipeline.lake.warehouse, error)
    for index, table in enumerate(pipeline.tables):
        yield from _landing(table.source, ("tables", index, "source"))
        for setting, paths in table.source.locations.items():
            for number, path in enumerate(paths):
                at = ("tables", index, "source", setting, number)
                try:
                    parts = _parts(locate(path, setting=setting, folder=pipeline.folder))
                except DeclarationError as error:
                    yield from _unknown(at, path, error)
                    continue
                if lake is not None and _meets(parts, lake):
                    yield Problem(
                        at,
                        f"the warehouse {pipeline.lake.warehouse} is below {setting} '{path}' of the source of table "
                        f"'{table.name}': the source would read its files",
                        "give the lake a folder beside the landing folder",
                    )


def _landing(source: SourceSpec, at: Path) -> Iterator[Problem]:
    """Yield landing folders in object stores: captures write to local folders only."""
    for name, shard in getattr(source, "shards", {}).items():
        yield from _landing(shard, (*at, "shards", name))
    landing = getattr(source, "landing", None)
    if landing is not None and is_store(landing):
        yield Problem((*at, "landing"), f"'{landing}' is no folder of this machine, and captures land in one")


def _unknown(at: Path, text: str, error: DeclarationError) -> Iterator[Problem]:
    """Yield a folder that cannot be resolved; other rules report empty texts and unknown references."""
    if text.strip() and not broken_reference(text):
        yield Problem(at, error.message, error.hint)


def _parts(place: Location) -> tuple[str, ...]:
    if place.path is not None:
        return place.path.resolve().parts
    scheme, _, rest = place.uri.partition("://")
    return ("s3" if scheme in {"s3a", "s3n"} else scheme, *filter(None, rest.split("/")))


def _meets(pattern: tuple[str, ...], warehouse: tuple[str, ...]) -> bool:
    """Return whether a pattern matches the warehouse, a folder above it, or folders inside it."""
    for wanted, part in zip_longest(pattern, warehouse):
        if wanted is None or part is None or wanted == _ANY_DEPTH:
            # A folder in the warehouse can be a landing folder if the path has no pattern.
            return wanted is None or wanted == _ANY_DEPTH or any(set(text) & set("*?[") for text in pattern)
        if not fnmatchcase(part, wanted):
            return False
    return True
