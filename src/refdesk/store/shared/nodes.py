"""Calls to the nodes of a Qdrant cluster: each has a time limit, and a node that does not answer is passed over."""

from __future__ import annotations

import itertools
import logging
import math
import re
import ssl
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refdesk.errors import SettingsError, StoreError
from refdesk.settings import set_for_native
from refdesk.store.shared.address import Address
from refdesk.system import metrics
from refdesk.system.wanted import Outage

if TYPE_CHECKING:
    import grpc

# Read when it is imported.  Its handlers hinder children, and its own lines would stand among those of the log.
set_for_native("GRPC_ENABLE_FORK_SUPPORT", "false")
set_for_native("GRPC_VERBOSITY", "NONE")

# Only the messages are needed: the client around them takes 1.3 s to import, so its package is not executed.
if "qdrant_client" not in sys.modules and (_found := find_spec("qdrant_client")) is not None:
    sys.modules["qdrant_client"] = module_from_spec(_found)

_log = logging.getLogger(__name__)

ASK_S = 3.5  # of a query, all attempts together: after it words are searched in the record, in five seconds in all
_AGAIN_S = 1.0  # and after none answered
WRITE_S = 60.0
_CLOSE_S = 3.0
_AVOIDED_S, _MOST_AVOIDED_S = 2.0, 30.0  # a node that failed is asked last for so long, then for twice as long
_BEAT_S, _LATE_S = 2.0, 5.0  # between looks whether nodes go on; for which one that hung is asked last then
_PING_MS, _PONG_MS = 3_000, 5_000  # a node that hangs is known by its connection: a write would wait far longer for it
_LARGEST = 256 << 20  # bytes of a message
_READS = frozenset({"Query", "QueryBatch", "Count", "Scroll", "Facet", "Get"})
_MOST_SAID = 100  # characters of what a node says


# What a node that never answered may be, by what gRPC says; shown where it is known whether TLS is asked for.
_HINTS = {
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not trusted, has expired or names another host: see index_ca",
    "WRONG_VERSION_NUMBER": "it speaks no TLS, or is not Qdrant's gRPC port: see qdrant:// and the port",
    "Tls handshake failed": "TLS with it fails: see index_ca, and its certificate",
}
_LOOPBACK = re.compile(r"(localhost|127\.[\d.]+|\[::1\]):")
_MAYBE_TLS = "it may speak TLS, or be not Qdrant's gRPC port: see qdrants:// and the port"


class IndexAway(StoreError):
    """No node of the index answered in time."""


class IndexMissing(StoreError):
    """The nodes do not know the collection."""


class Nodes:
    """The channels to all nodes; they are made on first use, since they don't outlive a fork."""

    def __init__(self, address: Address, api_key: str) -> None:
        self.addresses = address.nodes
        self._is_encrypted = address.is_encrypted
        self._authority = _read(address.index_ca) if address.index_ca else None
        self._metadata = (("api-key", api_key),) if api_key else ()
        if api_key and not address.is_encrypted and not all(map(_LOOPBACK.match, address.nodes)):
            _log.warning("Qdrant's API key is sent without encryption: qdrants:// speaks TLS")
        self._mutex = threading.Lock()
        self._channels: dict[str, grpc.Channel] = {}
        self._methods: dict[tuple[str, str, str], Any] = {}
        self._avoided: dict[str, tuple[float, float]] = {}  # nodes that failed: until when, and for how long
        self._outage = Outage()  # of all nodes
        self._turn = itertools.count()
        self.failures = 0  # of nodes: what one knows may be older when it is back
        self._hung: dict[str, float] = {}  # nodes that did not answer the pulse: until when they are asked last
        self._pulse: threading.Thread | None = None
        self._closing = threading.Event()
        self._answered: set[str] = set()  # nodes that ever did
        self._suspected: dict[str, str] = {}  # what may be wrong in the address of others

    def call(self, service: str, method: str, request: Any, limit_s: float | None = None, *, node: str = "") -> Any:
        """The answer of the first node that gives one, or of the one that is named; raises IndexAway."""
        ends = self._end(limit_s)
        return self._answer([node] if node else self._order(), None, service, method, request, ends)

    def start(self, service: str, method: str, request: Any, limit_s: float | None = None) -> Callable[[], Any]:
        """Sends the request, and returns what waits for its answer, so that several are on their way at once.

        One alone is better called: gRPC starts a thread for what is not waited for.
        """
        ends = self._end(limit_s)
        order = self._order()
        method_at, timeout_s = self._attempt(order[0], service, method, ends, is_last=len(order) == 1)
        first = method_at.future(request, timeout=timeout_s, metadata=self._metadata)
        return lambda: self._answer(order, first, service, method, request, ends)

    def _answer(self, order: Sequence[str], first: Any, service: str, method: str, request: Any, ends: float) -> Any:
        """The answer of the first node in this order, which may have been sent the request already."""
        import grpc

        said_by = dict.fromkeys(order, "not asked, since the time was over")
        missing, failed, away = "", 0, 0
        for place, node in enumerate(order):
            if place and time.monotonic() >= ends:
                break
            try:
                if place == 0 and first is not None:
                    answer = first.result()
                else:
                    method_at, timeout_s = self._attempt(node, service, method, ends, is_last=place + 1 == len(order))
                    answer = method_at(request, timeout=timeout_s, metadata=self._metadata)
                self._avoided.pop(node, None)
                self._answered.add(node)
                self._suspected.pop(node, None)
                self._outage.ends()
                return answer
            except grpc.RpcError as error:
                code, said = error.code(), error.details() or ""
                if code == grpc.StatusCode.NOT_FOUND or "doesn't exist" in said:
                    missing = said  # here: a node that was down when it was made learns of it later
                    said_by[node] = "it does not know the collection"
                    continue
                if code == grpc.StatusCode.UNAUTHENTICATED or code == grpc.StatusCode.PERMISSION_DENIED:
                    raise SettingsError("Qdrant refuses the API key.", "Set REFDESK_QDRANT_API_KEY.") from error
                if code == grpc.StatusCode.INVALID_ARGUMENT:
                    raise StoreError(f"Qdrant refused: {said}") from error
                self._avoid(node)
                metrics.count("refdesk_index_node_errors_total", node=node)
                failed += 1
                away += code == grpc.StatusCode.UNAVAILABLE
                reason = re.sub(r".*last error: (UNKNOWN: )?", "", said)[:_MOST_SAID].rstrip(".")
                words = f"{code.name.lower().replace('_', ' ')}: {reason}"
                said_by[node] = "no answer in time" if code == grpc.StatusCode.DEADLINE_EXCEEDED else words
                self._suspect(node, said)
                said_by[node] = self._suspected.get(node, said_by[node])
        if missing and not failed:
            raise IndexMissing(f"Qdrant has lost the index: {missing}", "It is being built anew; try again.")
        problem = "; ".join(f"{node}: {said}" for node, said in said_by.items())
        # A write fails with any replica that hangs: then queries may still be answered.
        if len(order) == len(self.addresses) and (method in _READS or away == len(order)):
            self._outage.begins(problem)
        raise self._away(problem)

    def _suspect(self, node: str, said: str) -> None:
        """Notes what may be wrong in the address, if the node has never answered."""
        hint = next((hint for part, hint in _HINTS.items() if part in said), "")
        if not hint and "Socket closed" in said and not self._is_encrypted:
            hint = _MAYBE_TLS
        if hint and node not in self._answered:
            self._suspected[node] = hint

    def _away(self, problem: str) -> IndexAway:
        todo = "Correct the library's address" if self._suspected else "Check that Qdrant runs"
        return IndexAway(f"No node of the index did what it was asked: {problem}.", f"{todo}, then try again.")

    @property
    def unreached(self) -> str:
        """What to say of an index that can't be reached."""
        found = next((f" ({node}: {hint})" for node, hint in self._suspected.items()), "")
        return f"the index can't be reached{found}"

    @property
    def is_away(self) -> bool:
        """Whether no node answered the last call."""
        return bool(self._outage.problem)

    def _end(self, limit_s: float | None) -> float:
        """When a call must have ended; raises IndexAway if no node answered another one just now."""
        limit_s = limit_s or ASK_S
        if self._outage.problem and limit_s <= ASK_S:
            limit_s = _AGAIN_S
        if self._outage.hinders(limit_s):
            raise self._away(self._outage.problem)
        return time.monotonic() + limit_s

    def _avoid(self, node: str) -> None:
        self.failures += 1
        now = time.monotonic()
        until, for_s = self._avoided.get(node, (0.0, 0.0))
        if now >= until:  # several calls may have been waiting for it
            for_s = min(2 * for_s, _MOST_AVOIDED_S) or _AVOIDED_S
            self._avoided[node] = now + for_s, for_s

    def _order(self) -> list[str]:
        """All nodes, in turn; those that failed lately last."""
        turn, now = next(self._turn) % len(self.addresses), time.monotonic()
        nodes = self.addresses[turn:] + self.addresses[:turn]
        if len(nodes) > 1 and self._pulse is None:
            self._watch()
        return sorted(
            nodes, key=lambda node: now < max(self._avoided.get(node, (0.0, 0.0))[0], self._hung.get(node, 0.0))
        )

    def _watch(self) -> None:
        with self._mutex:
            if self._pulse is None and not self._closing.is_set():
                self._pulse = threading.Thread(target=self._beat, name="refdesk-pulse", daemon=True)
                self._pulse.start()

    def _beat(self) -> None:
        """Asks every node now and then whether it goes on.

        One that hung and goes on answers what was true before, until it has heard from the others: for 2.6 s, of three
        times when it was watched.  They leave it out after ten seconds, so it is seen before that.
        """
        import grpc
        from qdrant_client import grpc as messages

        while not self._closing.wait(_BEAT_S):
            for node in self.addresses:
                try:
                    ask, _ = self._attempt(node, "Qdrant", "HealthCheck", 0.0, is_last=True)
                    ask(messages.HealthCheckRequest(), timeout=_BEAT_S, metadata=self._metadata)
                    if self._hung.get(node) == math.inf:
                        self._hung[node] = time.monotonic() + _LATE_S
                except grpc.RpcError:
                    self.failures += self._hung.get(node) != math.inf
                    self._hung[node] = math.inf
                except ValueError:  # the channel was closed
                    return

    def _attempt(self, node: str, service: str, method: str, ends: float, *, is_last: bool) -> tuple[Any, float]:
        """The method at a node, and how long it may take."""
        if (known := self._methods.get((node, service, method))) is None:
            from qdrant_client import grpc as messages

            name = _SAME.get((service, method), method)
            known = self._channel(node).unary_unary(
                f"/qdrant.{service}/{method}",
                request_serializer=lambda request: request.SerializeToString(),
                response_deserializer=getattr(messages, _ANSWERS[name]).FromString,
            )
            self._methods[node, service, method] = known
        left = ends - time.monotonic()
        return known, max(0.05, left if is_last else left / 2)  # so that there is time for the other nodes

    def _channel(self, node: str) -> grpc.Channel:
        import grpc

        with self._mutex:
            if node not in self._channels:
                options = [
                    ("grpc.max_send_message_length", _LARGEST),
                    ("grpc.max_receive_message_length", _LARGEST),
                    ("grpc.max_reconnect_backoff_ms", 1000),
                    ("grpc.keepalive_time_ms", _PING_MS),
                    ("grpc.http2.max_pings_without_data", 0),
                    ("grpc.http2.ping_timeout_ms", _PONG_MS),
                    ("grpc.enable_http_proxy", 0),
                ]
                if self._is_encrypted:
                    self._channels[node] = grpc.secure_channel(
                        node, grpc.ssl_channel_credentials(self._authority), options
                    )
                else:
                    self._channels[node] = grpc.insecure_channel(node, options)
            return self._channels[node]

    def close(self) -> None:
        self._closing.set()

        def close(channels: Sequence[grpc.Channel]) -> None:
            for channel in channels:
                channel.close()

        # gRPC waits for the end of each call, which never comes if it was interrupted as it began.
        closing = threading.Thread(target=close, args=[list(self._channels.values())], daemon=True)
        closing.start()
        closing.join(_CLOSE_S)
        self._channels.clear()
        self._methods.clear()


def _read(file: str) -> bytes:
    try:
        path = Path(file).expanduser()
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        return path.read_bytes()
    except ssl.SSLError as error:
        raise SettingsError(f"index_ca names {file}, which has no certificate in PEM form.", "Correct it.") from error
    except OSError as error:
        raise SettingsError(f"index_ca names {file}, which can't be read: {error.strerror}.", "Correct it.") from error


_SAME = {("Collections", "Delete"): "DeleteCollection", ("Points", "Get"): "GetPoints"}  # names of two methods
_ANSWERS = {
    "Query": "QueryResponse",
    "QueryBatch": "QueryBatchResponse",
    "Count": "CountResponse",
    "Upsert": "PointsOperationResponse",
    "Delete": "PointsOperationResponse",
    "Scroll": "ScrollResponse",
    "Facet": "FacetResponse",
    "CreateFieldIndex": "PointsOperationResponse",
    "Create": "CollectionOperationResponse",
    "Update": "CollectionOperationResponse",
    "DeleteCollection": "CollectionOperationResponse",
    "Get": "GetCollectionInfoResponse",
    "GetPoints": "GetResponse",
    "CollectionClusterInfo": "CollectionClusterInfoResponse",
    "HealthCheck": "HealthCheckReply",
    "List": "ListCollectionsResponse",
}
