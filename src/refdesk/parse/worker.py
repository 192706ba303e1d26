"""What does a process that parses do, and how is it spoken to?"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import pickle
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from multiprocessing.connection import Connection
from operator import attrgetter
from typing import Any, cast

from refdesk.errors import ParseFailed, RefdeskError
from refdesk.memory import give_back
from refdesk.model import Chunk, Chunking, Content, Parsed, Reference, Skipped, Symbol
from refdesk.ports import Embedder, Parser, WordMatching
from refdesk.prepare import Embedded, Missing, Prepared, Readings, embed_missing, prepare

STALLED_S = 60.0  # a group that takes longer is taken apart, a file that takes longer is skipped
_COLLECT_EVERY = 30  # groups; what parsing leaves behind holds no circles but in errors


def prepare_one(
    parser: Parser, content: Content, chunking: Chunking, readings: Readings | None = None
) -> Prepared | Skipped:
    """The content parsed, with its keys and terms, or why there is nothing of it."""
    try:
        return prepare(parser.parse(content, chunking), readings)
    except ParseFailed as error:
        return Skipped(path=content.path, reason=str(error))
    except (RecursionError, MemoryError, ValueError, LookupError, ArithmeticError, TypeError, AttributeError) as error:
        return Skipped(
            path=content.path, reason=f"the parser failed: {type(error).__name__}: {error}"[:300], failed=True
        )


class Worker:
    """A process that parses what it is sent and ends when its pipe does."""

    def __init__(self, parser: Parser, embedder: Embedder | None) -> None:
        self._parser = parser
        self._embedder = embedder
        self._stopped = False
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._parser, self._embedder), daemon=True)
        with main_not_rerun():
            self._process.start()
        theirs.close()

    def prepare(self, group: Sequence[Content], chunking: Chunking, missing: Missing) -> bytes | None:
        """What the process found, packed, or None when it died or stalled; a new one stands ready then."""
        try:
            self._pipe.send((group, chunking))
            if self._embedder is not None:
                self._pipe.send(missing(_loaded(self._receive())))
            return self._receive()
        except (OSError, EOFError):
            pass
        if not self._stopped:
            self._end()
            self._start()
        return None

    def _receive(self) -> bytes:
        if not self._pipe.poll(STALLED_S):
            raise EOFError
        return self._pipe.recv_bytes()

    def stop(self) -> None:
        """Ends the process, if it has not been ended."""
        if not self._stopped:
            self._stopped = True
            self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.join()
        self._process.close()
        self._pipe.close()


_main_lock = threading.Lock()


@contextlib.contextmanager
def main_not_rerun() -> Iterator[None]:
    """Keeps multiprocessing from importing the caller's main module in the child, which has no need of it."""
    main: Any = sys.modules.get("__main__")
    with _main_lock:
        kept = {name: getattr(main, name, None) for name in ("__spec__", "__file__")}
        try:
            main.__spec__ = None
            if hasattr(main, "__file__"):
                del main.__file__
            yield
        finally:
            main.__spec__ = kept["__spec__"]
            if kept["__file__"] is not None:
                main.__file__ = kept["__file__"]


def _serve(pipe: Connection, parser: Parser, embedder: Embedder | None) -> None:
    gc.disable()
    readings = Readings(cast(WordMatching, embedder)) if hasattr(embedder, "spell") else None
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        for number in count(1):
            group, chunking = pipe.recv()
            found = [prepare_one(parser, content, chunking, readings) for content in group]
            made = _embedded(pipe, embedder, found, readings) if embedder is not None else Embedded()
            pipe.send(([_packed(one) for one in found], list(made.vectors), _matrix(made.vectors), made.pieces))
            if number % _COLLECT_EVERY == 0:
                gc.collect()
                give_back()


def _embedded(
    pipe: Connection, embedder: Embedder, found: Iterable[Prepared | Skipped], readings: Readings | None
) -> Embedded:
    """New vectors, after asking at the other end which are new."""
    prepared = [one for one in found if isinstance(one, Prepared)]
    chunks = (entry for one in prepared for entry in zip(one.vector_keys, one.parsed.chunks, strict=True))
    spelt = {key: own for one in prepared for key, own in zip(one.vector_keys, one.spelt, strict=False)}

    def missing(keys: Iterable[bytes]) -> set[bytes]:
        pipe.send(list(keys))
        answer: set[bytes] = pipe.recv()
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


def _loaded(packed: bytes) -> Any:
    return pickle.loads(packed)  # noqa: S301 - as Connection.recv does it: what our own child sent


def unpacked(packed: bytes) -> list[Prepared | Skipped]:
    """What a worker sent."""
    found, keys, rows, pieces = _loaded(packed)
    made = Embedded(dict(zip(keys, rows, strict=True)), pieces)
    return [_unpacked(one, made) for one in found]


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
