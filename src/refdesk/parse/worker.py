"""The worker process: parses the files that it is sent, within limits, until its pipe ends."""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import IO, Any, NamedTuple, cast

from refdesk.errors import ParseFailed, RefdeskError
from refdesk.ingest.prepare import Embedded, Prepared, Readings, Spelling, embed_missing, prepare
from refdesk.model import Chunk, Chunking, Content, Parsed, Reference, Skipped, Symbol
from refdesk.ports import Embedder, Parser
from refdesk.system.memory import give_back
from refdesk.system.pipes import claimed, loaded, receive, send

_COLLECT_EVERY = 30  # groups between garbage collections: parsing creates cycles only in errors
_BINARY = (b"%PDF-", b"PK\x03\x04")
NOT_UNDERSTOOD = 70  # exit status for a request that can't be read


class Limits(NamedTuple):
    """The limits for one file."""

    seconds: float  # processor time, so that a busy machine fails no file
    memory: int  # bytes in addition to what the process has


def limits_of(content: Content) -> Limits:
    """The limits for a content, by its size: several times what real files take.

    Measured: files of 1 to 8 MB took 0.1 to 0.9 s a megabyte and 8 to 130 bytes of memory a byte, an uncompressed PDF
    1.8 s.
    """
    megabytes = len(content.data) / 1_000_000
    if content.data.startswith(_BINARY):
        return Limits(30 + 20 * megabytes, 1_000_000_000 + 100 * len(content.data))
    return Limits(3 + 6 * megabytes, 400_000_000 + 200 * len(content.data))


def prepare_one(
    parser: Parser, content: Content, chunking: Chunking, readings: Readings | None = None
) -> Prepared | Skipped:
    """The parsed content with its keys and terms, or why it is skipped."""
    try:
        return prepare(parser.parse(content, chunking), readings)
    except ParseFailed as error:
        return Skipped(path=content.path, reason=str(error))
    except MemoryError:
        return Skipped(path=content.path, reason=too_much_memory(limits_of(content)), failed=True)
    except Exception as error:  # a parser's bug must fail this file only
        reason = f"the parser failed: {type(error).__name__}: {error}"[:300]
        return Skipped(path=content.path, reason=reason, failed=True)


def too_much_memory(limits: Limits) -> str:
    """The reason for a file that exceeds the memory limit."""
    return f"reading it took more than {limits.memory // 1_000_000} MB of memory"


def main() -> None:
    """Answers requests until there are no more."""
    os.putenv("OPENBLAS_NUM_THREADS", "1")  # nothing here multiplies matrices, and threads that wait take time
    requests, answers = claimed()
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
        except Exception:  # the two ends run different code: no fault of a file
            os._exit(NOT_UNDERSTOOD)
        if new_embedder is not None:
            embedder = new_embedder
            readings = Readings(embedder) if isinstance(embedder, Spelling) else None
        found: list[Prepared | Skipped] = []
        for content in group:
            with limited(limits_of(content)):
                found.append(prepare_one(parser, content, chunking, readings if embeds else None))
                packed = pickle.dumps(_packed(found[-1]), pickle.HIGHEST_PROTOCOL)
            send(answers, packed)
        if embeds and embedder is not None:
            import numpy as np

            made = _embedded(requests, answers, embedder, found, readings)
            # As one matrix: sent one by one, vectors take longer than making them.
            rows = np.stack(list(made.vectors.values())) if made.vectors else ()
            sent = (list(made.vectors), rows, made.kept)
            send(answers, pickle.dumps(sent, pickle.HIGHEST_PROTOCOL))
        if number % _COLLECT_EVERY == 0:
            gc.collect(0)  # caches, which it leaves, are looked at once and never again
            give_back()


class _Limited:
    """Lets the system end this process if a file exceeds its limits, since Python code may never run again.

    Where the system can't (Windows has neither limit, macOS only time), the parent watches.
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
        """Limits the address space to so many bytes, or to the initial limit, and never above that."""
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
    """The new vectors, after asking the parent which are new."""
    prepared = [one for one in found if isinstance(one, Prepared)]
    chunks = (entry for one in prepared for entry in zip(one.vector_keys, one.parsed.chunks, strict=True))
    spelt = {key: own for one in prepared for key, own in zip(one.vector_keys, one.spelt, strict=False)}

    def missing(keys: Iterable[bytes]) -> set[bytes]:
        send(answers, pickle.dumps(list(keys)))
        answer: set[bytes] = loaded(receive(requests))
        return answer

    try:
        return embed_missing(embedder, chunks, missing, readings, spelt)
    except RefdeskError:  # the parent retries and reports the error
        return Embedded()


# Plain tuples are sent in a quarter of the time that objects take.

_chunk = partial(cast(Any, tuple.__new__), Chunk)  # a third of the time of Chunk._make
_symbol = partial(cast(Any, tuple.__new__), Symbol)
_reference = partial(cast(Any, tuple.__new__), Reference)


def _packed(one: Prepared | Skipped) -> Any:
    if isinstance(one, Skipped):
        return one
    parsed = one.parsed
    return (
        (parsed.title, parsed.content_type, parsed.text, dict(parsed.metadata), parsed.notes),
        list(map(tuple, parsed.chunks)),
        list(map(tuple, parsed.symbols)),
        list(map(tuple, parsed.references)),
        one.vector_keys,
        one.terms,
    )


def unpacked(answers: Sequence[bytes], embedded: bytes) -> list[Prepared | Skipped]:
    """Unpacks a worker's answers, one for each file, and the vectors, if it made any."""
    keys, rows, kept = loaded(embedded) if embedded else ((), (), {})
    made = Embedded(dict(zip(keys, rows, strict=True)), kept)
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
        chunks=tuple(map(_chunk, chunks)),
        symbols=tuple(map(_symbol, symbols)),
        references=tuple(map(_reference, references)),
    )
    own = Embedded(
        {key: made.vectors[key] for key in keys if key in made.vectors},
        {key: made.kept[key] for key in keys if key in made.kept},
    )
    return Prepared(parsed=parsed, vector_keys=keys, terms=terms, embedded=own)
