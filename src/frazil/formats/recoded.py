"""Bytes of another encoding, read as UTF-8."""

from __future__ import annotations

import codecs
import io
from typing import IO, TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from typing_extensions import Buffer

UTF_8: Final = "utf-8"
_READ_BYTES: Final = 1024 * 1024
_AS_IT_IS: Final = "surrogateescape"


def as_utf_8(text: IO[bytes], encoding: str) -> IO[bytes]:
    """Return a file that is read as UTF-8; a byte that is invalid in its encoding stays as an invalid byte of UTF-8."""
    return cast("IO[bytes]", io.BufferedReader(_Recoded(text, encoding), _READ_BYTES))


class _Recoded(io.RawIOBase):
    """A file whose bytes are decoded and encoded again."""

    def __init__(self, text: IO[bytes], encoding: str) -> None:
        self._text = text
        self._decoder = codecs.getincrementaldecoder(encoding)(_AS_IT_IS)
        self._rest, self._ended = b"", False

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Read some bytes; none at the end."""
        into = memoryview(buffer)
        while not self._rest and not self._ended:
            data = self._text.read(_READ_BYTES)
            self._ended = not data
            self._rest = self._decoder.decode(data, self._ended).encode(errors=_AS_IT_IS)
        count = min(len(into), len(self._rest))
        into[:count], self._rest = self._rest[:count], self._rest[count:]
        return count

    def close(self) -> None:
        """Close the file, too."""
        self._text.close()
        super().close()
