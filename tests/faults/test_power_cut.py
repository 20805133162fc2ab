"""A real disk whose machine loses its power: an image of a file system, copied while a run stands still.

A copy lacks the writes that were not flushed to disk. It needs root, for a loop device.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.fault, pytest.mark.process]

FRAZIL = Path(sys.executable).with_name("frazil")
SECONDS = 120
DECLARATION = """
pipeline: shop
lake: {{warehouse: ./lake}}
tables:
  - name: orders
    source: {{kind: dms, path: {landing}, header: true, op: op, settle_seconds: 0}}
    keys: [id]
    sequence_by: [ts]
    columns: [{{name: id, type: bigint}}, {{name: ts, type: timestamp}}, {{name: v}}]
    marts: [{{kind: current}}, {{kind: history}}]
"""


@dataclass
class Machine:
    """A project on a disk of its own; its files arrive from elsewhere."""

    folder: Path
    image: Path
    cuts: int = 0

    @property
    def disk(self) -> Path:
        """Where the disk is mounted."""
        return self.folder / "disk"

    def land(self, number: int, value: str) -> None:
        """Let a file of two changes arrive."""
        text = f"op,id,ts,v\nU,1,2026-01-0{number} 00:00:00,{value}\nU,{number},2026-01-0{number} 00:00:01,new\n"
        (self.folder / "landing" / f"{number}.csv").write_text(text, encoding="utf-8")

    def frazil(self, *words: str) -> str:
        """Do a command, which must succeed."""
        done = subprocess.run([FRAZIL, *words], cwd=self.disk, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run_until(self, table: str) -> None:
        """Run until a table has a new version, and lose the power then."""
        before = self.versions(table)
        with subprocess.Popen([FRAZIL, "run"], cwd=self.disk, stdout=subprocess.DEVNULL) as run:
            ends = time.monotonic() + SECONDS
            while self.versions(table) == before:
                assert run.poll() is None
                assert time.monotonic() < ends
                time.sleep(0.005)
            family = [psutil.Process(run.pid), *psutil.Process(run.pid).children(recursive=True)]
            try:
                for one in family:
                    with suppress(psutil.NoSuchProcess):  # a child that has just ended
                        one.suspend()
                self.lose_power(family)
            finally:
                # Popen waits for it, and one that is suspended never ends.
                run.kill()

    def versions(self, table: str) -> set[Path]:
        """Return the files of a table's versions."""
        return {*(self.disk / "lake" / table / "metadata").glob("*.metadata.json")}

    def lose_power(self, running: list[psutil.Process]) -> None:
        """Go on with what the disk has now."""
        self.cuts += 1
        copy = self.folder / f"{self.cuts}.img"
        subprocess.run(["cp", "--sparse=always", self.image, copy], check=True)
        for one in running:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(running, timeout=SECONDS)
        subprocess.run(["umount", "-l", self.disk], check=True)  # Java may still be about to end
        self.image.unlink()
        self.image = copy
        subprocess.run(["mount", "-o", "loop", self.image, self.disk], check=True)

    def values(self) -> dict[int, str]:
        """Return the current table."""
        found = json.loads(self.frazil("query", "SELECT id, v FROM marts.orders", "--json"))
        return {row["id"]: row["v"] for row in found}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path, tmp_path / "0.img")
    with made.image.open("wb") as image:
        image.truncate(200 * 2**20)
    made.disk.mkdir()
    subprocess.run(["mkfs.ext4", "-q", made.image], check=True)
    if os.geteuid() or subprocess.run(["mount", "-o", "loop", made.image, made.disk], check=False).returncode:
        pytest.skip("NOT TESTED: a disk of its own needs root and a loop device")
    (tmp_path / "landing").mkdir()
    (made.disk / "frazil.yml").write_text(DECLARATION.format(landing=tmp_path / "landing"), encoding="utf-8")
    try:
        yield made
    finally:
        subprocess.run(["umount", "-l", made.disk], check=True)
        shutil.rmtree(tmp_path, ignore_errors=True)


def test_the_disk_has_what_a_run_wrote_when_it_ends(machine: Machine) -> None:
    machine.land(1, "one")
    machine.frazil("run")
    machine.lose_power([])

    assert machine.frazil("run").startswith("shop: nothing new")
    assert machine.values() == {1: "new"}
    machine.frazil("check")


@pytest.mark.laws
@pytest.mark.parametrize("table", ["bronze/orders", pytest.param("marts/orders", marks=pytest.mark.laws)])
def test_after_a_cut_and_a_repair_the_next_run_goes_on(machine: Machine, table: str) -> None:
    machine.land(1, "one")
    machine.frazil("run")
    machine.land(2, "two")
    machine.run_until(table)

    machine.frazil("doctor", "--repair", "--yes")
    machine.frazil("run")

    assert machine.values() == {1: "two", 2: "new"}
    machine.frazil("check")
