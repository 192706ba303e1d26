"""The console as one ASGI application: routes, sign-in, protection against forged requests, templates."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from refdesk import __version__
from refdesk.console.journal import Journal
from refdesk.console.runs import Runs, Work
from refdesk.desk.desk import Desk
from refdesk.errors import Forbidden, InvalidInput, NotFound, RefdeskError
from refdesk.model import Contents, Query

_log = logging.getLogger(__name__)
T = TypeVar("T")

_HERE = Path(__file__).parent
_STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
_SIGNED_IN_S = 7 * 24 * 3600
_GUESS_S = 0.5  # before a wrong token is answered
_MOST_FIELD = 2 << 20  # bytes of a field of a form that is not a file
_MOST_FIELDS = 3 * _MOST_FIELD  # of a form without files
_MOST_SENT = 256 << 20  # of one with files
_AT_ONCE = 4  # views that are made at the same time, so that tool calls keep most of the processor
_SEVERAL = 20  # values of one name in a query
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # no-referrer would make the browser send no Origin either
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
    "vary": "x-part, cookie",
}


Clients = Callable[[], Sequence[Mapping[str, str]]]  # name, title, state, file and entry of each client


class Console:
    """The state that all pages share."""

    def __init__(self, desk: Desk, key: bytes, clients: Clients) -> None:
        self.desk = desk
        self.clients = clients
        self.runs = Runs(desk.library.runs)
        self.journal = Journal(desk.library, desk.settings.journal)
        self.token = desk.settings.auth_token
        self.turns = asyncio.Semaphore(_AT_ONCE)
        self._held: tuple[int, dict[str, Contents]] = (-1, {})
        self._key = hmac.digest(key, self.token.encode(), "sha256")  # another token ends all sign-ins

    def contents(self) -> dict[str, Contents]:
        """What each collection holds, counted again after a write."""
        now = self.desk.sequence()
        if self._held[0] != now:
            self._held = (now, self.desk.contents())
        return self._held[1]

    def sign(self, purpose: str, text: str) -> str:
        """A signature of the text, valid for one purpose."""
        return hmac.new(self._key, f"{purpose}:{text}".encode(), "sha256").hexdigest()

    @cached_property
    def pages(self) -> Environment:
        from refdesk.console import words

        found = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=StrictUndefined,
            auto_reload=False,
        )
        marks = {name: hashlib.sha256((_HERE / "static" / name).read_bytes()).hexdigest()[:12] for name in _STATIC}
        found.filters |= words.FILTERS
        found.globals |= {"static": {name: f"/static/{name}?{mark}" for name, mark in marks.items()}.get}
        found.globals |= {"url": address, "version": __version__}
        return found


def address(path: str, /, *parts: str, **query: Any) -> str:
    """The URL of a page: the parts replace each `{}` of the path; empty query values are left out."""
    filled = path.format(*(quote(part, safe="/" if "/" in part else "") for part in parts))
    pairs = [
        (name.rstrip("_"), one)
        for name, value in query.items()
        for one in (value if isinstance(value, list | tuple) else [value])
        if one not in (None, "", False)
    ]
    return f"{filled}?{urlencode(pairs)}" if pairs else filled


class Visit:
    """One request: its parameters, its session, and the ways to answer it."""

    def __init__(self, console: Console, request: Request, form: FormData, session: str, is_signed_in: bool) -> None:
        self.console = console
        self.desk = console.desk
        self.request = request
        self.form = form
        self.session = session
        self.is_signed_in = is_signed_in  # or no sign-in is needed

    @property
    def is_part(self) -> bool:
        """Whether a script asks only for the part of the page that changes."""
        return "x-part" in self.request.headers

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    def query(self, name: str, default: str = "") -> str:
        return self.request.query_params.get(name, default)

    def query_list(self, name: str) -> tuple[str, ...]:
        """All non-empty values of that name in the query, at most twenty: every link repeats them."""
        return tuple(one for one in self.request.query_params.getlist(name) if one)[:_SEVERAL]

    def number(self, name: str, default: int, most: int = 1_000_000) -> int:
        """A non-negative integer of the query."""
        text = self.query(name)
        return min(int(text), most) if text.isdecimal() and len(text) < 10 else default

    def page_of(self, rows: Sequence[T], most: int) -> tuple[Sequence[T], dict[str, int]]:
        """The rows of the requested page, and the page numbers for the template."""
        pages = max(1, -(-len(rows) // most))
        page = min(max(1, self.number("page", 1)), pages)
        return rows[(page - 1) * most : page * most], {"page": page, "pages": pages}

    def field(self, name: str) -> str:
        value = self.form.get(name, "")
        return value.strip() if isinstance(value, str) else ""

    def render(self, template: str, status: int = 200, **values: Any) -> Response:
        base = {
            "here": self.request.url.path,
            "token": self.console.sign("form", self.session),
            "theme": self.request.cookies.get("refdesk-theme", ""),
            "is_in": self.is_signed_in,
            "can_sign_out": bool(self.console.token),
            "back": _location(self.request),
            "running": [run for run in self.console.runs.last(10) if not run.over] if self.is_signed_in else [],
            "is_part": self.is_part,
            "at_page": self._at_page,
        }
        return HTMLResponse(self.console.pages.get_template(template).render(base | values), status)

    def _at_page(self, page: int) -> str:
        """The address of another page of the same list."""
        pairs = [pair for pair in self.request.query_params.multi_items() if pair[0] != "page"]
        return f"{self.request.url.path}?{urlencode([*pairs, ('page', page)])}"

    def redirect(self, path: str) -> Response:
        return RedirectResponse(path, 303)

    def start(self, what: str, target: str, work: Work, collection: str = "") -> Response:
        """Starts a run and redirects to its page."""
        return self.redirect(address("/runs/{}", self.console.runs.start(what, target, work, collection).id))


View = Callable[[Visit], Response]


class Page:
    """A route's endpoint: checks the session, refuses forged requests, turns errors into pages."""

    def __init__(self, console: Console, view: View, *, is_open: bool = False) -> None:
        self._console = console
        self._view = view
        self._is_open = is_open  # also to those who are not signed in

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        begun = time.perf_counter()
        response = await self._answer(Request(scope, receive))
        response.headers["server-timing"] = f"page;dur={(time.perf_counter() - begun) * 1000:.1f}"
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        name = f"refdesk-{request.url.port or 0}"  # cookies do not know ports: each console on a host has its own
        session, is_signed = self._session(request.cookies.get(name, ""))
        fresh = not session
        session = session or f"{secrets.token_hex(16)}.{int(time.time()) + _SIGNED_IN_S}"
        form = FormData()
        try:
            if self._console.token and not is_signed and not self._is_open:
                return RedirectResponse(
                    address("/sign-in", to=_location(request) if request.method == "GET" else ""), 303
                )
            if request.method == "POST":
                length = request.headers.get("content-length", "")
                with_files = request.url.path == "/library/ingest"
                if not length.isdecimal() or int(length) > (_MOST_SENT if with_files else _MOST_FIELDS):
                    raise Forbidden("This is too large for the console.", "Index its folder instead.")
                form = await request.form(max_files=200, max_fields=500, max_part_size=_MOST_FIELD)
                self._refuse_forged(request, form, "" if fresh else session)
            visit = Visit(self._console, request, form, session, is_signed or not self._console.token)
            async with self._console.turns:
                if request.method == "GET" and await request.is_disconnected():
                    return Response(status_code=499)  # who typed on does not wait for it
                response = await run_in_threadpool(self._made, visit)
        except Forbidden as error:
            response = HTMLResponse(f"<!doctype html><title>RefDesk</title><p>{error}</p>", 403)
        finally:
            await form.close()
        if fresh or "refdesk-signed" in response.headers:
            purpose = "in" if response.headers.get("refdesk-signed") == "in" else "visit"
            if "refdesk-signed" in response.headers:
                await asyncio.sleep(0 if purpose == "in" else _GUESS_S)
                del response.headers["refdesk-signed"]
            value = f"{session}.{self._console.sign(purpose, session)}"
            is_https = self._console.desk.settings.public_url.startswith("https:")
            response.set_cookie(
                name, value, max_age=_SIGNED_IN_S, httponly=True, samesite="strict", secure=is_https, path="/"
            )
        return response

    def _made(self, visit: Visit) -> Response:
        """The view's response, or an error page."""
        try:
            return self._view(visit)
        except RefdeskError as error:
            return _error_page(visit, error)
        except Exception:
            _log.exception("%s failed", visit.request.url.path)
            return _error_page(visit, RefdeskError("Something went wrong here.", "The server's log says what."))

    def _session(self, cookie: str) -> tuple[str, bool]:
        """The cookie's session, "" for none, and whether it is signed in."""
        session, _, given = cookie.rpartition(".")
        until = session.rpartition(".")[2]
        if not session or not until.isdecimal() or int(until) < time.time():
            return "", False
        if hmac.compare_digest(given.encode(), self._console.sign("in", session).encode()):
            return session, True
        is_visit = hmac.compare_digest(given.encode(), self._console.sign("visit", session).encode())
        return (session if is_visit else ""), False

    def _refuse_forged(self, request: Request, form: FormData, session: str) -> None:
        """Raises Forbidden unless the request comes from a page of this console: same origin, the session's token."""
        origin = request.headers.get("origin", "")
        own = {f"{scheme}://{request.headers.get('host', '')}" for scheme in ("http", "https")}
        public = urlsplit(self._console.desk.settings.public_url)  # where a proxy names this server otherwise
        own.add(f"{public.scheme}://{public.netloc}")
        site = request.headers.get("sec-fetch-site", "same-origin")
        given = form.get("token", "")
        wanted = self._console.sign("form", session)
        is_given = isinstance(given, str) and hmac.compare_digest(given.encode(), wanted.encode())
        if (origin and origin not in own) or site not in ("same-origin", "none") or not session or not is_given:
            raise Forbidden("This form is too old or not from this console.", "Load its page again and repeat it.")


def _location(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _error_page(visit: Visit, error: RefdeskError) -> Response:
    kinds: Sequence[tuple[type[RefdeskError], int]] = ((NotFound, 404), (Forbidden, 403), (InvalidInput, 400))
    status = next((code for kind, code in kinds if isinstance(error, kind)), 500)
    return visit.render("error.html", status, message=error.message, what_next=error.what_next)


def _sign_in(visit: Visit) -> Response:
    console, to = visit.console, visit.query("to", "/")
    to = to if to.startswith("/") and not to.startswith(("//", "/\\")) else "/"
    if visit.request.method == "GET":
        return visit.render("sign_in.html", to=to, wrong=False)
    is_right = bool(console.token) and hmac.compare_digest(visit.field("auth").encode(), console.token.encode())
    response = visit.redirect(to) if is_right else visit.render("sign_in.html", 401, to=to, wrong=True)
    response.headers["refdesk-signed"] = "in" if is_right else "out"
    return response


def _sign_out(visit: Visit) -> Response:
    response = visit.redirect("/sign-in")
    response.headers["refdesk-signed"] = "out"
    return response


def _theme(visit: Visit) -> Response:
    """Sets the theme; without one, pages follow the system's."""
    back = visit.field("back")
    response = visit.redirect(back if back.startswith("/") and not back.startswith(("//", "/\\")) else "/")
    theme = visit.field("theme")
    chosen = theme if theme in ("dark", "light") else ""
    response.set_cookie("refdesk-theme", chosen, max_age=365 * 24 * 3600, samesite="strict", httponly=True)
    return response


def _missing(visit: Visit) -> Response:
    raise NotFound("There is no such page.", "The links above lead to all there are.")


async def _off(request: Request) -> Response:
    told = (
        "<!doctype html><title>RefDesk</title><h1>The console is off</h1><p>This server admits clients by OAuth alone,"
        " and the console needs a token to sign in with. Start the server with --auth-token (or REFDESK_AUTH_TOKEN)"
        " besides, or run <code>refdesk console</code> on its machine."
    )
    return HTMLResponse(told, 404, _HEADERS)


async def _file(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        return Response(status_code=404)
    headers = {**_HEADERS, "cache-control": "public, max-age=31536000, immutable"}
    return FileResponse(_HERE / "static" / name, media_type=_STATIC[name], headers=headers)


def _warm_up(desk: Desk) -> None:
    """Loads the model, the indexes and the highlighter while the first page is viewed."""
    from refdesk.console.words import code_lines

    code_lines("x = 1", "python")
    with contextlib.suppress(RefdeskError):  # whoever searches is told
        desk.search(Query(text="words to begin with", limit=1))


def console_site(desk: Desk, key: bytes, clients: Clients) -> Starlette:
    """The console of a desk; `key` signs sessions and forms, `clients` are install's."""
    from refdesk.console import agents, graph, library, playbooks, reader, search, setup

    if desk.settings.oauth_issuer and not desk.settings.auth_token:
        return Starlette(routes=[Route("/", _off)])  # nobody could sign in, and everybody could read
    console = Console(desk, key, clients)
    threading.Thread(target=_warm_up, args=(desk,), name="refdesk-warm-up", daemon=True).start()
    views: Mapping[str, View] = {
        **search.VIEWS,
        **library.VIEWS,
        **reader.VIEWS,
        **graph.VIEWS,
        **playbooks.VIEWS,
        **agents.VIEWS,
        **setup.VIEWS,
        "POST /theme": _theme,
        "POST /sign-out": _sign_out,
    }
    routes = [Route("/static/{name}", _file)]
    routes.append(Route("/sign-in", Page(console, _sign_in, is_open=True), methods=["GET", "POST"]))
    for name, view in views.items():
        method, _, path = name.partition(" ")
        routes.append(Route(path, Page(console, view), methods=[method]))
    # Open, since clients of the API look for addresses that are not here, and must not be led to a sign-in.
    routes.append(Route("/{path:path}", Page(console, _missing, is_open=True)))
    return Starlette(routes=routes)
