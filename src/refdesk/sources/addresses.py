"""The address guard: only public addresses may be fetched, and hosts that the operator allows.

A connection goes to exactly the address that was checked, so that DNS can't change it in between.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import anyio.to_thread
import httpcore

from refdesk.errors import InvalidUri, LoadFailed

Resolve = Callable[[str, int], Sequence[str]]
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

# The most specific kind first; an address in none of these networks is public.
_REFUSED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("a cloud metadata", ("169.254.169.254/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32")),
    ("a cloud metadata", ("fd00:ec2::254/128", "fd20:ce::254/128")),
    ("a loopback", ("127.0.0.0/8", "::1/128")),
    ("a link-local", ("169.254.0.0/16", "fe80::/10")),
    ("a private", ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10")),
    ("a shared (carrier)", ("100.64.0.0/10",)),
    ("a multicast", ("224.0.0.0/4", "ff00::/8")),
    ("an IPv4-mapped", ("::ffff:0:0/96", "::ffff:0:0:0/96", "::/96")),
    ("a translated (NAT64)", ("64:ff9b::/96", "64:ff9b:1::/48")),
    ("a tunnel (6to4, Teredo)", ("2002::/16", "2001::/32", "192.88.99.0/24")),
    (
        "a reserved",
        (
            "0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
            "240.0.0.0/4", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16",
        ),
    ),
)  # fmt: skip
_NETWORKS = tuple((kind, ipaddress.ip_network(block)) for kind, blocks in _REFUSED for block in blocks)
_GLOBAL_V6 = ipaddress.ip_network("2000::/3")
_FIRST_TRIES_S = 5.0  # timeout for an address if the name has another one


def why_refused(address: str) -> str:
    """The kind of a forbidden address; "" for a public one."""
    try:
        found: _Address = ipaddress.ip_address(address)
    except ValueError:
        return "no"
    if isinstance(found, ipaddress.IPv6Address) and found.scope_id:
        return "a link-local"
    kind = next((kind for kind, network in _NETWORKS if found in network), "")
    if not kind and found.version == 6 and found not in _GLOBAL_V6:
        return "a reserved"
    return kind


def resolve_by_system(host: str, port: int) -> list[str]:
    """The addresses of a name, in the order the system would try them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class AddressGuard:
    """Resolves host names and refuses forbidden addresses, except for hosts that the operator allows."""

    def __init__(self, allow_hosts: Iterable[str] = (), resolve: Resolve = resolve_by_system) -> None:
        self._allowed = frozenset(entry.strip().lower().rstrip(".") for entry in allow_hosts if entry.strip())
        self._resolve = resolve

    def is_allowed(self, host: str, port: int) -> bool:
        """Whether the operator allowed the host: as host, host:port, or by *.suffix."""
        name = host.lower().rstrip(".")
        shown = f"[{name}]" if ":" in name else name
        parents = name.split(".")[1:] if ":" not in name else []
        suffixes = (".".join(parents[start:]) for start in range(len(parents)))
        wanted = {name, shown, f"{shown}:{port}", "*", *(f"*.{suffix}" for suffix in suffixes)}
        return not self._allowed.isdisjoint(wanted)

    def addresses(self, host: str, port: int) -> list[str]:
        """All addresses of the host; raises InvalidUri if any of them is forbidden."""
        try:
            found = [str(ipaddress.ip_address(host))]
        except ValueError:
            try:
                found = list(self._resolve(host, port))
            except (OSError, UnicodeError) as error:
                raise LoadFailed(f"{host} has no address: {error}.", "Check its name and the network.") from error
        if not found:
            raise LoadFailed(f"{host} has no address.", "Check its name and the network.")
        if not self.is_allowed(host, port):
            for address in found:
                if kind := why_refused(address):
                    raise InvalidUri(
                        f"{host} is not fetched: {address} is {kind} address.",
                        f"If it is meant to be reached, allow it with --allow-host {host}.",
                    )
        return found


class GuardedBackend(httpcore.AnyIOBackend):
    """Connects to checked addresses only: a name is resolved once."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connects to the first address of the host that answers."""
        found = await anyio.to_thread.run_sync(self._guard.addresses, host, port, abandon_on_cancel=True)
        for address in found[:-1]:
            try:
                first = _FIRST_TRIES_S if timeout is None else min(timeout, _FIRST_TRIES_S)
                return await super().connect_tcp(address, port, first, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await super().connect_tcp(found[-1], port, timeout, local_address, socket_options)
