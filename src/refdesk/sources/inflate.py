"""What did the server compress?  Inflated piece by piece, so that a bomb is met before it goes off."""

from __future__ import annotations

import zlib

from refdesk.errors import LoadFailed

ACCEPTED = "gzip, deflate"
_PIECE = 65_536
_EITHER_HEADER = zlib.MAX_WBITS | 32  # zlib finds out itself whether it reads gzip or zlib


class Inflater:
    """The bytes behind a Content-Encoding, at most `limit` of them and one more to tell that there is too much."""

    def __init__(self, encoding: str, limit: int) -> None:
        self._plain = encoding in ("", "identity")
        if not self._plain and encoding not in ("gzip", "x-gzip", "deflate"):
            raise LoadFailed(f"The server answers in the encoding {encoding!r}, which was not asked for.")
        self._encoding = encoding
        self._limit = limit
        self._stream = zlib.decompressobj(_EITHER_HEADER)
        self._begun = False
        self.data = bytearray()

    @property
    def is_too_large(self) -> bool:
        """Whether more than the limit came out."""
        return len(self.data) > self._limit

    def feed(self, piece: bytes) -> None:
        """Takes the next bytes from the wire."""
        if self._plain:
            self.data += piece[: self._limit + 1 - len(self.data)]
            return
        try:
            self._inflate(piece)
        except zlib.error as error:
            raise LoadFailed(f"The server's {self._encoding} answer is broken: {error}.") from error

    def finish(self) -> bytes:
        """All that came; LoadFailed when the compressed stream stops before its end."""
        if not self._plain and self._begun and not self._stream.eof:
            raise LoadFailed(f"The server's {self._encoding} answer ends too early.")
        return bytes(self.data)

    def _inflate(self, piece: bytes) -> None:
        if not self._begun and piece:
            self._begun = True
            if self._encoding == "deflate" and piece[0] & 0x0F != 8:  # no zlib header: some servers send it bare
                self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        while piece and not self.is_too_large:
            if self._stream.eof:  # a gzip file may have several members; what else follows is padding
                if piece[:2] != b"\x1f\x8b":
                    return
                self._stream = zlib.decompressobj(_EITHER_HEADER)
            self.data += self._stream.decompress(piece, min(_PIECE, self._limit + 1 - len(self.data)))
            piece = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
