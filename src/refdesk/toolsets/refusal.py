"""How does each contract say no?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from refdesk.errors import RefdeskError
from refdesk.toolsets.content import Text, ToolAnswer

INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


class RpcError(Exception):
    """A failure that the client sees as a JSON-RPC error instead of a result."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


ProblemKind = Literal["missing", "unknown", "type", "enum", "range", "length", "pattern", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentProblem:
    """One argument that its schema refuses: `argument` is its path (`filters.type`), `message` says how to mend it."""

    tool: str
    kind: ProblemKind
    argument: str
    message: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


Words = Callable[[ArgumentProblem], str | None]
"""A contract's own words for a bad argument, or None where the server's will do."""


def _words(problem: ArgumentProblem, words: Words | None) -> str:
    own = words(problem) if words else None
    return problem.message if own is None else own


class ErrorStyle(Protocol):
    """How one contract says no; an `RpcError` that is returned is sent as a JSON-RPC error."""

    def bad_argument(self, problem: ArgumentProblem, correlation_id: str) -> ToolAnswer | RpcError: ...
    def refused(self, error: RefdeskError, correlation_id: str) -> ToolAnswer | RpcError: ...
    def unexpected(self, correlation_id: str) -> ToolAnswer | RpcError: ...


def unexpected_text(correlation_id: str) -> str:
    """What a client reads after an exception nobody foresaw; the log has the rest under that id."""
    return f"Internal error. Try again; if it persists, look for correlation id {correlation_id} in the server's log."


@dataclass(frozen=True, slots=True)
class TextErrors:
    """docs, skills, code: `isError: true`, and the text says what to do next."""

    words: Words | None = None

    def bad_argument(self, problem: ArgumentProblem, correlation_id: str) -> ToolAnswer:
        return self._answer(_words(problem, self.words))

    def refused(self, error: RefdeskError, correlation_id: str) -> ToolAnswer:
        return self._answer(str(error))

    def unexpected(self, correlation_id: str) -> ToolAnswer:
        return self._answer(unexpected_text(correlation_id))

    def _answer(self, text: str) -> ToolAnswer:
        return ToolAnswer((Text(text),), is_error=True)


@dataclass(frozen=True, slots=True)
class CodedErrors:
    """rag: `isError: true`, and the text is `{"error": {"code", "message"}}`; `code_of` names an error's code."""

    code_of: Callable[[RefdeskError], str]
    words: Words | None = None
    argument_code: str = "INVALID_ARGUMENT"
    unexpected_code: str = "DATABASE_ERROR"

    def bad_argument(self, problem: ArgumentProblem, correlation_id: str) -> ToolAnswer:
        return self._answer(self.argument_code, _words(problem, self.words))

    def refused(self, error: RefdeskError, correlation_id: str) -> ToolAnswer:
        return self._answer(self.code_of(error), str(error))

    def unexpected(self, correlation_id: str) -> ToolAnswer:
        return self._answer(self.unexpected_code, unexpected_text(correlation_id))

    def _answer(self, code: str, message: str) -> ToolAnswer:
        body = {"error": {"code": code, "message": message}}
        return ToolAnswer((Text(json.dumps(body, ensure_ascii=False)),), is_error=True)


@dataclass(frozen=True, slots=True)
class RpcErrors:
    """pages: JSON-RPC errors, -32602 for what the caller can mend (`mendable`), -32603 with `data.correlationId`."""

    mendable: tuple[type[RefdeskError], ...] = ()
    words: Words | None = None

    def bad_argument(self, problem: ArgumentProblem, correlation_id: str) -> RpcError:
        return RpcError(INVALID_PARAMS, _words(problem, self.words))

    def refused(self, error: RefdeskError, correlation_id: str) -> RpcError:
        if isinstance(error, self.mendable):
            return RpcError(INVALID_PARAMS, str(error))
        return RpcError(INTERNAL_ERROR, str(error), {"correlationId": correlation_id})

    def unexpected(self, correlation_id: str) -> RpcError:
        return RpcError(INTERNAL_ERROR, unexpected_text(correlation_id), {"correlationId": correlation_id})
