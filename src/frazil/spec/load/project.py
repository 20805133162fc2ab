"""Create a project: a folder with a declaration and the JSON schema for editors."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final

from frazil.errors import DeclarationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SCHEMA: Final = ".frazil.schema.json"
_SCHEMA_LINE: Final = f"# yaml-language-server: $schema=./{_SCHEMA}\n"
"""Line that points editors to the schema beside the declaration, so that it works offline and in any clone."""


_IGNORED: Final = """\
# Data, which belongs into a backup and not into git.
/lake/
/landing/
"""


class FileExistsAlreadyError(DeclarationError):
    """A command would overwrite an existing file."""

    code = "FZ105"


class UnwritableFileError(DeclarationError):
    """An output file cannot be created."""

    code = "FZ115"


@contextmanager
def created(file: Path) -> Iterator[IO[str]]:
    """Open a UTF-8 text file for writing; an existing file is replaced.

    Raises:
        UnwritableFileError: the file cannot be created.
    """
    try:
        text = file.open("w", encoding="utf-8")
    except OSError as error:
        raise UnwritableFileError(
            f"{file} cannot be written: {error.strerror or error}",
            hint="name a file on this machine, in a folder that is there",
        ) from error
    with text:
        yield text


def new_declaration(project: Path, landing: Path | None = None) -> Path:
    """Create the folders of a project and return the path of its declaration.

    Raises:
        FileExistsAlreadyError: the declaration exists already.
        DeclarationError: a folder cannot be created.
    """
    file, folder = project / "frazil.yml", landing or project
    if file.exists():
        raise FileExistsAlreadyError(f"{file} is there already", hint="choose another folder, or move it away")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DeclarationError(
            f"cannot make the folder {folder}: {error.strerror}", hint="choose another folder"
        ) from error
    return file


def write_declaration(file: Path, text: str) -> None:
    """Write a declaration, its schema, and a ``.gitignore`` if the folder has none."""
    if not (ignored := file.with_name(".gitignore")).exists():
        ignored.write_text(_IGNORED, encoding="utf-8")
    file.with_name(_SCHEMA).write_text(schema_text(), encoding="utf-8")
    file.write_text(_SCHEMA_LINE + text, encoding="utf-8")


def json_schema() -> dict[str, Any]:
    """Return the schema of ``frazil.yml``, with titles and descriptions, in draft 2020-12.

    Its ``$id`` is relative to the file that refers to it.
    """
    from frazil.spec.model.pipeline import Pipeline  # noqa: PLC0415 - pydantic comes with it

    schema = Pipeline.model_json_schema(mode="validation")
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "frazil.schema.json",
        "title": "Frazil declaration",
        "description": "A pipeline from the changes of a database to Iceberg tables.",
    }
    return head | {key: value for key, value in schema.items() if key not in head}


def schema_text() -> str:
    """Return the schema as the text of docs/frazil.schema.json."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
