"""What can be set about serving?"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

Transport = Literal["stdio", "http", "sse"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuth:
    """Whose tokens are good here: RefDesk is the resource server, `issuer` the authorization server."""

    issuer: str
    audience: str
    scopes: tuple[str, ...] = ()
    jwks_uri: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How to serve; `allowed_hosts` and `allowed_origins` add to the names under which HTTP answers."""

    name: str = "refdesk"
    version: str = "0"
    title: str = "RefDesk"
    instructions: str | None = None
    transport: Transport = "stdio"
    host: str = "127.0.0.1"
    port: int = 8765
    auth_token: str | None = field(default=None, repr=False)
    oauth: OAuth | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    public_url: str | None = None
    prompts: bool = False
    log_level: str = "info"
    max_message_bytes: int = 16 * 1024 * 1024
    workers: int = 16
    task_workers: int = 4
    poll_seconds: float = 2.0
    page_size: int = 100
    check_outputs: bool = False
    task_poll_ms: int = 500
    max_task_ttl_ms: int = 24 * 60 * 60 * 1000
    max_tasks_per_client: int = 64
    roots_timeout_s: float = 5.0
    ask_timeout_s: float = 300.0
    session_idle_s: float = 30 * 60.0
    max_sessions: int = 500  # each takes 40 kB: the tasks and streams that the SDK keeps for it
    processes: int = 1
    state_key: bytes = field(default_factory=partial(os.urandom, 32), repr=False)  # seals what clients bring back
    exit_grace_s: float = 2.0
