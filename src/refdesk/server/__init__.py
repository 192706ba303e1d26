"""How do clients reach the library?  MCP over stdio and HTTP; nothing heavy is imported before it is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from refdesk.server.process import OAuth, ServerOptions

if TYPE_CHECKING:
    from refdesk.toolsets.contract import Toolset

__all__ = ["OAuth", "ServerOptions", "serve"]


def serve(make_toolsets: Callable[[], Sequence[Toolset]], options: ServerOptions) -> int:
    """Serves until the client is gone (stdio) or the process is told to stop (HTTP); returns the exit code.

    `make_toolsets` is called in a background thread once the first answer is out; put slow imports inside it.
    """
    if options.transport != "stdio" and options.processes > 1:
        from refdesk.server.http.several import serve_several

        return serve_several(make_toolsets, options)
    from refdesk.server.process import end_in_time, log_to_stderr

    end_in_time()
    log_to_stderr(options.log_level)
    from refdesk.server.hub import Hub

    hub = Hub(make_toolsets, options)
    if options.transport == "stdio":
        from refdesk.server.stdio import serve_stdio

        return serve_stdio(hub)
    from refdesk.server.http.transport import serve_http

    return serve_http(hub)
