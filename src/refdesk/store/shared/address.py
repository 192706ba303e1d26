"""The address of a shared library: `postgres://user@host/database?index=qdrant://host:6334,host:6334`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args
from urllib.parse import parse_qsl, urlencode, urlsplit

from refdesk.errors import SettingsError

Quantisation = Literal["none", "int8", "binary"]
_EXAMPLE = "Write it as postgres://user@host/database?index=qdrant://host:6334,host:6334."
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PORT = 6334
_SHARDS = 6
_OWN = ("index", "index_ca", "schema", "shards", "replicas", "quantisation")  # parameters; others are libpq's


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
    parts = urlsplit(address)
    if not parts.hostname and "service=" not in parts.query:
        raise SettingsError("The address of the library names no Postgres server.", _EXAMPLE)
    given = dict(parse_qsl(parts.query))
    own = {key: given.pop(key) for key in _OWN if key in given}
    index = re.fullmatch(r"(qdrants?)://([^/?#]+)/?", own.pop("index", ""))
    if index is None:
        raise SettingsError("The address of the library names no index.", _EXAMPLE)
    if not _NAME.fullmatch(own.get("schema", "refdesk")):
        raise SettingsError(
            f"{own['schema']!r} can't name a schema.", "Use lower-case letters, digits and underscores."
        )
    if own.get("quantisation", "none") not in get_args(Quantisation):
        raise SettingsError(f"There is no quantisation {own['quantisation']!r}.", "Take none, int8 or binary.")
    try:
        numbers = {key: int(own.pop(key)) for key in ("shards", "replicas") if key in own}
    except ValueError as error:
        raise SettingsError("shards and replicas are numbers.", _EXAMPLE) from error
    nodes = tuple(one if re.search(r":\d+$", one) else f"{one}:{_PORT}" for one in index[2].split(","))
    # Each shard is searched by itself: with six on one node a query takes 40 % more processor time than with one, and
    # .916 of the ten best are those of a folder in place of .977, since each counts by itself how rare a term is. A
    # cluster has six, so that it can grow to as many nodes without building its index anew.
    numbers["shards"] = numbers.get("shards") or (1 if len(nodes) == 1 else max(_SHARDS, len(nodes)))
    record = f"postgresql://{parts.netloc}{parts.path}" + f"?{urlencode(given)}" * bool(given)
    return Address(record=record, nodes=nodes, is_encrypted=index[1] == "qdrants", **own, **numbers)  # type: ignore[arg-type]
