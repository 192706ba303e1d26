"""Everything that makes crawling hard."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable

from tests.e2e.docsite.server import Reply, Route, Site, page

_LINKS = (
    "/retries/?utm_source=mail&utm_campaign=x", "/retries/#the-schedule", "/loop/a", "/heals", "/slow", "/huge",
    "/latin1", "/copy", "/named-elsewhere", "/private/secret", "/moved", "/away", "/app", "/picture.png", "/refresh",
    "/noindex", "/big.bin", "/markdown.md", "/self", "/print/1", "mailto:someone@example.org", "javascript:void(0)",
    "http://169.254.169.254/latest/meta-data/", "/broken", "//", "http://[::1", "/inner", "/b%C3%BCcher",
)  # fmt: skip
_HUB = "<h1>Hub</h1><p>Where the odd pages are listed, one after another, for crawlers.</p>"
_SITEMAPS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def make_nasty(site: Site) -> None:
    """Adds everything that makes crawling hard."""
    start = site.reply("/").body.replace(b"</body>", b"<a href='/hub'>hub</a></body>")
    site.forget()
    site.routes |= {"/": Reply(start), "/copy": Reply(start)}
    site.routes |= _lists(site.root) | _answers() | _pages(site.root) | _scripts()


def _lists(root: str) -> dict[str, Route]:
    """robots.txt, sitemaps, llms.txt, and the pages that only they know."""
    index = f"<sitemapindex {_SITEMAPS}><sitemap><loc>{root}sitemap-pages.xml.gz</loc></sitemap></sitemapindex>"
    listed = "".join(
        f"<url><loc>{one}</loc></url>" for one in (f"{root}only-in-sitemap", f"{root}hub", "http://elsewhere.invalid/x")
    )
    pages = f"<?xml version='1.0'?><urlset {_SITEMAPS}>{listed}</urlset>"
    robots = f"User-agent: *\nDisallow: /private/\nSitemap: {root}sitemap-index.xml\n"
    texts = "# Lanternfish\n\n- [Only here](/only-in-llms.md): nowhere else\n- [Retries](/retries.md)\n"
    full = "# Lanternfish\n\nLanternfish is a small job queue for services that already have a database.\n"
    only = "# Only here\n\nThe viperfish page is known to llms.txt alone.\n"
    return {
        "/robots.txt": Reply(robots.encode(), content_type="text/plain"),
        "/sitemap-index.xml": Reply(index.encode(), content_type="application/xml"),
        "/sitemap-pages.xml.gz": Reply(gzip.compress(pages.encode()), content_type="application/gzip"),
        "/only-in-sitemap": page("Hidden", "<h1>Hidden</h1><p>Nobody links to the bioluminescent anglerfish page.</p>"),
        "/llms.txt": Reply(texts.encode(), content_type="text/plain"),
        "/only-in-llms.md": Reply(only.encode(), content_type="text/markdown"),
        "/llms-full.txt": Reply(full.encode(), content_type="text/plain"),
    }


def _answers() -> dict[str, Route]:
    """Redirects and failures of all kinds."""
    return {
        "/loop/a": Reply(status=302, headers={"Location": "/loop/b"}),
        "/loop/b": Reply(status=302, headers={"Location": "/loop/a"}),
        "/self": Reply(status=301, headers={"Location": "/self"}),
        "/moved": Reply(status=301, headers={"Location": "/arrived"}),
        "/away": Reply(status=302, headers={"Location": "http://169.254.169.254/latest/"}),
        "/inner": Reply(status=302, headers={"Location": "http://127.0.0.1:1/"}),
        "/refresh": page("Go on", "", "<meta http-equiv='refresh' content='0; url=/arrived'>"),
        "/broken": Reply(b"", 500, etag=False),
        "/heals": _healing(),
        "/slow": _slow,
        "/big.bin": Reply(b"\0" * 1000, content_type="application/octet-stream"),
        "/huge": page("Huge", "<h1>Huge</h1>" + "<p>gulper eel</p>" * 60_000),
    }


def _pages(root: str) -> dict[str, Route]:
    """Pages that are odd in themselves."""
    latin = (
        "<html><head><title>Größe</title></head><body><main><h1>Größe</h1>"
        "<p>Die Größe der Fische ist für Köche überraschend klein und führt zu Ärger.</p></main></body></html>"
    )
    links = "".join(f"<p><a href='{link}'>leads somewhere</a></p>" for link in _LINKS)
    notes = "# Notes\n\nWritten by hand about the tripod fish.\n"
    return {
        "/hub": page("Hub", _HUB + links),
        "/named-elsewhere": page("Hub", _HUB, f"<link rel='canonical' href='{root}hub'>"),
        "/latin1": Reply(latin.encode("latin-1"), content_type="text/html; charset=iso-8859-1"),
        "/private/secret": page("Secret", "<h1>Secret</h1><p>Nobody may read about the kraken.</p>"),
        "/arrived": page("Arrived", "<h1>Arrived</h1><p>The redirect led to the blobfish.</p>"),
        "/noindex": page("Draft", "<p>Unfinished barreleye.</p>", "<meta name='robots' content='noindex'>"),
        "/markdown.md": Reply(notes.encode(), content_type="text/markdown"),
        "/print/1": page("Print", "<h1>Print</h1><p>Excluded by a pattern: the fangtooth.</p>"),
        "/b%C3%BCcher": page("Books", "<h1>Books</h1><p>An address with an umlaut about the oarfish.</p>"),
    }


def _scripts() -> dict[str, Route]:
    """A page that scripts write."""
    app = (
        "<html><head><title>App</title></head><body><noscript>Please enable JavaScript.</noscript>"
        "<div id='root'></div><script src='/app.js'></script></body></html>"
    )
    script = (
        "document.getElementById('root').innerHTML = '<main><h1>Rendered</h1><p>' + "
        "'The stoplight loosejaw is only shown to browsers that run scripts. '.repeat(5) + '</p></main>';"
    )
    return {"/app": Reply(app.encode()), "/app.js": Reply(script.encode(), content_type="text/javascript")}


def _healing() -> Callable[[], Reply]:
    failures = iter((500, 503))

    def reply() -> Reply:
        status = next(failures, 200)
        if status != 200:
            return Reply(b"", status, etag=False, headers={"Retry-After": "0"})
        return page("Heals", "<h1>Heals</h1><p>Back again after failing twice: the hatchetfish.</p>")

    return reply


def _slow() -> Reply:
    threading.Event().wait(0.7)
    return page("Slow", "<h1>Slow</h1><p>Worth waiting for: the sleeper shark.</p>")
