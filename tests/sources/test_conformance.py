"""Every kind of source, in every form, passes the suite that any source must pass."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.sources.tiny import TinyForm, TinySource, TinySpec

import frazil
from frazil.lake.session import spark_session
from frazil.serve.check import check
from frazil.serve.query import query
from frazil.sources.kinds import KINDS, add_source
from frazil.spec import Pipeline, Table
from frazil.testing.changes import write_csv
from frazil.testing.conformance import CASES, Engine, World

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from frazil.testing.changes import Record
    from frazil.testing.conformance import Form

pytestmark = pytest.mark.spark

NOT_UTF8 = b"U,1,2026-01-01 00:00:00.000000,\xff,1,x\n"


@dataclass(frozen=True)
class DmsCsv:
    """CSV files, plain or compressed, with a header or without."""

    settings: dict[str, Any] = field(default_factory=lambda: {"header": "true"})
    ending: str = ".csv"

    @property
    def source(self) -> str:
        settings = "".join(f", {name}: {value}" for name, value in self.settings.items())
        return f"{{kind: dms, path: ./landing, settle_seconds: 0{settings}}}"

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        file = landing / f"20260101-{number:09}{self.ending}"
        self._put(file, write_csv(records, header="header" in self.settings))
        return [file]

    def spoil(self, file: Path) -> int:
        text = gzip.decompress(file.read_bytes()) if self.ending.endswith(".gz") else file.read_bytes()
        self._put(file, text + NOT_UTF8 + b'U,1,2026-01-01 00:00:00.000000,"a"b,1,x\nU,too few\n')
        return 3

    def _put(self, file: Path, text: bytes) -> None:
        file.write_bytes(gzip.compress(text, mtime=0) if self.ending.endswith(".gz") else text)


@dataclass(frozen=True)
class DmsSequenced(DmsCsv):
    """Files in any order of names, whose records have a change sequence."""

    settings: dict[str, Any] = field(default_factory=lambda: {"header": "true", "change_seq": "seq"})

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        numbered = [{**record, "seq": f"{number:06}{row:06}"} for row, record in enumerate(records)]
        file = landing / f"20260101-{999_999_999 - number:09}.csv"
        self._put(file, write_csv(numbered))
        return [file]


@dataclass(frozen=True)
class DmsTransactions(DmsCsv):
    """Files with records of many tables."""

    settings: dict[str, Any] = field(
        default_factory=lambda: {"cdc_path": "./landing/cdc", "cdc_table": "public.things"}
    )

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        lines = []
        for record in records:
            op, *fields = record.items()
            ours = dict([op, ("table", "things"), ("schema", "public"), *fields])
            lines += [ours, {**ours, "table": "others"}]
        (landing / "cdc").mkdir(exist_ok=True)
        file = landing / "cdc" / f"20260101-{number:09}.csv"
        self._put(file, write_csv(lines, header=False))
        return [file]

    def spoil(self, file: Path) -> int:
        self._put(file, file.read_bytes() + b"U,things,public,1,2026-01-01 00:00:00,\xff,1,x\nU,things,public,few\n")
        return 2


@dataclass(frozen=True)
class DmsParquet:
    """Parquet files."""

    source: str = "{kind: dms, path: ./landing, format: parquet, settle_seconds: 0}"

    def write(self, landing: Path, number: int, records: Sequence[Record]) -> list[Path]:
        file = landing / f"20260101-{number:09}.parquet"
        pq.write_table(pa.Table.from_pylist([{**record} for record in records], _schema(records)), file)
        return [file]

    def spoil(self, file: Path) -> int:
        rows = pq.read_table(file)
        # A text that is not UTF-8, as some writers let pass.
        values = [b"\xff" if name == "name" else b"1" for name in rows.column_names]
        bad = [pa.array([value], pa.binary()).view(pa.string()) for value in values]
        pq.write_table(pa.concat_tables([rows, pa.table(bad, rows.schema)]), file)
        return 1


def _schema(records: Sequence[Record]) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in records[0]])


FORMS: dict[str, Form] = {
    "dms csv": DmsCsv(),
    "dms csv without header": DmsCsv(settings={}),
    "dms csv, compressed": DmsCsv(ending=".csv.gz"),
    "dms change sequence": DmsSequenced(),
    "dms transactions": DmsTransactions(),
    "dms parquet": DmsParquet(),
    "tiny": TinyForm(),
}


@pytest.fixture(scope="module", autouse=True)
def tiny() -> Iterator[None]:
    """A second kind of source, for these tests only."""
    declared = Table.model_fields["source"]
    before = declared.annotation, declared.discriminator, declared.metadata
    add_source(TinySpec, TinySource)
    yield
    del KINDS["tiny"]
    declared.annotation, declared.discriminator, declared.metadata = before
    Table.model_rebuild(force=True)
    Pipeline.model_rebuild(force=True)


@pytest.fixture(scope="module")
def engine(spark: SparkSession) -> Engine:
    del spark  # only there so that Java runs

    def run(folder: Path) -> None:
        pipeline = frazil.load(folder)
        frazil.run(pipeline, spark=spark_session(pipeline))

    def rows(folder: Path, sql: str) -> list[dict[str, Any]]:
        found = query(frazil.load(folder), sql)
        return [dict(zip(found.columns, row, strict=True)) for row in found.rows]

    def proofs(folder: Path) -> tuple[bool, str]:
        findings = check(frazil.load(folder))
        return all(finding.ok is not False for finding in findings), "\n".join(map(str, findings))

    return Engine(run, rows, proofs)


USUAL = {"dms csv", "tiny"}
"""Forms that go through all cases every time; the others do with the laws."""


@pytest.mark.parametrize(
    ("form", "case"),
    [pytest.param(form, case, marks=[] if form in USUAL else pytest.mark.laws) for form in FORMS for case in CASES],
)
def test_a_source_conforms(form: str, case: str, engine: Engine, tmp_path: Path) -> None:
    CASES[case](World(FORMS[form], engine, tmp_path / "world", seed=len(form) + len(case)))


def test_a_source_that_breaks_its_contract_is_seen(engine: Engine, tmp_path: Path) -> None:
    """Files in an order of their own, where their places decide."""
    backwards = replace(DmsCsv())
    object.__setattr__(
        backwards, "write", lambda landing, number, records: DmsCsv().write(landing, 9 - number, records)
    )

    with pytest.raises(AssertionError, match="differs from the oracle"):
        CASES["keeps_order"](World(backwards, engine, tmp_path / "world", seed=3))
