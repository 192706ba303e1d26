"""A connection to a Neo4j server: transactions with a time limit, and its errors in RefDesk's words."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import re
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

from refdesk.errors import RefdeskError, SettingsError, StoreAway, StoreError
from refdesk.system.retry import arrived

if TYPE_CHECKING:
    from neo4j import AsyncDriver, AsyncManagedTransaction

_log = logging.getLogger(__name__)

T = TypeVar("T")
Tx: TypeAlias = "AsyncManagedTransaction"

# A call hears within five seconds of its arrival that the server is away: the skills contract's limit, less what it
# takes to answer.  A slow server that answers pings is waited for.
_SILENT_S = 4.4
_LEAST_S, _LEAST_AGAIN_S = 1.5, 0.1  # for a query that begins late, and one where the server was away just before
_GREET_S, _PING_AFTER_S, _PING_S, _LONGEST_S = 2.2, 1.0, 3.2, 60.0
_HELLO = bytes.fromhex("6060b017 00080805 00020404 00000104 00000003")  # Bolt's handshake, with versions 5, 4 and 3

# What is said where the code of Neo4j's error has this part.
_TOLD = {
    "CredentialsExpired": (
        "Neo4j asks the user {user} for a new password first.",
        "Run ALTER CURRENT USER SET PASSWORD in cypher-shell, then set NEO4J_PASSWORD.",
    ),
    "AuthenticationRateLimit": ("Neo4j refused the user {user} too often and waits.", "Try again in some seconds."),
    "Security.Forbidden": ("Neo4j does not let the user {user} do this.", "Let it read, write and make indexes."),
    ".Security.": ("Neo4j refused the user {user} or its password.", "Correct NEO4J_USER and NEO4J_PASSWORD."),
    "DatabaseNotFound": ("Neo4j has no database {database}.", "Correct NEO4J_DATABASE, or create it."),
}


async def rows_of(tx: Tx, statement: str, **parameters: Any) -> list[dict[str, Any]]:
    return await (await tx.run(statement, parameters)).data()


class Bolt:
    """Runs transactions on one database, and first the statements that make its indexes where they are missing.

    The driver's asynchronous half is used, in a thread with an event loop of its own, since only a task can be
    abandoned while a server that has stopped answering keeps it waiting.
    """

    def __init__(self, uri: str, user: str, password: str, database: str, made: str, schema: Sequence[str]) -> None:
        self._uri, self._user, self._password, self._database = uri, user, password, database
        self._made, self._schema = made, schema  # whether the indexes are made, and what makes them
        self._driver: AsyncDriver | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()
        self._prepared: asyncio.Task[AsyncDriver] | None = None  # connects, and makes missing indexes
        self._heard_at = self._away_at = -math.inf  # when the server last answered, and when it was last given up

    def close(self) -> None:
        """Ends calls that are under way, and the connections; the next call would begin anew."""
        with self._starting:
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    async def _close(self) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        driver, self._driver, self._prepared = self._driver, None, None
        if driver is not None:
            with contextlib.suppress(TimeoutError):  # a server that hangs is left alone
                await asyncio.wait_for(driver.close(), _PING_S)

    def run(self, work: Callable[[Tx], Awaitable[T]], *, writes: bool = False) -> T:
        """What the work returns, done in a transaction that is tried again after conflicts and lost connections."""
        asked = time.monotonic()
        came = min(asked, arrived.get() or asked)
        # After that, as when a model has thought, time is left.
        least = _LEAST_S if asked - came < _SILENT_S else _PING_S
        at_least = asked + (_LEAST_AGAIN_S if asked - self._away_at < _SILENT_S else least)
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_turn, args=(self._loop,), name="refdesk-neo4j", daemon=True).start()
            waiting = asyncio.run_coroutine_threadsafe(self._transaction(work, writes), self._loop)
        # The time is kept here and not by the loop, whose thread may be kept from the processor.
        while (
            left := max(at_least, came + _SILENT_S, self._heard_at + _PING_AFTER_S + _PING_S) - time.monotonic()
        ) > 0:
            with contextlib.suppress(TimeoutError):
                return waiting.result(min(left, _LONGEST_S))
        waiting.cancel()
        self._away_at = time.monotonic()
        raise StoreAway

    async def _transaction(self, work: Callable[[Tx], Awaitable[T]], writes: bool) -> T:
        try:
            if self._prepared is None or (self._prepared.done() and self._prepared.exception() is not None):
                self._prepared = asyncio.get_running_loop().create_task(self._prepare())
                # Each call may have given up by then, and asyncio reports errors that nobody looked at.
                self._prepared.add_done_callback(lambda task: task.cancelled() or task.exception())
            driver = await asyncio.shield(self._prepared)  # all calls wait for the same preparation
            return await self._execute(driver, work, writes)
        except RefdeskError:
            raise
        except Exception as error:
            self._prepared = None  # an index may be missing, as in a database that was emptied
            raise self._told(error) from None  # the driver's own errors may quote what was sent

    async def _prepare(self) -> AsyncDriver:
        await self._greet()
        self._heard_at = math.inf  # importing the driver takes seconds on a busy machine, for which nobody gives up
        try:
            driver = self._driver = self._driver or self._connect()
            import neo4j.exceptions
        finally:
            self._heard_at = time.monotonic()

        is_made = (await self._execute(driver, partial(rows_of, statement=self._made), False))[0]["made"]
        for statement in () if is_made else self._schema:
            try:
                await self._execute(driver, partial(rows_of, statement=statement), True)
            except neo4j.exceptions.ClientError as error:
                if "AlreadyExists" not in (error.code or ""):  # another server was first, all the same
                    raise
        return driver

    async def _greet(self) -> None:
        """Raises StoreAway if nobody answers."""
        try:
            address = urlsplit(self._uri)
            host, port = address.hostname or "", address.port or 7687
        except ValueError:
            return  # the driver tells what is wrong with it
        if address.username or not re.fullmatch(r"(?:bolt|neo4j)(?:\+ssc?)?", address.scheme):
            return
        try:
            async with asyncio.timeout(_GREET_S):
                reader, writer = await asyncio.open_connection(host, port)
                with contextlib.closing(writer):
                    if "+" not in address.scheme:  # else TLS would come first
                        writer.write(_HELLO)
                        await reader.readexactly(4)
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            raise self._away(error) from None

    async def _execute(self, driver: AsyncDriver, work: Callable[[Tx], Awaitable[T]], writes: bool) -> T:
        """What the work returns, as long as the server answers pings meanwhile."""

        async def execute() -> T:
            async with driver.session(database=self._database or None) as session:
                return await (session.execute_write if writes else session.execute_read)(work)

        task = asyncio.get_running_loop().create_task(execute())
        try:
            async with asyncio.timeout(_LONGEST_S):
                while not (await asyncio.wait({task}, timeout=_PING_AFTER_S))[0]:
                    async with asyncio.timeout(_PING_S):
                        await driver.verify_connectivity()
                    self._heard_at = time.monotonic()
            result = task.result()
            self._heard_at = time.monotonic()
            return result
        finally:
            task.cancel()

    def _connect(self) -> AsyncDriver:
        try:
            import neo4j
        except ImportError:
            raise SettingsError("The neo4j driver is not installed.", "Run pip install 'refdesk[neo4j]'.") from None
        try:
            if self._uri.startswith("http"):  # the driver takes it, but can't do all that is needed
                raise ValueError
            return neo4j.AsyncGraphDatabase.driver(
                self._uri,
                auth=(self._user, self._password) if self._password else None,
                connection_timeout=_PING_S,
                connection_acquisition_timeout=_PING_S,
                max_transaction_retry_time=_LONGEST_S,
                initial_retry_delay=0.1,
                notifications_min_severity="OFF",
                user_agent="refdesk",
            )
        except (ValueError, neo4j.exceptions.ConfigurationError):
            what_next = "Set it as in bolt://localhost:7687."
            raise SettingsError("NEO4J_URI is no address of a Neo4j server.", what_next) from None

    def _away(self, why: Exception | str) -> StoreAway:
        _log.warning("Neo4j is away: %s", str(why) or type(why).__name__)
        self._away_at = time.monotonic()
        return StoreAway()

    def _told(self, error: Exception) -> RefdeskError:
        """The error in RefDesk's words, without the password."""
        from neo4j import exceptions

        said = " ".join(str(getattr(error, "message", None) or error).split())[:300]
        said = said.replace(self._password, "…") if self._password else said
        away = (TimeoutError, OSError, exceptions.ServiceUnavailable, exceptions.SessionExpired)
        if isinstance(error, (*away, exceptions.ConnectionPoolError, exceptions.TransientError)):
            return self._away(said or type(error).__name__)
        for part, told in _TOLD.items():
            if part in (getattr(error, "code", None) or ""):
                return StoreError(told[0].format(user=self._user, database=self._database), told[1])
        return StoreError(
            f"Neo4j refused a query: {said}", "Playbooks need Neo4j 5.23 or later, and best a database of their own."
        )


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()
