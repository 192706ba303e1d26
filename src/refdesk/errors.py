"""The tree of all errors; each says what happened and what to do next.

RefdeskError
├── InvalidInput            an invalid value
│   ├── InvalidUri
│   ├── InvalidCursor
│   ├── InvalidName
│   ├── TooLarge
│   ├── OnOtherMachine      a folder whose files in the library are another machine's
│   └── InvalidPlaybook
├── NotFound
│   ├── CollectionNotFound
│   ├── DocumentNotFound
│   ├── ChunkNotFound
│   └── SkillNotFound       a ValueError too, as the skills contract has it
├── CollectionExists
├── Forbidden               a path or an address outside what is allowed
├── LoadFailed              bytes that could not be loaded
├── ParseFailed             bytes that could not be parsed
├── EmbeddingError
│   └── EmbedderMismatch    the library was built with another model
├── StoreError              the library's files
│   ├── LibraryBusy         another writer did not finish in time
│   ├── VectorsMissing      a batch refers to vectors that the library does not hold
│   ├── LibraryTooNew
│   ├── LibraryDamaged
│   ├── StoreAway           a database server that does not answer
│   │   └── RecordAway      the one with the whole library
│   └── StaleSkill          another update came first
├── LlmError                a language model that did not answer as it should
├── AttemptFailed           one of several attempts; the caller that retries reports the last one
├── MemoryLimit             the process would use more memory than max_memory allows
├── SettingsError
├── ClientCannot            the client does not support or did not answer a request
├── RpcError                what a client sees as a JSON-RPC error instead of a result
└── Cancelled               the caller asked to stop
"""

from __future__ import annotations

from collections.abc import Iterable


class RefdeskError(Exception):
    """Anything RefDesk reports to its user."""

    exit_code = 1

    def __init__(self, message: str, what_next: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.what_next = what_next

    def __str__(self) -> str:
        return f"{self.message} {self.what_next}".strip()


class InvalidInput(RefdeskError):
    exit_code = 2


class InvalidUri(InvalidInput): ...


class InvalidCursor(InvalidInput): ...


class InvalidName(InvalidInput): ...


class TooLarge(InvalidInput): ...


class OnOtherMachine(InvalidInput): ...


class InvalidPlaybook(InvalidInput):
    """A text that is not a valid playbook, with all of its problems."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(f"Not a valid playbook: {' '.join(self.problems)}", "Correct it and try again.")


class NotFound(RefdeskError):
    exit_code = 3


class CollectionNotFound(NotFound): ...


class DocumentNotFound(NotFound): ...


class ChunkNotFound(NotFound): ...


class SkillNotFound(NotFound, ValueError):
    def __init__(self, skill_id: str) -> None:
        super().__init__(f"Skill {skill_id} not found.", "Use search_skills to find the correct ID.")


class CollectionExists(RefdeskError):
    exit_code = 2


class Forbidden(RefdeskError):
    exit_code = 4


class LoadFailed(RefdeskError):
    exit_code = 5


class ParseFailed(RefdeskError):
    exit_code = 5


class EmbeddingError(RefdeskError):
    exit_code = 6


class EmbedderMismatch(EmbeddingError): ...


class StoreError(RefdeskError):
    exit_code = 7


class LibraryBusy(StoreError):
    exit_code = 8


class VectorsMissing(StoreError): ...


class LibraryTooNew(StoreError): ...


class LibraryDamaged(StoreError): ...


class StoreAway(StoreError):
    # The words are the skills contract's.
    def __init__(self, message: str = "Database connection failed: timeout after 5s", what_next: str = "") -> None:
        super().__init__(message, what_next)


class RecordAway(StoreAway): ...


class StaleSkill(StoreError):
    """Raised when another update of the skill came first and left it at this version."""

    def __init__(self, skill_id: str, version: int) -> None:
        super().__init__(f"Skill {skill_id} is at version {version} now.", "Merge again.")


class MemoryLimit(RefdeskError):
    exit_code = 10


class LlmError(RefdeskError):
    exit_code = 9


class AttemptFailed(RefdeskError):
    exit_code = 9

    def __init__(self, message: str, *, is_transient: bool = False, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.is_transient = is_transient  # another attempt may succeed
        self.wait_s = wait_s  # the seconds that the server asks to wait first


class SettingsError(RefdeskError):
    exit_code = 2


class ClientCannot(RefdeskError): ...


class RpcError(RefdeskError):
    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class Cancelled(RefdeskError):
    exit_code = 130
