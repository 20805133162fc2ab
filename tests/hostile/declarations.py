"""Hostile declarations, and what ``frazil validate`` says of each: no rows of data, no Java."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RIGHT: Final = """\
pipeline: shop
lake: {warehouse: ./lake}
tables:
  - name: t
    source: {kind: dms, path: ./landing/t, header: true}
    keys: [id]
    sequence_by: [ts]
    columns: [{name: id, type: int}, {name: ts, type: timestamp}, {name: v}]
    marts: [{kind: current}]
gold: []
"""
"""A declaration without mistakes; the folder has a file of the fields id, ts and v."""

BOMB: Final = "gold: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"b{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]\n" for number in range(1, 9)
)


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit of the declaration above: some text of it in the place of other text."""

    name: str
    before: str
    after: str
    says: str


EDITS: Final = tuple(
    Edit(*row)
    for row in (
        # Text that is no declaration.
        (
            "a tab as indentation",
            "  - name: t",
            "\t- name: t",
            "4:1: not YAML: found character that cannot start any token",
        ),
        ("an unclosed brace", "{warehouse: ./lake}", "{warehouse: ./lake", "not YAML"),
        ("a NUL byte", "pipeline: shop", "pipeline: sh\0op", "not YAML"),
        ("an escape sequence of a terminal", "pipeline: shop", "pipeline: \x1b[2Jshop", "not YAML"),
        ("a tag that calls Python", "./lake", "!!python/object/apply:os.system [id]", "YAML tags such as"),
        ("a list that holds itself", "gold: []", "gold: &a [*a]", "alias *a has no complete anchor before it"),
        ("a mapping merged into itself", "gold: []", "upkeep: &a {<<: *a}", "alias *a has no complete anchor"),
        ("brackets 5,000 deep", "gold: []", f"gold: {'[' * 5_000}", "nested deeper than 40 levels"),
        ("a billion laughs", "gold: []", BOMB, "aliases add more than 200000 entries"),
        ("a setting twice", "gold: []", "pipeline: other", "'pipeline' is written twice, first in line 1"),
        ("a list as the name of a setting", "gold: []", "? [a, b]\n: c", "a setting's name must be text"),
        ("two documents", "gold: []", "---\npipeline: b", "a second YAML document"),
        # Settings that are not there, or not so.
        (
            "a setting misspelt",
            "sequence_by:",
            "sequnce_by:",
            "unknown setting 'sequnce_by' of table 't'; did you mean",
        ),
        ("a type misspelt", "type: int", "type: integr", "unknown type 'integr'"),
        ("a kind misspelt", "kind: current", "kind: curent", "did you mean 'current'?"),
        ("a number for a name", "name: t\n", "name: 12\n", 'must be text; put it in quotes: "12"'),
        ("no tables", "tables:\n  - name: t", "tabels:\n  - name: t", "did you mean 'tables'?"),
        (
            "a negative limit",
            "gold: []",
            "upkeep: {retain_last: -1}",
            "'retain_last' of the upkeep is -1; it must be 1 or more",
        ),
        (
            "a share of late changes above one",
            "keys: [id]",
            "keys: [id]\n    max_late_fraction: 2",
            "max_late_fraction",
        ),
        (
            "a share of repeated keys below zero",
            "keys: [id]",
            "keys: [id]\n    max_repeated_key_fraction: -1",
            "max_repeated_key_fraction",
        ),
        ("a header that may be", "header: true", "header: maybe", "header"),
        (
            "a way with digits that is none",
            "keys: [id]",
            "keys: [id]\n    beyond_microseconds: cut",
            "beyond_microseconds",
        ),
        ("another name of a field that is a list", "header: true", "header: true, names: [a, b]", "names"),
        (
            "a share above one",
            "keys: [id]",
            "keys: [id]\n    max_bad_fraction: 1.5",
            "'max_bad_fraction' of table 't' is 1.5; it must be 1.0 or less",
        ),
        ("a delimiter of two signs", "header: true", 'header: true, csv_delimiter: "||"', "is longer than 1 character"),
        (
            "a delimiter that quotes",
            "header: true",
            "header: true, csv_delimiter: '\"'",
            "cannot work; write one ASCII character",
        ),
        (
            "a line end as delimiter",
            "header: true",
            'header: true, csv_delimiter: "\\n"',
            "cannot work; write one ASCII character",
        ),
        ("a decimal of 39 digits", "type: int", "type: 'decimal(39,2)'", "unknown type 'decimal(39,2)' of column 'id'"),
        (
            "a decimal wider than itself",
            "type: int",
            "type: 'decimal(3,5)'",
            "unknown type 'decimal(3,5)' of column 'id'",
        ),
        # Names.
        ("a table name with a path", "name: t\n", "name: ../../etc/t\n", "is not 1 to 128 of a-z, 0-9 and _"),
        ("a table name of 129 letters", "name: t\n", f"name: {'a' * 129}\n", "is not 1 to 128 of a-z, 0-9 and _"),
        ("a namespace with a quote", "./lake}", "./lake, namespaces: {gold: 'a`b'}}", "is not 1 to 128"),
        ("a bookkeeping name", "name: v}", "name: _cdc_op}", "begins with '_cdc_', which is kept for bookkeeping"),
        ("a name of Iceberg's own", "name: v}", "name: _file}", "has a name that Iceberg keeps for itself"),
        (
            "a column that a history adds",
            "{name: v}]\n    marts: [{kind: current}]",
            "{name: valid_from}]\n    marts: [{kind: history}]",
            "valid_from",
        ),
        ("a column of many lines", "name: v}", 'name: "v\\nw"}', "not printable"),
        ("one column in two cases", "{name: v}", "{name: v}, {name: V}", "is declared 2 times"),
        (
            "two marts of one name",
            "{kind: current}",
            "{kind: current}, {kind: current, deletes: soft}",
            "makes 'marts.t'",
        ),
        ("a mart named as gold", "gold: []", "gold: [{name: t, sql: 'select 1 as x from {{ t }}'}]", "has the name of"),
        # Keys and order.
        ("no keys", "keys: [id]", "keys: []", "it needs at least one entry"),
        ("a key that is no column", "keys: [id]", "keys: [idd]", "which is not one of its columns; did you mean 'id'?"),
        ("a key that is not exact", "{name: id, type: int}", "{name: id, type: double}", "which is not exact"),
        ("an order by text that nobody chose", "{name: ts, type: timestamp}", "{name: ts}", "has no declared type"),
        (
            "a history without a time",
            RIGHT[RIGHT.index("[ts]") : RIGHT.index("gold: ")],
            "[id]\n    columns: [{name: id, type: int}]\n    marts: [{kind: history}]\n",
            "the history of table 't' has no event time",
        ),
        # Partitions.
        (
            "a month of text",
            "current}",
            "current, partition_by: ['month(v)']}",
            "partition 'month(v)' of the current mart of table 't' does not go with a string",
        ),
        (
            "a transform that is not",
            "current}",
            "current, partition_by: ['week(ts)']}",
            "unknown partition transform 'week(ts)'",
        ),
        ("a bucket of no size", "current}", "current, partition_by: ['bucket(0, id)']}", "write bucket(16, column)"),
        (
            "a transform with SQL",
            "current}",
            "current, partition_by: ['id) as select 1 --']}",
            "is not a partition transform",
        ),
        # Places.
        ("the lake inside the landing folder", "./lake", "./landing/t/lake", "is below path"),
        ("the same by way of ..", "./lake", "./other/../landing/t/lake", "is below path"),
        ("the same by way of a link", "./lake", "./link/lake", "is below path"),
        ("the same by a pattern", "./landing/t,", "'./**',", "is below path"),
        ("the same from the home folder", "./landing/t,", "'~',", "is below path"),
        ("the same from the root", "./landing/t,", "/,", "is below path"),
        ("the same as an address", "./landing/t,", "'file:FOLDER',", "is below path"),
        ("the same by transaction files", "header: true", "header: true, cdc_path: .", "is below cdc_path"),
        ("no warehouse", "./lake", "''", "the lake has no warehouse"),
        # Secrets.
        ("a password", "./lake}", "./lake, catalog: {type: jdbc, uri: x, password: hunter2}}", "in plain text"),
        (
            "a password in an address",
            "./lake}",
            "./lake, catalog: {type: jdbc, uri: 'x://a:hunter2@b'}}",
            "in plain text",
        ),
        ("a token", "./lake}", "./lake, catalog: {type: rest, uri: x, properties: {token: hunter2}}}", "in plain text"),
        ("a reference of no kind", "./lake", "'${vault:hunter2}'", "has a reference that is not known"),
        # SQL.
        ("an expression that is two", "{name: v}", "{name: v, expr: 'v; drop table t'}", "it must be one statement"),
        (
            "an expression that does not end",
            "{name: v}",
            "{name: v, expr: 'concat(v'}",
            "a parenthesis or bracket has no partner",
        ),
        ("a subquery", "{name: v}", "{name: v, expr: '(select 1)'}", "no windows, no subqueries, no *"),
        ("an aggregate", "{name: v}", "{name: v, expr: 'max(v)'}", "function max is not of one record"),
        (
            "a window",
            "{name: v}",
            "{name: v, expr: 'row_number() over (order by v)'}",
            "no windows, no subqueries, no *",
        ),
        ("the time of the run", "{name: v}", "{name: v, expr: 'now()'}", "function now is not allowed: a replay"),
        ("chance", "{name: v}", "{name: v, expr: 'rand()'}", "function rand is not allowed: a replay"),
        (
            "Java",
            "{name: v}",
            "{name: v, expr: \"reflect('java.lang.System', 'exit', '1')\"}",
            "function reflect is not allowed: it calls Java",
        ),
        ("a function that is not", "{name: v}", "{name: v, expr: 'nosuchfn(v)'}", "unknown function nosuchfn"),
        (
            "a field that is not",
            "{name: v}",
            "{name: w, expr: 'upper(nosuchfield)'}",
            "reads 'nosuchfield', which is not a field; known are op, id, ts, v",
        ),
        (
            "parentheses 2,000 deep",
            "{name: v}",
            f"{{name: v, expr: '{'(' * 2_000}v{')' * 2_000}'}}",
            "nested too deeply",
        ),
        ("gold that writes", "gold: []", "gold: [{name: g, sql: 'drop table x'}]", "it must be one SELECT"),
        (
            "gold in a circle",
            "gold: []",
            "gold: [{name: g, sql: 'select 1 as x from {{ h }}'}, {name: h, sql: 'select x from {{ g }}'}]",
            "reads itself",
        ),
        (
            "gold over files",
            "gold: []",
            "gold: [{name: g, sql: 'select * from csv.`/etc/passwd`'}]",
            "is read by its name; a mart is written {{ name }}",
        ),
        (
            "gold of no mart",
            "gold: []",
            "gold: [{name: g, sql: 'select 1 as x from {{ nosuch }}'}]",
            "reads 'nosuch', which is not a mart or an aggregate; known are t",
        ),
        (
            "gold with a template inside",
            "gold: []",
            "gold: [{name: g, sql: 'select 1 from {{ {{ t }} }}'}]",
            "a mart is written {{ name }}; other templates are not known",
        ),
        # Transaction files.
        ("a table of no folder", "header: true", "header: true, cdc_table: public.t", "applies only with cdc_path"),
        (
            "a table without schema",
            "header: true",
            "header: true, cdc_path: ./cdc, cdc_table: t",
            "is not schema.table",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Content:
    """The file in place of the declaration."""

    name: str
    put: Callable[[Path], object]
    code: int
    says: str


CONTENTS: Final = tuple(
    Content(*row)
    for row in (
        ("no file", lambda _: None, 2, "hint: frazil init writes one"),
        ("an empty file", lambda file: file.write_bytes(b""), 2, "1:1: the declaration is empty"),
        ("only a comment", lambda file: file.write_bytes(b"# later"), 2, "1:1: the declaration is empty"),
        ("one word", lambda file: file.write_bytes(b"shop"), 2, "must be settings (name: value)"),
        ("a list", lambda file: file.write_bytes(b"- a\n- b"), 2, "must be settings (name: value)"),
        ("a folder", lambda file: file.mkdir(), 2, "Is a directory"),
        ("a link to nothing", lambda file: file.symlink_to("gone.yml"), 2, "no declaration at"),
        ("a link to itself", lambda file: file.symlink_to(file), 2, "hint: it must be a text file in UTF-8"),
        ("UTF-16", lambda file: file.write_text(RIGHT, "utf-16"), 2, "hint: it must be a text file in UTF-8"),
        ("Latin-1", lambda file: file.write_bytes(b"pipeline: caf\xe9"), 2, "hint: it must be a text file in UTF-8"),
        (
            "a Parquet file",
            lambda file: file.write_bytes(b"PAR1\x00\xff\xfePAR1"),
            2,
            "it must be a text file in UTF-8",
        ),
        ("20 MB", lambda file: file.write_bytes(b"a: b\n" * 4_000_000), 2, "is larger than 4000000 characters"),
        ("JSON", lambda file: file.write_bytes(b'{"pipeline": 1'), 2, "not YAML: did not find expected ',' or '}'"),
        ("a mark of byte order", lambda file: file.write_text(RIGHT, "utf-8-sig"), 0, "no problems"),
        ("line ends of Windows", lambda file: file.write_bytes(RIGHT.replace("\n", "\r\n").encode()), 0, "no problems"),
        ("line ends of old Macs", lambda file: file.write_bytes(RIGHT.replace("\n", "\r").encode()), 0, "no problems"),
    )
)
"""What stands in ``frazil.yml``, and what is said of it."""
