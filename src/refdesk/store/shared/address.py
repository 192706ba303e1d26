"""The address of a shared library: `postgres://user@host/database?index=qdrant://host:6334,host:6334`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, get_args
from urllib.parse import quote, unquote, urlencode

from refdesk.errors import SettingsError
from refdesk.settings import address_parts, endpoints

Quantisation = Literal["none", "int8", "binary"]
_EXAMPLE = "Write it as postgres://user@host/database?index=qdrant://host:6334,host:6334."
_NAME = re.compile(r"(?!pg_)[a-z][a-z0-9_]{0,39}")
_NUMBER = re.compile(r"[1-9][0-9]{0,3}")
_PORT = 6334
_SHARDS = 6
_OWN = ("index", "index_ca", "schema", "shards", "replicas", "quantisation")  # parameters; others are libpq's
_NEAR = 0.75  # how like one of these no other may be; of libpq's, `replication` is most, .74 like `replicas`


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the record and the index of a shared library are."""

    record: str  # libpq's own, without the parameters below
    nodes: tuple[str, ...]  # host:port of each Qdrant node, for gRPC
    is_encrypted: bool = False  # qdrants:// speaks TLS
    index_ca: str = ""  # the file with the certificate of who vouches for the nodes, if it is not a public authority
    schema: str = "refdesk"  # of Postgres, and the prefix of Qdrant's collections
    shards: int
    replicas: int = 2
    quantisation: Quantisation = "binary"


def parse(address: str) -> Address:
    """The parts of an address; raises SettingsError."""
    parts = address_parts(address)
    given = dict(parts.given)
    if not any(host for host, _ in parts.hosts) and not any(map(given.get, ("host", "hostaddr", "service"))):
        raise SettingsError("The address of the library names no Postgres server.", _EXAMPLE)
    own = {key: given.pop(key) for key in _OWN if key in given}
    if blank := next((key for key, value in own.items() if not value), ""):
        raise SettingsError(f"The address of the library gives {blank} no value.", "Give it one, or leave it out.")
    for name in given:
        if near := get_close_matches(name.lower(), _OWN, 1, _NEAR):
            raise SettingsError(f"The address of the library has no parameter {name}.", f"Did you mean {near[0]}?")
    index = re.fullmatch(r"(qdrants?)://([^/?#]+)/?", own.pop("index", ""))
    if index is None:
        raise SettingsError("The address of the library names no index.", _EXAMPLE)
    if not _NAME.fullmatch(own.get("schema", "refdesk")):
        raise SettingsError(
            f"{own['schema']!r} can't name a schema.",
            "Use up to 40 lower-case letters, digits and underscores, not pg_ first.",
        )
    if own.get("quantisation", "none") not in get_args(Quantisation):
        raise SettingsError(f"There is no quantisation {own['quantisation']!r}.", "Take none, int8 or binary.")
    numbers: dict[str, int] = {}
    for key in ("shards", "replicas"):
        if value := own.pop(key, ""):
            if not _NUMBER.fullmatch(value):
                raise SettingsError(f"{key} can't be {value!r}.", "It is a number from 1 to 9999.")
            numbers[key] = int(value)
    nodes = endpoints(index[2])
    if not all(host for host, _ in nodes):
        raise SettingsError("The address of the library has a node of the index without a name.", _EXAMPLE)
    # Each shard is searched by itself: with six on one node a query takes 40 % more processor time than with one, and
    # .916 of the ten best are those of a folder in place of .977, since each counts by itself how rare a term is. A
    # cluster has six, so that it can grow to as many nodes without building its index anew.
    numbers.setdefault("shards", 1 if len(nodes) == 1 else max(_SHARDS, len(nodes)))
    record = f"postgresql://{parts.server}{parts.database}"
    record += f"?{urlencode(given, quote_via=quote)}" * bool(given)  # libpq takes a + for itself, not for a space
    return Address(
        record=record, nodes=tuple(f"{host}:{port or _PORT}" for host, port in nodes),
        is_encrypted=index[1] == "qdrants", **own, **numbers,  # type: ignore[arg-type]
    )  # fmt: skip


def without_password(said: str, record: str) -> str:
    """A message of libpq without what it quotes of a password in the record's address."""
    user_info, _, rest = record.partition("://")[2].rpartition("@")
    pairs = [each.partition("=") for each in rest.partition("?")[2].split("&")]
    written = [
        user_info.partition(":")[2],
        *(value for name, _, value in pairs if "password" in name or "secret" in name),
    ]
    secrets = [*written, *map(unquote, written)]
    parts = {part for one in secrets for part in (one, *re.split("[:/@#?]", one)) if part}
    for part in sorted(parts, key=len, reverse=True):
        said = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", "…", said)
    return said
