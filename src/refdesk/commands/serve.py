"""`serve`: the library over MCP."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from refdesk import __version__
from refdesk.errors import SettingsError
from refdesk.settings import Settings, library_argument, load

if TYPE_CHECKING:
    from refdesk.toolsets.contract import Toolset


_ON_A_TERMINAL = (
    "RefDesk serves MCP on stdin and stdout: it is for a client (an editor, an agent), which starts it by itself."
    " `refdesk install` connects one, `refdesk serve --transport http` serves at an address. Ctrl-D or Ctrl-C ends it."
)


@click.command()
@click.option("--toolsets", help="Which of docs, rag, skills, pages, code to offer, with commas; all by default.")
@click.option("--transport", type=click.Choice(["stdio", "http", "sse"]))
@click.option("--host", help="The address to listen on; another than localhost needs --auth-token.")
@click.option("--port", type=int)
@click.option("--workers", "processes", type=click.IntRange(1, 64), help="How many processes serve over HTTP.")
@click.option("--allow-root", "allow_roots", multiple=True, help="A folder that tools may read, besides this one.")
@click.option("--allow-secret", "allow_secrets", multiple=True, help="A file with secrets that tools may read.")
@click.option("--allow-host", "allow_hosts", multiple=True, help="A host inside your network that may be fetched.")
@click.option("--auth-token", help="Clients over HTTP must send it as a bearer token (REFDESK_AUTH_TOKEN).")
@click.option(
    "--max-tokens", "max_answer_tokens", type=click.IntRange(0), help="Of a search's answer; 4000 by default."
)
@click.option("--console/--no-console", default=None, help="Whether people find pages at / over HTTP; they do.")
@click.option("--log-level")
@click.pass_context
def serve(context: click.Context, /, **flags: Any) -> None:
    """Serve the library over MCP: on stdio, or over HTTP at /mcp."""
    settings = load({**(context.find_root().obj or {}), **flags})
    if settings.transport == "stdio" and sys.stdin.isatty():
        click.echo(_ON_A_TERMINAL, err=True)
    from refdesk.server import serve as run

    sys.exit(run(lambda: _toolsets(settings), _options(settings)))


@click.command()
@click.option("--port", type=int, help="Another than a free one.")
@click.option("--open/--no-open", "opening", default=True, help="Open it in the browser.")
@click.option("--allow-root", "allow_roots", multiple=True, help="A folder that may be indexed, besides this one.")
@click.option("--allow-host", "allow_hosts", multiple=True, help="A host inside your network that may be fetched.")
@click.pass_context
def console(context: click.Context, /, port: int | None, opening: bool, **flags: Any) -> None:
    """Look at the library in the browser: search, read, index, playbooks, what agents asked."""
    import socket

    if port is None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
    here = {"transport": "http", "host": "127.0.0.1", "port": port, "console": True, "processes": 1}
    settings = load({**(context.find_root().obj or {}), **flags, **here, "log_level": "warning"})
    url = f"http://127.0.0.1:{port}/"
    told = ""
    if settings.oauth_issuer and not settings.auth_token:  # pages have no sign-in by OAuth
        settings = replace(settings, auth_token=secrets.token_urlsafe(12))
        told = f" Sign in with the token {settings.auth_token} there."
    click.echo(f"The console is at {url}; Ctrl-C ends it.{told}")
    from refdesk.server import serve as run

    # The watchdog forks, so no thread may run before the server does: the page is opened from the loading thread.
    def toolsets() -> Sequence[Toolset]:
        if opening:
            import webbrowser

            webbrowser.open(url)
        return _toolsets(settings)

    sys.exit(run(toolsets, _options(settings)))


_INSTRUCTIONS = "Search this local library before guessing. Heed lines that begin with note:."
_WHICH_TOOL = {
    "code": "Code: index_codebase once, then search_code with a question or a name; code_research for callers,"
    " implementations, structure.",
    "docs": "Documentation: search_docs, then get_doc with a hit's chunk_id.",
    "pages": "Crawled pages: qurio_search, then qurio_read_page; qurio_list_sources and qurio_list_pages to browse.",
    "rag": "Notes and files: rag_search; rag_create_collection, then rag_ingest to add.",
    "skills": "Support problems: search_skills first; create_skill or update_skill once solved.",
}


def _toolsets(settings: Settings) -> Sequence[Toolset]:
    from refdesk.app import make_toolsets

    def clients() -> list[dict[str, str]]:
        from refdesk.commands.install import clients_here

        return clients_here(library_argument(settings) if "library" in settings.origins else "")

    return make_toolsets(settings, clients)


def _options(settings: Settings) -> Any:
    from refdesk.server import OAuth, ServerOptions

    oauth = None
    if settings.oauth_issuer:
        if not settings.oauth_audience:
            raise SettingsError("oauth_issuer is set, but no oauth_audience.", "Set it to this server's own name.")
        oauth = OAuth(issuer=settings.oauth_issuer, audience=settings.oauth_audience, scopes=settings.oauth_scopes)
    offered = [text for name, text in _WHICH_TOOL.items() if name in settings.toolsets]
    return ServerOptions(
        version=__version__,
        instructions="\n".join([_INSTRUCTIONS, *offered]),
        transport=settings.transport,
        host=settings.host,
        port=settings.port,
        processes=settings.processes,
        max_sessions=settings.max_sessions,
        auth_token=settings.auth_token or None,
        oauth=oauth,
        allowed_hosts=settings.http_hosts,
        allowed_origins=settings.http_origins,
        public_url=settings.public_url or None,
        log_level=settings.log_level,
        console=settings.console,
    )
