"""The MCP server, over stdio and HTTP; heavy modules are imported when they are first needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from refdesk.server.process import OAuth, ServerOptions

if TYPE_CHECKING:
    from refdesk.toolsets.contract import Toolset

__all__ = ["OAuth", "ServerOptions", "serve"]


def serve(make_toolsets: Callable[[], Sequence[Toolset]], options: ServerOptions) -> int:
    """Serves until the client disconnects (stdio) or the process is told to stop (HTTP); returns the exit code.

    `make_toolsets` is called in a background thread after the first answer was sent; put slow imports inside it.
    """
    if options.transport != "stdio" and options.processes > 1:
        from refdesk.server.http.several import serve_several

        return serve_several(make_toolsets, options)
    from refdesk.server.process import log_to_stderr, start_shutdown_watchdog

    start_shutdown_watchdog()
    log_to_stderr(options.log_level)
    from refdesk.server.dispatcher import Dispatcher

    dispatcher = Dispatcher(make_toolsets, options)
    if options.transport == "stdio":
        from refdesk.server.stdio import serve_stdio

        return serve_stdio(dispatcher)
    from refdesk.server.http.transport import serve_http

    return serve_http(dispatcher)
