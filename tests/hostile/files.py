"""Hostile source files and values, and what becomes of their records; ``#`` is a number of each file's own."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HEADER: Final = "op,id,ts,v\n"
TS: Final = "2026-01-01 00:00:00"
ONE: Final = f"I,#1,{TS},a\n"
TWO: Final = f"I,#2,{TS},b\n"


@dataclass(frozen=True, slots=True)
class File:
    """One load file among others of a table: what is hostile in it, and how many records are kept or refused."""

    name: str
    content: str | bytes
    kept: int
    quarantined: int
    packed: Callable[[bytes], bytes] = bytes
    ending: str = ".csv"

    def stored(self, number: int) -> bytes:
        """Give the bytes of the file: ``#`` in text becomes its number, in a Parquet file it is any byte."""
        if isinstance(self.content, bytes) and self.content.startswith(b"PAR1"):
            return self.content
        content = self.content if isinstance(self.content, bytes) else self.content.encode()
        return self.packed(content.replace(b"#", b"%d" % number))


def _with_line_ends(data: bytes) -> bytes:
    """Return a gzip whose own bytes have line ends: those of a time."""
    return gzip.compress(data, mtime=int.from_bytes(b"\n\n\n\n", "little"))


def _twice(data: bytes) -> bytes:
    return gzip.compress(_with_line_ends(data))


def _cut(data: bytes) -> bytes:
    return gzip.compress(data)[:-9]


def _two_members(data: bytes) -> bytes:
    half = data.rindex(b"I,")
    return gzip.compress(data[:half]) + gzip.compress(data[half:])


def _utf16(data: bytes) -> bytes:
    return data.decode().encode("utf-16")


CSV: Final = tuple(
    File(*row)
    for row in (
        # What is in the file at all.
        ("an empty file", "", 0, 0),
        ("a header and no records", HEADER, 0, 0),
        ("a header without line end", "op,id,ts,v,w", 0, 0),
        ("a last record without line end", HEADER + ONE + TWO.strip(), 2, 0),
        ("blank lines", f"{HEADER}\n{ONE}\n\n{TWO}\n", 2, 0),
        ("a mark of byte order", "\ufeff" + HEADER + ONE, 1, 0),
        ("UTF-16", HEADER + ONE, 0, 1, _utf16),
        ("Latin-1 in one record", f"{HEADER}{ONE}".encode() + b"I,#2,2026-01-01 00:00:00,caf\xe9\n", 1, 1),
        ("a gzip that is cut off", HEADER + ONE * 2, 0, 1, _cut, ".csv.gz"),
        ("a gzip of a gzip", HEADER + ONE, 0, 1, _twice, ".csv.gz"),
        ("two gzips in one file", HEADER + ONE + TWO, 2, 0, _two_members, ".csv.gz"),
        ("a gzip that is none", HEADER + ONE, 0, 1, bytes, ".csv.gz"),
        ("a gzip called csv", HEADER + ONE, 0, 1, _with_line_ends),
        ("a header in Latin-1", HEADER.strip().encode() + b",caf\xe9\n" + (ONE + TWO).encode(), 0, 1),
        # Records.
        ("line ends of Windows", (HEADER + ONE + TWO).replace("\n", "\r\n"), 2, 0),
        ("line ends of old Macs", (HEADER + ONE + TWO).replace("\n", "\r"), 2, 0),
        ("line ends of all kinds", f"{HEADER}{ONE.strip()}\r\n{TWO.strip()}\rI,#3,{TS},c\n", 3, 0),
        ("NUL bytes in a text", HEADER + ONE.replace(",a", ",a\0b"), 1, 0),
        ("text after a quote", f'{HEADER}{ONE}I,#2,{TS},"ab"cd\n', 1, 1),
        ("a quote after a quoted text", f'{HEADER}{ONE}I,#2,{TS},"a"b"\n', 1, 1),
        ("a quote inside a text", f'{HEADER}{ONE}I,#2,{TS},a"b\n', 2, 0),
        ("a quote that never closes", f'{HEADER}{ONE}I,#2,{TS},"b\nI,#3,{TS},c\n', 1, 1),
        ("a line end in quotes", f'{HEADER}{ONE}I,#2,{TS},"b\nc"\n', 2, 0),
        ("a field of 2 MB", f"{HEADER}{ONE}I,#2,{TS},{'x' * 2_000_000}\n", 2, 0),
        ("too few fields", f"{HEADER}{ONE}I,#2,{TS}\n", 1, 1),
        ("too many fields", f"{HEADER}{ONE}I,#2,{TS},b,c\n", 1, 1),
        # Headers.
        (
            "2,000 fields",
            f"{HEADER.strip()},{','.join(f'c{n}' for n in range(2_000))}\n{ONE.strip()}{',x' * 2_000}\n",
            1,
            0,
        ),
        ("blanks around names", f"op, id ,ts,v\n{ONE}", 1, 0),
        ("a field without a name", f"op,id,ts,v,\n{ONE.strip()},x\n", 1, 0),
        ("no op column in a full load", f"id,ts,v\n#1,{TS},a\n", 1, 0),
        # Changes.
        ("an op that is not", f"{HEADER}{ONE}X,#2,{TS},b\nINSERT,#3,{TS},c\n", 1, 2),
        ("an op in lower case", f"{HEADER}{ONE}i,#2,{TS},b\n", 2, 0),
        ("a key of NULL", f"{HEADER}{ONE}I,NULL,{TS},b\nI,,{TS},b\n", 1, 2),
        ("an order of NULL", f"{HEADER}{ONE}I,#2,NULL,b\n", 1, 1),
    )
)
"""Files of one table of the columns id, ts and v."""

OPEN: Final = tuple(
    File(*row)
    for row in (
        ("names with signs", f"op,id,ts,v,a b,`x`,ünï,🐘,a.b,'; drop table t; --\n{ONE.strip()},1,2,3,4,5,6\n", 1, 0),
        ("names of bookkeeping", f"op,id,ts,v,_cdc_op,_file,_pos,_cdc_batch\n{ONE.strip()},1,2,3,4\n", 1, 0),
        ("names that marts add", f"op,id,ts,v,is_deleted,valid_from,is_current\n{ONE.strip()},1,2,3\n", 1, 0),
    )
)
"""Files of one table that takes whatever fields there are into a soft and a history mart."""


def _parquet(count: int = 1, **values: Any) -> bytes:
    stored = BytesIO()
    number = 900 + sum(map(ord, "".join(values)))
    columns = {"op": ["I"], "id": pa.array([number], "int32"), "ts": [TS], "v": ["a"], **values}
    pq.write_table(pa.table(columns)[:count], stored, use_deprecated_int96_timestamps=True)
    return stored.getvalue()


WHOLE: Final = _parquet()
PARQUET: Final = tuple(
    File(name, content, kept, quarantined, ending=".parquet")
    for name, content, kept, quarantined in (
        ("a decimal of 45 digits", _parquet(wide=pa.array([Decimal("1" * 45)], pa.decimal256(45, 0))), 1, 0),
        ("times as Impala has them", _parquet(ts=pa.array([1_767_225_600_000_000], pa.timestamp("us"))), 1, 0),
        ("nested values", _parquet(nested=[{"a": [1, None]}]), 1, 0),
        ("an unsigned number", _parquet(unsigned=pa.array([2**64 - 1], "uint64")), 1, 0),
        ("no records", _parquet(0), 0, 0),
        ("a footer that is damaged", WHOLE[:-20] + b"x" * 16 + b"PAR1", 0, 1),
        ("a file that is cut off", WHOLE[:100], 0, 1),
        ("a CSV file", HEADER + ONE, 0, 1),
        ("an empty file", "", 0, 1),
    )
)
"""Files of one table of the columns id, ts and v, in Parquet."""


@dataclass(frozen=True, slots=True)
class Value:
    """The text of one field: the type it is declared as, and how it is kept; None where it goes to quarantine."""

    text: str
    type: str
    kept: str | None


VALUES: Final = tuple(
    Value(*row)
    for row in (
        ("5", "int", "5"),
        (" 5 ", "int", "5"),
        ("5\t", "int", None),
        (" true ", "boolean", "true"),
        ("3\0", "int", None),
        ("5.0", "int", None),
        ("0x10", "int", None),
        ("1e3", "int", None),
        ("2147483648", "int", None),
        ("९", "int", None),
        ("9223372036854775808", "bigint", None),
        ("-9223372036854775808", "bigint", "-9223372036854775808"),
        ("1e400", "double", None),
        ("1e-400", "double", None),
        ("1,5", "double", None),
        ("1d", "double", None),
        ("1.005", "decimal(12,2)", None),
        ("12345678901.5", "decimal(12,2)", None),
        ("1.50", "decimal(12,2)", "1.50"),
        ("NaN", "decimal(12,2)", None),
        ("9" * 38, "decimal(38,0)", "9" * 38),
        ("9" * 39, "decimal(38,0)", None),
        ("TRUE", "boolean", "true"),
        ("maybe", "boolean", None),
        ("0000-00-00", "date", None),
        ("2026-02-30", "date", None),
        ("2024-02-29", "date", "2024-02-29"),
        ("today", "date", None),
        ("01/02/2026", "date", None),
        ("now", "timestamp_ntz", None),
        ("2026-01-01 25:00:00", "timestamp_ntz", None),
        ("2026-01-01 00:00:00.0000001", "timestamp_ntz", "2026-01-01 00:00:00"),
        # Digits.
        ("-0", "int", "0"),
        ("+5", "int", "5"),
        ("007", "int", "7"),
        ("1_000", "int", None),
        ("1,000", "int", None),
        ("--5", "int", None),
        (".5", "decimal(12,2)", "0.50"),
        ("5.", "decimal(12,2)", "5.00"),
        ("1e2", "decimal(12,2)", "100.00"),
        ("-0.00", "decimal(12,2)", "0.00"),
        ("0.001", "decimal(12,2)", None),
        ("$5", "decimal(12,2)", None),
        ("Infinity", "decimal(12,2)", None),
        ("0.1", "double", "0.1"),
        ("NaN", "double", "nan"),
        ("Infinity", "double", "inf"),
        ("1e308", "double", "1e+308"),
        ("0", "boolean", "false"),
        ("f", "boolean", "false"),
        ("yes", "boolean", None),
        ("2", "boolean", None),
        # Times at their ends, and with more digits than a microsecond has.
        ("0001-01-01", "date", "0001-01-01"),
        ("9999-12-31", "date", "9999-12-31"),
        ("10000-01-01", "date", None),
        ("-0044-03-15", "date", None),
        ("infinity", "date", None),
        ("2026-1-1", "date", None),
        ("20260101", "date", None),
        ("2026-01-01 00:00:00", "date", "2026-01-01"),
        ("2026-01-01 12:00:00", "date", None),
        ("0000-00-00 00:00:00", "timestamp_ntz", None),
        ("2026-01-01 24:00:00", "timestamp_ntz", None),
        ("2026-01-01 00:00:60", "timestamp_ntz", None),
        ("2026-01-01 00:00:00.123456", "timestamp_ntz", "2026-01-01 00:00:00.123456"),
        ("2026-01-01 00:00:00.1234567", "timestamp_ntz", "2026-01-01 00:00:00.123456"),
        ("2026-01-01 00:00:00.1234560", "timestamp_ntz", "2026-01-01 00:00:00.123456"),
        ("2026-01-01 00:00:00.123456789", "timestamp_ntz", "2026-01-01 00:00:00.123456"),
        ("2026-01-01T00:00:00", "timestamp_ntz", "2026-01-01 00:00:00"),
        ("2026-03-29 02:30:00", "timestamp_ntz", "2026-03-29 02:30:00"),
        ("2026-01-01 00:00:00+05:30", "timestamp_ntz", None),
        ("1767225600", "timestamp_ntz", None),
        ("30:15:00", "timestamp_ntz", None),
        ("__debezium_unavailable_value", "int", None),
        ("12", "expr", "12"),
        ("x", "expr", None),
    )
)
"""Values of one table, each the only field of its record."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A landing folder: how it is filled, how many files a plan takes of it, and what it says of what it does not."""

    name: str
    put: Callable[[Path], object]
    taken: int
    says: str
    source: str = "header: true"


def _files(contents: dict[str, str]) -> Callable[[Path], object]:
    def put(folder: Path) -> None:
        for name, content in contents.items():
            (folder / name).write_text(content, encoding="utf-8")

    return put


def _beside(entry: Callable[[Path], object]) -> Callable[[Path], object]:
    def put(folder: Path) -> None:
        (folder / "LOAD1.csv").write_text(HEADER + ONE, encoding="utf-8")
        entry(folder)

    return put


ENTRIES: Final = tuple(
    Entry(*row)
    for row in (
        ("an empty folder", _files({}), 0, ""),
        ("no folder", lambda at: at.rmdir(), 0, "FZ201"),
        ("a file in place of the folder", lambda at: (at.rmdir(), at.write_text("x")), 0, "not .csv or .csv.gz"),
        ("a link to itself", _beside(lambda at: (at / "loop.csv").symlink_to(at / "loop.csv")), 0, "FZ201"),
        ("a folder that links to itself", _beside(lambda at: (at / "loop").symlink_to(at)), 1, ""),
        ("a link that leads out", _beside(lambda at: (at / "b.csv").symlink_to("/etc/passwd")), 1, "leads out of"),
        ("a link to nothing", _beside(lambda at: (at / "b.csv").symlink_to("gone.csv")), 1, "b.csv"),
        ("a pipe", _beside(lambda at: os.mkfifo(at / "b.csv")), 1, "b.csv"),
        ("a folder called csv", _beside(lambda at: (at / "b.csv").mkdir()), 1, ""),
        ("a name that is no UTF-8", _beside(lambda at: (at / os.fsdecode(b"\xff.csv")).touch()), 1, "UTF-8"),
        ("hidden names", _beside(_files({".b.csv": "x", "_c.csv": "x", "d.csv.tmp": "x"})), 1, ""),
        ("a packed file", _beside(_files({"b.zip": "x"})), 1, "packed as zip"),
        ("Parquet beside CSV", _beside(_files({"b.parquet": "x"})), 1, "the source says format: csv"),
        ("one content under two names", _beside(_files({"LOAD2.csv": HEADER + ONE})), 1, ""),
        ("no header", _files({"LOAD1.csv": ONE}), 0, "FZ205"),
        ("another separator", _files({"LOAD1.csv": HEADER.replace(",", ";")}), 0, "FZ502"),
        ("Parquet called csv", lambda at: (at / "LOAD1.csv").write_bytes(WHOLE), 0, "FZ502"),
        ("a field twice", _files({"LOAD1.csv": "op,id,ts,v,v\n"}), 0, "FZ501"),
        ("a field in two cases", _files({"LOAD1.csv": "op,id,ts,v,V\n"}), 0, "FZ501"),
        (
            "a field in two cases, named",
            _files({"LOAD1.csv": "op,id,ts,v,V\n"}),
            1,
            "",
            "header: true, names: {V: v_2}",
        ),
        (
            "a field in two cases, with another one named",
            _files({"LOAD1.csv": "op,id,ts,v,V\n"}),
            0,
            "FZ501",
            "header: true, names: {v_2: w}",
        ),
        ("names where none are declared", _files({"LOAD1.csv": HEADER + ONE}), 0, "FZ205", ""),
        ("names alone", _files({"LOAD1.csv": HEADER}), 0, "FZ205", ""),
        ("names in quotes", _files({"LOAD1.csv": '"Op","Id","Ts","V"\n' + ONE}), 0, "FZ205", ""),
        ("names behind a mark of byte order", _files({"LOAD1.csv": "\ufeff" + HEADER + ONE}), 0, "FZ205", ""),
        (
            "names in the second file",
            _files(
                {"LOAD1.csv": ONE.replace("I,", ""), "LOAD2.csv": "id,ts,v\n" + ONE.replace("I,", "").replace("1", "2")}
            ),
            0,
            "FZ205",
            "",
        ),
        ("names of change files", _files({"20260101-000000000.csv": HEADER + ONE}), 0, "FZ205", ""),
        (
            "names that are said to be a record",
            _files({"LOAD1.csv": "id,ts,v\n1,2026-01-01 00:00:00,a\n"}),
            0,
            "FZ205",
            "header: false",
        ),
        ("records without names", _files({"LOAD1.csv": "1,2026-01-01 00:00:00,a\n"}), 1, "", ""),
        ("a record that looks like names", _files({"LOAD1.csv": "a,b,c\n"}), 0, "FZ205", ""),
        ("a record that looks like names and is one", _files({"LOAD1.csv": "a,b,c\n"}), 1, "", "header: false"),
    )
)
"""Folders of a table of the columns id, ts and v each; they are planned, which needs no Java."""
