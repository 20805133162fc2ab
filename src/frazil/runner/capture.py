"""Capture changes from databases and brokers into landing files."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from frazil.catalog.catalogs import CatalogClientError
from frazil.catalog.trouble import as_frazil_error
from frazil.duck import taken_files
from frazil.errors import DeclarationError, FrazilError, worst_exit
from frazil.runner.options import CaptureOptions
from frazil.sources.capture import BeginsOnce, Landed, reload_capture
from frazil.sources.kinds import captures_of
from frazil.spec.sql.select import selected

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from threading import Event

    from frazil.runner.options import Listener
    from frazil.sources.capture import Capture
    from frazil.spec import Pipeline

_MOST_RETRY_SECONDS = 30.0
_USUAL = CaptureOptions()


def capture_once(
    pipeline: Pipeline, names: Collection[str], listener: Listener | None = None
) -> dict[str, FrazilError]:
    """Land the changes that are available now.

    Args:
        pipeline: the declaration.
        names: names of the tables.
        listener: receives progress.

    Returns:
        Table -> error that stopped its capture. The failure of one slot, log or topic does not stop the others.
    """
    failed: dict[str, FrazilError] = {}
    for capture in captures_of(pipeline, names):
        shown = next(table for table in capture.tables if table in names)
        if listener:
            listener.began(shown, "capture")
        progress = partial(listener.progressed, shown) if listener else lambda _: None
        try:
            _remember(capture, pipeline)
            landed = capture.land(pipeline.folder, progress)
            failed |= {table: error for table, error in landed.failed.items() if table in names}
        except Exception as error:  # noqa: BLE001 - whatever it is, it is these tables'
            failed |= dict.fromkeys(
                [table for table in capture.tables if table in names], as_frazil_error(error, pipeline)
            )
    return failed


def reload(pipeline: Pipeline, names: Collection[str], listener: Listener | None = None) -> list[tuple[str, Landed]]:
    """Land all rows of some tables again.

    Args:
        pipeline: the declaration.
        names: names or patterns of tables.
        listener: receives progress.

    Returns:
        (slot, landed files and rows) for each slot.

    Raises:
        UnknownSelectionError: a name matches no table.
        DeclarationError: a table is not captured, or its capture cannot read the rows again.
        SourceError: the server does not answer, or lacks a declared object.
    """
    tables = selected(pipeline, [*names]).tables
    captures = captures_of(pipeline, tables)
    if left := [name for name in tables if not any(name in one.tables for one in captures)]:
        raise DeclarationError(f"table '{left[0]}' is not captured", hint="frazil run reads its files")
    found = []
    for one in captures:
        shown = next(table for table in one.tables if table in tables)
        if listener:
            listener.began(shown, "read again")
        progress = partial(listener.progressed, shown) if listener else lambda _: None
        _remember(one, pipeline)
        found.append((one.name, reload_capture(one, pipeline.folder, tables, progress)))
    return found


def capture(pipeline: Pipeline, stop: Event, *, select: Sequence[str] = (), options: CaptureOptions = _USUAL) -> int:
    """Land changes as they arrive until ``stop`` is set; the lake is read only while a landing folder is empty.

    A failure is reported once and retried after a pause that grows to 30 seconds.

    Args:
        pipeline: the declaration.
        stop: set it to end, for example on SIGTERM; the current turn is finished first.
        select: names or patterns, as for a run.
        options: pauses and callbacks.

    Returns:
        Exit code of the worst current failure at the end; 0 without a failure.

    Raises:
        DeclarationError: no selected table is captured.
        FrazilError: every capture has failed, and retrying would not help.
    """
    captures = captures_of(pipeline, selected(pipeline, select).tables)
    if not captures:
        raise DeclarationError("these tables are not captured: their sources are files", hint="frazil run reads them")
    standing: dict[str, list[FrazilError]] = {}
    pause = options.every_seconds
    while not stop.is_set():
        moved, hopeless = False, 0
        for one in captures:
            landed, errors = _landed(one, pipeline, partial(options.progressed, one.name))
            told = {f"{error}" for error in standing.get(one.name, ())}
            for error in errors:
                if f"{error}" not in told:
                    again = (
                        f"\n  tries again, at most {_MOST_RETRY_SECONDS:.0f} seconds apart" if error.retryable else ""
                    )
                    options.tell(one.name, f"{error}{again}")
            if told and not errors:
                options.tell(one.name, "recovered")
            standing[one.name] = errors
            is_stopped = bool(errors) and len(landed.failed) in {0, len(one.tables)}
            hopeless += is_stopped and not any(error.retryable for error in errors)
            if landed.files:
                moved = True
                options.landed(one.name, landed)
            options.turned(one.name, landed, errors)
        if hopeless == len(captures):
            raise next(error for errors in standing.values() for error in errors)
        limit = _MOST_RETRY_SECONDS if any(standing.values()) else options.idle_seconds
        pause = options.every_seconds if moved else min(2 * pause, limit)
        stop.wait(pause)
    return worst_exit(error.exit_code for errors in standing.values() for error in errors)


def _landed(capture: Capture, pipeline: Pipeline, progress: Callable[[str], None]) -> tuple[Landed, list[FrazilError]]:
    """Return what one turn landed, and the errors of its tables."""
    try:
        _remember(capture, pipeline)
        landed = capture.land(pipeline.folder, progress)
    except Exception as raised:  # noqa: BLE001 - one slot stops no other
        return Landed(), [as_frazil_error(raised, pipeline)]
    return landed, [*landed.failed.values()]


def _remember(capture: Capture, pipeline: Pipeline) -> None:
    """Before anything is landed in an empty folder, note there what the lake has of its tables.

    A first turn confirms positions at the server: where the landing folder was lost, or is that of a second host, the
    server would forget changes that are in no landing file. Without a client for the catalog nothing is known of the
    lake; the run then finds that the landing files are others.
    """
    if isinstance(capture, BeginsOnce) and capture.begins(pipeline.folder) is not None:
        with suppress(CatalogClientError):
            capture.remember(pipeline.folder, taken_files(pipeline, capture.tables))
