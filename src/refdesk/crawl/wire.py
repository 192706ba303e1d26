"""How do requests reach the wire?  By libcurl, in the event loop that is running, to vetted addresses only."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Protocol

import pycurl

from refdesk.errors import InvalidUri, LoadFailed, RefdeskError

_IDLE_S = 30  # a connection that was not used for so long is not used again
_BUFFER = 131_072
_NATIVE_CA = 1 << 4  # CURLSSLOPT_NATIVE_CA, which older pycurl does not name
_LOOK_EVERY_S = 0.002  # where the loop can't watch sockets


class Reading(Protocol):
    """What becomes of an answer while it comes."""

    def head(self, status: int, headers: Mapping[str, str]) -> None: ...

    def piece(self, data: bytes) -> bool:
        """Takes the next bytes; whether any more are wanted."""

    def answer(self, failure: RefdeskError | None) -> Any:
        """What the request brought, when all has come or it failed."""


@dataclass(frozen=True, slots=True)
class Order:
    """A request, the addresses that it may go to, and who reads the answer."""

    url: str
    headers: list[bytes]
    host: str
    port: int
    addresses: tuple[str, ...]
    reading: Reading


Sent = asyncio.Future[Any]  # what the reading makes of it
Then = Callable[[Any], None]


class Wire:
    """Sends requests over connections that are kept; HTTP/2 where the server speaks it over TLS."""

    def __init__(self, *, timeout_s: float, user_agent: str, cafile: str = "") -> None:
        self._timeout_s = timeout_s
        self._user_agent = user_agent
        self._cafile = cafile
        self._idle: list[Line] = []
        self._busy: dict[pycurl.Curl, Line] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due: float | None = None  # when libcurl wants to be called
        self._wanted: dict[int, int] = {}  # what is to be watched of sockets, where that changed
        self._is_opened = False  # since then a number may mean another socket
        self._is_settling = False
        self._is_telling = False
        self._watched: dict[int, int] = {}  # what the loop watches

    def open(self, *, watch: bool | None = None) -> None:
        """Takes up work in the loop that runs; with `watch`, or where it can, that loop watches the sockets."""
        self._loop = asyncio.get_running_loop()
        self._multi: Any = pycurl.CurlMulti()
        proactor: Any = getattr(asyncio, "ProactorEventLoop", ())
        self._watches = not isinstance(self._loop, proactor) if watch is None else watch
        if self._watches:
            self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
            self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)

    def close(self) -> None:
        """Gives up what is under way and closes every connection."""
        for line in list(self._busy.values()):
            self._give_up(line)
        for line in self._idle:
            line.close()
        self._multi.close()
        self._due = None
        self._settle()

    def prepare(self, order: Order) -> Line:
        """Does what can be done before a request is sent; it is sent, or left."""
        line = self._idle.pop() if self._idle else Line(self._timeout_s, self._user_agent, self._cafile, self._opened)
        line.take(order, self._loop.create_future())
        return line

    def leave(self, line: Line) -> None:
        """Takes back a prepared request that is not sent after all."""
        self._idle.append(line)

    def send(self, line: Line, then: Then | None = None) -> Sent:
        """Sends the request now, when a connection is open; what comes of it is known when the future is done.

        `then` gets it as soon as it is there, before the loop comes round, unless it came too soon for that.
        """
        line.then = then
        line.done.add_done_callback(lambda done: self._give_up(line) if done.cancelled() else None)
        self._busy[line.curl] = line
        self._multi.add_handle(line.curl)
        self._act(pycurl.SOCKET_TIMEOUT, 0)
        return line.done

    def _give_up(self, line: Line) -> None:
        if self._busy.pop(line.curl, None) is not None:
            self._multi.remove_handle(line.curl)
            line.close()
            line.done.cancel()

    # --- the loop ----------------------------------------------------------------------------------

    # What libcurl wants watched changes several times from one request to the next, and mostly back again: the loop is
    # told when the request is out.

    def _watch(self, what: int, socket_number: int, multi: Any, data: Any) -> None:
        self._wanted[socket_number] = 0 if what == pycurl.POLL_REMOVE else what
        self._settle_soon()

    def _set_timer(self, milliseconds: int) -> None:
        self._due = self._loop.time() + milliseconds / 1000 if milliseconds >= 0 else None
        self._settle_soon()

    def _opened(self) -> None:
        self._is_opened = True

    def _settle_soon(self) -> None:
        if not self._is_settling:
            self._is_settling = True
            self._loop.call_soon(self._loop.call_soon, self._settle)  # whoever gets an answer sends before that

    def _settle(self) -> None:
        self._is_settling = False
        if self._timer is not None and self._timer.when() != self._due:
            self._timer.cancel()
            self._timer = None
        if self._timer is None and self._due is not None:
            self._timer = self._loop.call_at(self._due, self._wake)
        for number, wanted in self._wanted.items():
            self._tell_loop(number, wanted)
        self._wanted.clear()
        self._is_opened = False

    def _tell_loop(self, number: int, wanted: int) -> None:
        before = self._watched.pop(number, 0)
        if self._is_opened:
            self._loop.remove_reader(number)
            self._loop.remove_writer(number)
            before = 0
        if wanted & ~before & pycurl.POLL_IN:
            self._loop.add_reader(number, self._act, number, pycurl.CSELECT_IN)
        elif before & ~wanted & pycurl.POLL_IN:
            self._loop.remove_reader(number)
        if wanted & ~before & pycurl.POLL_OUT:
            self._loop.add_writer(number, self._act, number, pycurl.CSELECT_OUT)
        elif before & ~wanted & pycurl.POLL_OUT:
            self._loop.remove_writer(number)
        if wanted:
            self._watched[number] = wanted

    def _wake(self) -> None:
        self._timer = self._due = None
        self._act(pycurl.SOCKET_TIMEOUT, 0)

    def _act(self, socket_number: int, ready: int) -> None:
        if self._watches:
            self._multi.socket_action(socket_number, ready)
        else:
            self._multi.perform()
        self._collect()
        if not self._watches:
            self._set_timer(round(_LOOK_EVERY_S * 1000) if self._busy else -1)

    def _collect(self) -> None:
        left = 1
        while left:
            left, good, bad = self._multi.info_read()
            for curl in good:
                self._done(curl, None)
            for curl, code, message in bad:
                self._done(curl, (code, message))

    def _done(self, curl: pycurl.Curl, failure: tuple[int, str] | None) -> None:
        line = self._busy.pop(curl)
        if not line.done.done():
            self._tell(line, line.answer(failure))
        self._multi.remove_handle(curl)
        self._idle.append(line)

    def _tell(self, line: Line, answer: Any) -> None:
        then, line.then = line.then, None
        if then is not None and not self._is_telling:  # what it sends may be answered within it, and so on
            self._is_telling = True
            try:
                then(answer)
            except Exception as error:
                line.done.set_exception(error)
                return
            finally:
                self._is_telling = False
        line.done.set_result(answer)


class Line:
    """A handle of libcurl, used for one request after the other."""

    def __init__(self, timeout_s: float, user_agent: str, cafile: str, opened: Callable[[], None]) -> None:
        self._timeout_s = timeout_s
        self._cafile = cafile
        self._opened = opened
        self.then: Then | None = None
        self._trusts = False
        self._sent_headers: list[bytes] | None = None
        self._where: tuple[str, int, tuple[str, ...]] | None = None
        self._sockets: list[socket.socket] = []
        self.curl: Any = pycurl.Curl()
        for option, value in (
            (pycurl.NOSIGNAL, 1),
            (pycurl.PROXY, ""),  # those of the environment too
            (pycurl.FOLLOWLOCATION, 0),
            (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
            (pycurl.PATH_AS_IS, 1),
            (pycurl.HTTP_CONTENT_DECODING, 0),
            (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS),
            (pycurl.USERAGENT, user_agent),
            (pycurl.TIMEOUT_MS, max(1, round(timeout_s * 1000))),
            (pycurl.MAXAGE_CONN, _IDLE_S),
            (pycurl.BUFFERSIZE, _BUFFER),
            (pycurl.HEADERFUNCTION, self._header),
            (pycurl.WRITEFUNCTION, self._piece),
            (pycurl.OPENSOCKETFUNCTION, self._open),
        ):
            self.curl.setopt(option, value)

    def take(self, order: Order, done: Sent) -> None:
        """Makes the handle ready for a request."""
        self._order = order
        self.done = done
        self._headers: dict[str, str] = {}
        self._status = 0
        self._stopped = False
        self._failure: RefdeskError | None = None
        if order.url.startswith("https:") and not self._trusts:
            self._trust()
        self.curl.setopt(pycurl.URL, order.url)
        if order.headers is not self._sent_headers:
            self._sent_headers = order.headers
            self.curl.setopt(pycurl.HTTPHEADER, order.headers)
        where = (order.host, order.port, order.addresses)
        if where != self._where:
            self._where = where
            shown = ",".join(f"[{one}]" if ":" in one else one for one in order.addresses)
            self.curl.setopt(pycurl.RESOLVE, [f"{order.host}:{order.port}:{shown}"])

    def close(self) -> None:
        self._close_sockets()
        self.curl.close()

    def answer(self, failure: tuple[int, str] | None) -> Any:
        """What the request brought."""
        self._close_sockets()
        return self._order.reading.answer(self._error(failure))

    def _error(self, failure: tuple[int, str] | None) -> RefdeskError | None:
        if self._failure is not None:
            return self._failure
        if failure is None or self._stopped:
            return None
        code, message = failure
        if code == pycurl.E_OPERATION_TIMEDOUT:
            return LoadFailed(f"no answer within {self._timeout_s:g} s")
        return LoadFailed(f"can't be reached: {message or f'error {code} of libcurl'}")

    def _open(self, purpose: int, address: tuple[int, int, int, tuple[Any, ...]]) -> Any:
        """A socket for an address that was vetted; nothing for any other, whatever libcurl made of the name."""
        family, kind, protocol, (host, *_) = address
        found = host.decode() if isinstance(host, bytes) else str(host)
        if ip_address(found) not in {ip_address(one) for one in self._order.addresses}:
            self._failure = InvalidUri(f"{self._order.host} is not fetched: {found} is not the address it was.")
            return pycurl.SOCKET_BAD
        self._opened()
        self._close_sockets()
        self._sockets.append(socket.socket(family, kind, protocol))
        return self._sockets[-1]

    def _close_sockets(self) -> None:
        """Closes our ends of sockets that libcurl has: pycurl gives it copies."""
        while self._sockets:
            self._sockets.pop().close()

    def _header(self, line: bytes) -> None:
        if line.startswith(b"HTTP/"):
            self._headers = {}
            self._status = int(line.split(None, 2)[1])
        elif line.strip():
            key, _, value = line.partition(b":")
            self._headers[key.decode("ascii", "replace").strip().lower()] = value.strip().decode("latin-1")
        elif self._status >= 200:
            self._guarded(self._order.reading.head, self._status, self._headers)
            self._status = 0  # what may follow is no head

    def _piece(self, data: bytes) -> int:
        wanted = self._failure is None and self._guarded(self._order.reading.piece, data)
        if not wanted:
            self._stopped = True
            return 0
        return len(data)

    def _guarded(self, work: Callable[..., bool | None], *values: Any) -> bool | None:
        try:
            return work(*values)
        except RefdeskError as error:
            self._failure = error
            return False

    def _trust(self) -> None:
        """Certificates are checked against the system's roots and those that come with certifi, or a given file's."""
        self._trusts = True
        self.curl.setopt(pycurl.PIPEWAIT, 1)  # rather one more request on a connection than one more connection
        if self._cafile:
            self.curl.setopt(pycurl.CAINFO, self._cafile)
            return
        import ssl

        import certifi

        system = ssl.get_default_verify_paths()
        files = [certifi.where(), *([system.cafile] if system.cafile else [])]
        self.curl.setopt(pycurl.CAINFO_BLOB, b"\n".join(Path(one).read_bytes() for one in files))
        if system.capath:
            self.curl.setopt(pycurl.CAPATH, system.capath)
        if sys.platform in ("win32", "darwin"):
            self.curl.setopt(pycurl.SSL_OPTIONS, _NATIVE_CA)
