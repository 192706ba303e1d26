"""What does a process that parses do?  It reads what it is sent, file by file, within limits, until its pipe ends."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from operator import attrgetter
from typing import IO, Any, NamedTuple

from refdesk.errors import ParseFailed, RefdeskError
from refdesk.ingest.prepare import Embedded, Prepared, Readings, embed_missing, prepare
from refdesk.model import Chunk, Chunking, Content, Parsed, Reference, Skipped, Symbol
from refdesk.ports import Embedder, Parser, WordMatching
from refdesk.system.memory import give_back

_COLLECT_EVERY = 30  # groups; what parsing leaves behind holds no circles but in errors
_NICENESS = 5  # whoever asks a question comes first
_BINARY = (b"%PDF-", b"PK\x03\x04")
NOT_UNDERSTOOD = 70  # a status to end with
_HEADER = 8  # bytes that tell how long a message is


class Limits(NamedTuple):
    """What reading one file may take."""

    seconds: float  # of processor time, so that a busy machine costs no file
    memory: int  # bytes more than the process had before


def limits_of(content: Content) -> Limits:
    """The limits for a content, by its size: several times what honest files take.

    Files of 1 to 8 MB took 0.1 to 0.9 s a megabyte and 8 to 130 bytes a byte, a PDF that is not compressed 1.8 s.
    """
    megabytes = len(content.data) / 1_000_000
    if content.data.startswith(_BINARY):
        return Limits(30 + 20 * megabytes, 1_000_000_000 + 100 * len(content.data))
    return Limits(3 + 6 * megabytes, 400_000_000 + 200 * len(content.data))


def prepare_one(
    parser: Parser, content: Content, chunking: Chunking, readings: Readings | None = None
) -> Prepared | Skipped:
    """The content parsed, with its keys and terms, or why there is nothing of it."""
    try:
        return prepare(parser.parse(content, chunking), readings)
    except ParseFailed as error:
        return Skipped(path=content.path, reason=str(error))
    except MemoryError:
        return Skipped(path=content.path, reason=too_much_memory(limits_of(content)), failed=True)
    except Exception as error:  # whatever it is, it costs this file alone
        reason = f"the parser failed: {type(error).__name__}: {error}"[:300]
        return Skipped(path=content.path, reason=reason, failed=True)


def too_much_memory(limits: Limits) -> str:
    """The reason about a file that needs more memory than it may have."""
    return f"reading it took more than {limits.memory // 1_000_000} MB of memory"


def send(pipe: IO[bytes], message: bytes) -> None:
    """Writes a message so that `receive` finds its end."""
    pipe.write(len(message).to_bytes(_HEADER, "big"))
    pipe.write(message)
    pipe.flush()


def receive(pipe: IO[bytes]) -> bytes:
    """The next message; EOFError when the other end is gone."""
    header = pipe.read(_HEADER)
    message = pipe.read(int.from_bytes(header, "big"))
    if len(header) < _HEADER or len(message) < int.from_bytes(header, "big"):
        raise EOFError
    return message


def loaded(message: bytes) -> Any:
    """What a message says."""
    return pickle.loads(message)  # noqa: S301 - both ends are our own


def main() -> None:
    """Answers requests until there are no more."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the process that sends the requests
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what a library prints must not come between answers
    limited = _Limited()
    gc.disable()
    with contextlib.suppress(EOFError, OSError):
        send(answers, b"")  # ready
        _serve(requests, answers, limited)


def _serve(requests: IO[bytes], answers: IO[bytes], limited: _Limited) -> None:
    embedder: Embedder | None = None
    readings: Readings | None = None
    for number in count(1):
        request = receive(requests)
        try:
            parser, chunking, group, embeds, new_embedder = loaded(request)
        except Exception:  # the two ends do not have the same code: no file is to blame
            os._exit(NOT_UNDERSTOOD)
        if new_embedder is not None:
            embedder = new_embedder
            readings = Readings(embedder) if isinstance(embedder, WordMatching) else None
        found: list[Prepared | Skipped] = []
        for content in group:
            with limited(limits_of(content)):
                found.append(prepare_one(parser, content, chunking, readings if embeds else None))
                packed = pickle.dumps(_packed(found[-1]), pickle.HIGHEST_PROTOCOL)
            send(answers, packed)
        if embeds and embedder is not None:
            made = _embedded(requests, answers, embedder, found, readings)
            sent = (list(made.vectors), _matrix(made.vectors), made.pieces)
            send(answers, pickle.dumps(sent, pickle.HIGHEST_PROTOCOL))
        if number % _COLLECT_EVERY == 0:
            gc.collect()
            give_back()


class _Limited:
    """Ends this process when a file takes more than it may, without the help of Python, which may never come to it.

    Where the system offers less (Windows has neither, macOS only the time), the other end watches.
    """

    def __init__(self) -> None:
        self._has_timer = hasattr(signal, "setitimer")
        try:
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
            self._sizes = os.open("/proc/self/statm", os.O_RDONLY)
            self._page = resource.getpagesize()
            self._soft, self._hard = resource.getrlimit(resource.RLIMIT_AS)
            self._resource: Any = resource
        except (ImportError, OSError, ValueError):
            self._resource = None

    @contextlib.contextmanager
    def __call__(self, limits: Limits) -> Iterator[None]:
        if self._has_timer:
            signal.setitimer(signal.ITIMER_PROF, limits.seconds)  # SIGPROF ends the process
        if self._resource is not None:
            taken = int(os.pread(self._sizes, 100, 0).split()[0]) * self._page
            self._set_memory(taken + limits.memory)
        try:
            yield
        finally:
            if self._resource is not None:
                self._set_memory(None)
            if self._has_timer:
                signal.setitimer(signal.ITIMER_PROF, 0)

    def _set_memory(self, limit: int | None) -> None:
        """Allows so many bytes of addresses in all, or as many as at first; never more than that."""
        endless = self._resource.RLIM_INFINITY
        allowed = min((one for one in (self._soft, limit) if one is not None and one != endless), default=endless)
        self._resource.setrlimit(self._resource.RLIMIT_AS, (allowed, self._hard))


def _embedded(
    requests: IO[bytes],
    answers: IO[bytes],
    embedder: Embedder,
    found: Iterable[Prepared | Skipped],
    readings: Readings | None,
) -> Embedded:
    """New vectors, after asking at the other end which are new."""
    prepared = [one for one in found if isinstance(one, Prepared)]
    chunks = (entry for one in prepared for entry in zip(one.vector_keys, one.parsed.chunks, strict=True))
    spelt = {key: own for one in prepared for key, own in zip(one.vector_keys, one.spelt, strict=False)}

    def missing(keys: Iterable[bytes]) -> set[bytes]:
        send(answers, pickle.dumps(list(keys)))
        answer: set[bytes] = loaded(receive(requests))
        return answer

    try:
        return embed_missing(embedder, chunks, missing, readings, spelt)
    except RefdeskError:  # the other end tries again, and can say what is wrong
        return Embedded()


def _matrix(vectors: Mapping[bytes, Any]) -> Any:
    """The rows in one piece, as the record takes them: one by one they take longer to send than to make."""
    import numpy as np

    return np.stack(list(vectors.values())).astype(np.float16) if vectors else ()


# Plain tuples cross the pipe in a quarter of the time that objects take.

_CHUNK_FIELDS = tuple(Chunk.__dataclass_fields__)
_chunk_values = attrgetter(*_CHUNK_FIELDS)


def _packed(one: Prepared | Skipped) -> Any:
    if isinstance(one, Skipped):
        return one
    parsed = one.parsed
    return (
        (parsed.title, parsed.content_type, parsed.text, dict(parsed.metadata), parsed.notes),
        [_chunk_values(chunk) for chunk in parsed.chunks],
        [tuple(symbol) for symbol in parsed.symbols],
        [tuple(reference) for reference in parsed.references],
        one.vector_keys,
        one.terms,
    )


def unpacked(answers: Sequence[bytes], embedded: bytes) -> list[Prepared | Skipped]:
    """What a worker sent: an answer for each file, and the vectors, if it made any."""
    keys, rows, pieces = loaded(embedded) if embedded else ((), (), {})
    made = Embedded(dict(zip(keys, rows, strict=True)), pieces)
    return [_unpacked(loaded(one), made) for one in answers]


def _unpacked(sent: Any, made: Embedded) -> Prepared | Skipped:
    if isinstance(sent, Skipped):
        return sent
    (title, content_type, text, metadata, notes), chunks, symbols, references, keys, terms = sent
    parsed = Parsed(
        title=title,
        content_type=content_type,
        text=text,
        metadata=metadata,
        notes=notes,
        chunks=tuple(Chunk(**dict(zip(_CHUNK_FIELDS, values, strict=True))) for values in chunks),
        symbols=tuple(map(Symbol._make, symbols)),
        references=tuple(map(Reference._make, references)),
    )
    own = Embedded(
        {key: made.vectors[key] for key in keys if key in made.vectors},
        {key: made.pieces[key] for key in keys if key in made.pieces},
    )
    return Prepared(parsed=parsed, vector_keys=keys, terms=terms, embedded=own)
