"""An erase, as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frazil.cli.console import out
from frazil.cli.grid import grid
from frazil.spec.amount import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frazil.erase.report import ErasedLayer, EraseProof, EraseReport
    from frazil.erase.treat_report import TreatReport

_FILES_SHOWN = 10


def show_erase(report: EraseReport) -> None:
    """Print what would go or went, table by table, then the files that stay and the proof."""
    _show_layers(report.layers)
    verb = "to erase" if report.proof is None else "erased"
    out.print(f"{report.table}: {counted(report.subjects, 'key')} {verb}", markup=False)
    if report.resumed:
        ended = "is to be ended" if report.proof is None else "was ended"
        out.print(f"an erase that was killed {ended}, too", markup=False)
    for files, done in ((report.rewritten, "rewritten without these keys"), (report.removed, "removed")):
        if files:
            verb = "" if report.proof else "to be "
            out.print(f"{counted(len(files), 'landing file')} of Frazil's own {verb}{done}:", markup=False)
            _show_files(files)
    if report.files:
        those = counted(len(report.files), "file at the source holds", "files at the source hold")
        stays = "stays as it is" if len(report.files) == 1 else "stay as they are"
        out.print(f"{those} records of these keys, and {stays}:", markup=False)
        _show_files(report.files)
    if report.unseen:
        could = counted(len(report.unseen), "file at the source", "files at the source")
        out.print(f"{could} could not be looked at, and may hold records of these keys:", markup=False)
        _show_files(report.unseen)
    if report.folded:
        have = counted(len(report.folded), "file at the source has", "files at the source have")
        out.print(f"{have} records that retention folded, and may hold records of these keys:", markup=False)
        _show_files(report.folded)
    if report.proof is not None:
        _show_proof(report.proof)
    if report.receipt:
        out.print(f"receipt: {report.receipt}", markup=False)


def show_treat(report: TreatReport) -> None:
    """Print what of columns with ``pii`` would be replaced or was, table by table, then the proof."""
    _show_layers(report.layers)
    fields = ", ".join(f"{name} ({way})" for name, way in report.fields.items())
    if fields:
        verb = "replaced" if report.done else "to be replaced"
        out.print(f"{report.table}: the values of {fields} {verb}", markup=False)
    if report.resumed:
        out.print(f"what was begun {'was' if report.done else 'is to be'} ended", markup=False)
    out.print("files at the source, and landing files, stay as they are", markup=False)
    if not report.done:
        return
    looked = f"{counted(report.rows, 'row')} and {counted(report.files, 'file')}"
    if not report.found:
        out.print(f"searched {looked}: no value is left", markup=False)
        return
    out.print(f"searched {looked}, and found values in:", markup=False)
    for place, count in report.found:
        out.print(f"  {place}: {count:,}", markup=False)


def _show_layers(layers: Sequence[ErasedLayer]) -> None:
    names = ["table", "rows", "snapshots", "branches and tags"]
    rows = [
        [
            layer.table,
            "computed again" if layer.rows is None else layer.rows,
            layer.snapshots,
            ", ".join(layer.refs) or "none",
        ]
        for layer in layers
    ]
    grid(None, names, rows, right={"rows", "snapshots"})


def _show_proof(proof: EraseProof) -> None:
    looked = f"{counted(proof.rows, 'row')} and {counted(proof.files, 'file')}"
    if proof.is_clean:
        out.print(f"searched {looked}: no key is left", markup=False)
    else:
        out.print(f"searched {looked}, and found erased keys in:", markup=False)
        for place, count in proof.found:
            out.print(f"  {place}: {count:,}", markup=False)
    if proof.by_hash:
        keys = counted(proof.by_hash, "key")
        known = "is known by its hash" if proof.by_hash == 1 else "are known by their hashes"
        out.print(f"{keys} of the erase that was killed {known} only.", markup=False)
        out.print("To search bad records, other columns and bytes for them, erase them again.", markup=False)


def _show_files(files: Sequence[str]) -> None:
    for file in files[:_FILES_SHOWN]:
        out.print(f"  {file}", markup=False)
    if len(files) > _FILES_SHOWN:
        out.print(f"  and {len(files) - _FILES_SHOWN:,} more", markup=False)
