"""What Postgres and libpq say, as errors that tell what to do; none shows the address's password."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from refdesk.errors import LibraryBusy, RecordAway, RefdeskError, SettingsError, StoreError
from refdesk.store.shared.address import without_password

if TYPE_CHECKING:
    import psycopg

_CONNECTING = re.compile(r"connection failed: |connection to server at [^,]*, port \d+ failed: ")
# Of what a server says: one that starts, is full or is being stopped is away.
_REFUSED = re.compile(
    r"FATAL: +(.*(?:auth\w+ failed|does not exist|no pg_hba|denied|not permitted|client cert).*)"
    r"|((?:fe_sendauth: no password|SSL error: (?!unexpected eof)|root certificate file |server certificate for "
    r"|server does not support SSL).*)"
)
_TOO_OLD = "unrecognized configuration parameter"
_UNWRITABLE = ("session is read-only", "server is in hot standby mode")  # of a server that was asked to take writes
# What libpq says before it tries to connect is of its settings, unless the system refuses a socket or a name.
_WRONG = re.compile(
    r"(?:connection is bad: (?!connection to server|could not (?!match|parse)|out of memory|no error)"
    r"|(?=could not match))(.*)"
)
_OF_CONNECTIONS = ("08", "28", "3D", "53300", "57P0")  # what codes begin with that say why there is none
# And those of a server that answers: what is wrong, and what to do.
_OTHERS: tuple[tuple[str, type[StoreError], str, str], ...] = (
    ("53100", StoreError, "The disk of Postgres is full", "Make room there, then do it again"),
    ("53200", StoreError, "Postgres has no memory left", "Free some on its machine, then do it again"),
    ("58", StoreError, "Postgres could not read or write its files", "Check its disk and its log, then do it again"),
    # A deadlock: with others than writers of the library, who take turns.
    ("40", LibraryBusy, "Postgres ended this in favour of another session", "Do it again"),
)


def said(error: psycopg.Error, address: str) -> str:
    """The first line of the error, without what it says of where it comes from."""
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return without_password(_CONNECTING.sub("", first), address)


def refusal(error: psycopg.Error, address: str) -> RefdeskError:
    """The error to raise for one of psycopg."""
    import psycopg

    code, told = error.sqlstate or "", said(error, address)
    for start, kind, problem, what_next in _OTHERS:
        if code.startswith(start):
            return kind(f"{problem}: {told}.", f"{what_next}: what failed has left nothing behind.")
    is_of_connection = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    if _TOO_OLD not in told and (not is_of_connection or (code and not code.startswith(_OF_CONNECTIONS))):
        return StoreError(f"Postgres refused: {told}")
    return no_connection(told)


def no_connection(told: str) -> RefdeskError:
    """The error of a connection that there is not, by what libpq says."""
    if _TOO_OLD in told:
        return SettingsError("This Postgres is too old.", "Use 12 or a later one.")
    if wrong := _WRONG.match(told):
        return SettingsError(
            f"A setting of the connection to Postgres is wrong: {wrong[1]}.",
            "Correct it in the library's address, the service file or the PG… variable that has it.",
        )
    if refused := _REFUSED.match(told):
        return StoreError(
            f"Postgres refused the connection: {refused[1] or refused[2]}.",
            "Correct the library's address or the password.",
        )
    if told in _UNWRITABLE:
        return RecordAway(
            f"Postgres takes no writes: {told}.",
            "If it is a standby, promote it, or name the server that it follows in the library's address as well.",
        )
    return away(told)


def away(said: str) -> RecordAway:
    """The error of a server that does not answer."""
    return RecordAway(f"Postgres does not answer: {said}.", "Check that it runs and can be reached, then try again.")
