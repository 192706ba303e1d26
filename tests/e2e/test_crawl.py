"""A documentation site with everything that makes crawling hard, crawled for real."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from refdesk.app import open_desk
from refdesk.crawl.crawler import crawl
from refdesk.crawl.indexing import Indexer
from refdesk.crawl.model import CrawlReport, crawl_options
from refdesk.crawl.page import PageFacts, PageReader
from refdesk.desk.desk import Desk
from refdesk.errors import Forbidden, InvalidUri, LoadFailed, SettingsError
from refdesk.ingest.prepare import Progress
from refdesk.model import Document, Skipped
from refdesk.settings import Settings, load
from refdesk.sources.web import Fetched
from tests.e2e.docsite.build import build_mkdocs, build_sphinx, source_words, sources, text_words
from tests.e2e.docsite.nasty import make_nasty
from tests.e2e.docsite.server import Reply, Site, page
from tests.mcp_client.stdio import StdioClient, environment
from tests.scale import servers

MAX_BYTES = 500_000


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_mkdocs(tmp_path_factory.mktemp("mkdocs"))


@pytest.fixture
def nasty(built: Path) -> Iterator[Site]:
    with Site(built) as site:
        make_nasty(site)
        yield site


@pytest.fixture
def plain() -> Iterator[Site]:
    """A chain of small pages: each links to the next."""
    with Site() as site:
        for number in range(30):
            text = f"<h1>Page {number}</h1><p>What page {number} says about topic {number * 7}.</p>"
            site.routes[f"/p{number}"] = page(f"Page {number}", f"{text}<a href='/p{number + 1}'>next</a>")
        site.routes["/"] = page("Start", "<h1>Start</h1><p>Here it all begins.</p><a href='/p0'>first</a>")
        yield site


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    settings = Settings(
        library=tmp_path / "library", embedder="none", max_fetch_bytes=MAX_BYTES, allow_hosts=("127.0.0.1",)
    )
    with open_desk(settings) as opened:
        yield opened


def go(desk: Desk, site: Site, path: str = "/", **more: Any) -> CrawlReport:
    given = {"delay_s": 0.0, "backoff_s": 0.01, "browser": False, **more}
    excludes = given.pop("excludes", ())
    return crawl(desk, crawl_options(site.url(path), excludes=excludes, **given), name="site")


def kept(desk: Desk, site: Site) -> dict[str, Document]:
    return {"/" + one.uri.removeprefix(site.root): one for one in desk.documents("site", 10_000, 0)}


def reasons(pages: list[Any], site: Site) -> dict[str, str]:
    return {"/" + one.path.removeprefix(site.root): one.reason for one in pages}


# --- a whole site ---------------------------------------------------------------------------------


def test_a_site_with_everything(desk: Desk, nasty: Site) -> None:
    report = go(desk, nasty, excludes=("/print/",))
    found = kept(desk, nasty)
    written = {"/" if path == "index" else f"/{path}/" for path in sources("mkdocs")}
    assert written <= set(found)
    odd = {"/hub", "/only-in-sitemap", "/only-in-llms.md", "/heals", "/slow", "/latin1", "/arrived", "/markdown.md"}
    assert set(found) - written == odd | {"/b%C3%BCcher"}
    assert report.pages == len(found) == desk.count_documents("site")

    assert nasty.asked["/heals"] == 3
    assert nasty.asked["/broken"] == 4
    assert all(nasty.asked[path] == 1 for path in found if path != "/heals")
    never = ("/private/secret", "/print/1", "/picture.png", "/retries.md")
    assert [path for path in never if nasty.asked[path]] == []

    failed = reasons(report.failed, nasty)
    assert failed == {
        "/broken": "status 500",
        "/loop/a": "redirects in a circle",
        "/loop/b": "redirects in a circle",
        "/self": "redirects to itself",
    }
    left_out = reasons(report.skipped, nasty)
    assert left_out["/private/secret"] == "robots.txt does not allow it"
    assert left_out["/huge"] == f"larger than {MAX_BYTES} bytes"
    assert "169.254.169.254" in left_out["/away"]
    assert "127.0.0.1:1" in left_out["/inner"]
    assert "noindex" in left_out["/noindex"]
    assert reasons(report.scripts, nasty) == {"/app": "empty without JavaScript"}
    assert {one.path for one in desk.skipped("site")} >= {nasty.url(path) for path in (*failed, "/app", "/huge")}
    assert report.moved == 2 and report.duplicates == 3  # /copy, /named-elsewhere, /retries.md

    latin = desk.raw(found["/latin1"].id)
    assert "Größe der Fische" in latin and found["/latin1"].title == "Größe"
    assert found["/retries/"].title == "Retries and backoff"


def test_connections_are_kept(desk: Desk, nasty: Site) -> None:
    report = go(desk, nasty, concurrency=3)
    assert report.asked > 30
    assert nasty.connections <= 8  # three, and those given up with an answer nobody wanted


def test_a_second_crawl_fetches_only_what_changed(desk: Desk, nasty: Site) -> None:
    go(desk, nasty)
    before = kept(desk, nasty)
    nasty.forget()
    nasty.routes["/latin1"] = page("Size", "<h1>Size</h1><p>Another text about the anglerfish, now in English.</p>")
    nasty.routes["/markdown.md"] = Reply(b"", 410, etag=False)
    nasty.routes["/slow"] = Reply(b"", 503, etag=False)
    nasty.routes["/arrived"] = Reply(b"", 404, etag=False)
    report = go(desk, nasty)
    after = kept(desk, nasty)
    assert (report.written, report.removed) == (1, 2)
    assert set(before) - set(after) == {"/markdown.md", "/arrived"}
    assert after["/latin1"].id == before["/latin1"].id and after["/latin1"].title == "Size"
    assert "/slow" in after and reasons(report.failed, nasty)["/slow"] == "status 503"
    unchanged = [path for path in after if path not in ("/latin1", "/slow")]
    assert all(nasty.statuses[path] == [304] for path in unchanged)
    assert "/copy" not in after


def test_what_was_removed_by_hand_is_fetched_again(desk: Desk, plain: Site) -> None:
    go(desk, plain, depth=3)
    desk.remove(kept(desk, plain)["/p1"].id)
    go(desk, plain, depth=3)
    assert plain.statuses["/p1"] == [200, 200]
    assert "/p1" in kept(desk, plain)
    desk.remove("site")
    assert go(desk, plain, depth=3).written == 4


@pytest.mark.parametrize(("headers", "which"), [({}, "/a"), ({"X-Robots-Tag": "noindex"}, "/b")])
def test_of_pages_with_the_same_bytes_the_first_to_arrive_is_kept(
    desk: Desk, plain: Site, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], which: str
) -> None:
    """Also if the other one is read sooner; but not if the first must not be kept."""
    same = page("Same", "<h1>Same</h1><p>The same words at two addresses.</p>")
    plain.routes |= {
        "/a": replace(same, headers=headers),
        "/b": same,
        "/": page("Start", "<h1>Start</h1><a href='/a'>a</a><a href='/b'>b</a>"),
    }
    first_arrived, second_read = threading.Event(), threading.Event()
    read = PageReader.read

    async def second_before_first(reader: PageReader, answer: Fetched) -> PageFacts | Skipped:
        if answer.url.endswith("/a"):
            first_arrived.set()
            await anyio.to_thread.run_sync(second_read.wait, 30)
        facts = await read(reader, answer)
        if answer.url.endswith("/b"):
            second_read.set()
        return facts

    monkeypatch.setattr(PageReader, "read", second_before_first)
    plain.on_request = lambda path: first_arrived.wait(30) if path == "/b" else None
    report = go(desk, plain, concurrency=2)
    assert set(kept(desk, plain)) == {"/", which}
    assert report.duplicates + len(report.skipped) == 1


def test_a_page_that_moves_is_kept_once(desk: Desk, plain: Site) -> None:
    go(desk, plain, depth=2)
    old = plain.routes["/p1"]
    plain.routes |= {"/p1": Reply(status=301, headers={"Location": "/new"}), "/new": Reply(b"", 503, etag=False)}
    assert go(desk, plain, depth=2).removed == 0 and "/p1" in kept(desk, plain)  # until it is there
    plain.routes["/new"] = old
    report = go(desk, plain, depth=2)
    assert set(kept(desk, plain)) == {"/", "/p0", "/new"}
    assert report.removed == 1


# --- limits ---------------------------------------------------------------------------------------


def test_depth_and_pages_are_limited_and_can_be_raised(desk: Desk, plain: Site) -> None:
    report = go(desk, plain, depth=3)
    assert set(kept(desk, plain)) == {"/", "/p0", "/p1", "/p2"}
    assert report.left == 1 and not plain.asked["/p3"]
    assert go(desk, plain, max_pages=6).pages == 6
    report = go(desk, plain, depth=40)
    assert report.pages == 31 and set(reasons(report.gone, plain)) == {"/p30"}


@pytest.mark.parametrize("kind", ["gone", "refused", "moved", "repeated"])
def test_a_site_without_end_is_left_at_the_page_limit(desk: Desk, kind: str) -> None:
    links = "".join(f"<a href='more/{number}/'>on</a>" for number in range(40))
    answers = {
        "gone": Reply(b"", 404, etag=False),
        "refused": Reply(b"", 403, etag=False),
        "moved": Reply(status=302, headers={"Location": "x/"}, etag=False),
        "repeated": page("Same", f"<h1>Same</h1><p>The same again.</p>{links}"),
    }
    with Site() as site:
        pages = [f"/p{number}" for number in range(9)]
        for path in pages:
            dead = "".join(f"<a href='/dead{path}/{number}/'>on</a>" for number in range(40))
            site.routes[path] = page(path, f"<h1>{path}</h1><p>What {path} says.</p>{dead}")
        linked = "".join(f"<a href='{path}'>{path}</a>" for path in pages)
        site.routes["/"] = page("Start", f"<h1>Start</h1><p>Begin.</p>{linked}")
        site.endless = lambda path: answers[kind] if path.startswith("/dead") else None
        report = go(desk, site, max_pages=30)
        assert report.pages >= 10
        assert sum(count for path, count in site.asked.items() if path.startswith(("/dead", "/p"))) <= 135
        assert report.left and report.notes


def test_depth_zero_is_one_page(desk: Desk, nasty: Site) -> None:
    assert go(desk, nasty, depth=0).pages == 1
    assert set(nasty.asked) == {"/robots.txt", "/"}


def test_private_addresses_are_refused_unless_allowed(tmp_path: Path, plain: Site) -> None:
    with (
        open_desk(Settings(library=tmp_path / "other", embedder="none")) as desk,
        pytest.raises(InvalidUri, match="loopback"),
    ):
        go(desk, plain)
    assert not plain.asked


def test_a_site_that_is_not_there(desk: Desk, plain: Site) -> None:
    plain.routes.clear()
    with pytest.raises(LoadFailed, match="status 404"):
        go(desk, plain)
    assert desk.collections() == []


def test_robots_that_fail_stop_the_crawl(desk: Desk, plain: Site) -> None:
    plain.routes["/robots.txt"] = Reply(b"", 503, etag=False)
    with pytest.raises(LoadFailed, match="status 503"):
        go(desk, plain)
    assert plain.asked == {"/robots.txt": 3}


def test_sitemaps_end_and_stay_on_the_site(desk: Desk, plain: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refdesk.crawl.site._MOST_SITEMAPS", 3)

    def following(path: str) -> Reply | None:
        number = path.removeprefix("/map").removesuffix(".xml")
        listed = f"<sitemapindex><sitemap><loc>/map{int(number) + 1}.xml</loc></sitemap></sitemapindex>"
        return Reply(listed.encode(), content_type="application/xml")

    with Site() as elsewhere:
        names = ("Sitemap: /away.xml", "Sitemap: /map0.xml")
        plain.routes["/robots.txt"] = Reply("\n".join(names).encode(), content_type="text/plain")
        plain.routes["/away.xml"] = Reply(status=302, headers={"Location": elsewhere.url("/sitemap.xml")})
        plain.endless = lambda path: following(path) if path.startswith("/map") else None
        go(desk, plain, depth=1)
        assert plain.asked["/away.xml"] == 1 and not elsewhere.asked
    assert sum(count for path, count in plain.asked.items() if path.startswith("/map")) == 2


def test_a_start_that_robots_do_not_allow(desk: Desk, plain: Site) -> None:
    plain.routes["/robots.txt"] = Reply(b"User-agent: *\nDisallow: /\n", content_type="text/plain")
    with pytest.raises(Forbidden, match=r"robots\.txt does not allow"):
        go(desk, plain)
    assert set(plain.asked) == {"/robots.txt"} and desk.collections() == []


def test_requests_are_as_far_apart_as_the_site_asks(desk: Desk, plain: Site) -> None:
    plain.routes["/robots.txt"] = Reply(b"User-agent: *\nCrawl-delay: 0.2\n", content_type="text/plain")
    asked: list[float] = []
    plain.on_request = lambda path: asked.append(time.monotonic())
    go(desk, plain, depth=3, concurrency=4)
    assert len(asked) >= 7  # robots.txt, the site's lists and the pages
    assert asked[-1] - asked[1] >= 0.2 * (len(asked) - 2) - 0.1  # the first of them may have come late


@pytest.mark.parametrize("rule", ["Crawl-delay: 1e9", "Crawl-delay: 61", "Request-rate: 1/2h"])
def test_a_site_that_asks_for_very_long_delays_is_left_out(desk: Desk, plain: Site, rule: str) -> None:
    plain.routes["/robots.txt"] = Reply(f"User-agent: *\n{rule}\n".encode(), content_type="text/plain")
    with pytest.raises(Forbidden, match=r"robots.txt asks for .* s between requests; .* is left out"):
        go(desk, plain)
    assert set(plain.asked) == {"/robots.txt"}
    assert not desk.collections()
    del plain.routes["/robots.txt"]
    assert go(desk, plain, depth=1).pages == 2


def test_a_site_that_asks_to_be_left_alone_is(desk: Desk, plain: Site) -> None:
    page_two = plain.routes["/p2"]
    plain.routes["/p2"] = Reply(b"", 429, etag=False, headers={"Retry-After": "3600"})
    with pytest.raises(LoadFailed, match="asks to wait 3600 s"):
        go(desk, plain)
    plain.routes["/p2"] = page_two
    report = go(desk, plain, depth=3)
    assert report.resumed and report.pages == 4
    assert plain.asked["/p0"] == plain.asked["/p1"] == 1


def test_canonical_links_do_not_swallow_pages(desk: Desk, plain: Site) -> None:
    """A template that calls every page the start is wrong, and must not cost the pages."""
    head = f"<link rel='canonical' href='{plain.root}'>"
    for number in range(3):
        text = f"<h1>Page {number}</h1><p>Unlike any other: {' '.join(f'word{number}{n}' for n in range(40))}</p>"
        plain.routes[f"/p{number}"] = page(f"Page {number}", f"{text}<a href='/p{number + 1}'>next</a>", head)
    go(desk, plain, depth=3)
    assert set(kept(desk, plain)) == {"/", "/p0", "/p1", "/p2"}


def test_llms_full_is_kept_where_the_pages_say_less(desk: Desk, plain: Site) -> None:
    lines = "\n\n".join(f"Line {n} tells of many things that no page of the site has." for n in range(20))
    plain.routes["/llms-full.txt"] = Reply(f"# All\n\n{lines}".encode(), content_type="text/plain")
    go(desk, plain, depth=1)
    assert set(kept(desk, plain)) == {"/", "/p0", "/llms-full.txt"}
    go(desk, plain, depth=1)
    assert set(kept(desk, plain)) == {"/", "/p0", "/llms-full.txt"}


# --- stopping and going on ------------------------------------------------------------------------


def command(library: Path | str, site: Site, *arguments: str) -> list[str]:
    allowed = ("--allow-host", "127.0.0.1", "--delay", "0", "--no-browser")
    start = [sys.executable, "-m", "refdesk", "--library", str(library), "--embedder", "none", "crawl", site.root]
    return [*start, "--name", "site", *allowed, *arguments]


def stopped_at(site: Site, path: str, running: Callable[[], subprocess.Popen[str]], how: int) -> subprocess.Popen[str]:
    """Starts a crawl and sends it a signal while it waits for the answer of one page."""
    reached, go_on = threading.Event(), threading.Event()

    def wait(asked: str) -> None:
        if asked == path and not reached.is_set():
            reached.set()
            go_on.wait(30)

    site.on_request = wait
    process = running()
    assert reached.wait(60)
    process.send_signal(how)
    process.wait(60)
    go_on.set()
    site.on_request = lambda path: None
    return process


@pytest.mark.parametrize("is_shared", [False, True], ids=["folder", "shared, from another machine"])
def test_a_killed_crawl_goes_on_without_fetching_twice(
    tmp_path: Path, plain: Site, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "first"))
    library: Path | str = tmp_path / "library"
    if is_shared:
        library = servers.address(*servers.for_tests(), schema="crawled")
    line = command(library, plain, "--concurrency", "1", "--depth", "40", "--json")
    run: Callable[[], subprocess.Popen[str]] = lambda: subprocess.Popen(line, env=environment(), text=True)  # noqa: E731
    stopped_at(plain, "/p12", run, signal.SIGKILL)
    plain.asked["/p12"] -= 1  # never answered
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "second"))
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert report["resumed"] is True and report["pages"] == 31
    pages = {path: times for path, times in plain.asked.items() if path == "/" or path.startswith("/p")}
    assert set(pages.values()) == {1} and len(pages) == 32
    assert plain.asked["/robots.txt"] == plain.asked["/sitemap.xml"] == 1
    with open_desk(load({"library": library, "embedder": "none"})) as desk:
        assert desk.count_documents("site") == 31
        assert all(one.ok for one in desk._store.verify(repair=False))


def test_a_page_that_was_saved_but_not_read_is_read_by_the_next_crawl(
    desk: Desk, plain: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = PageReader.read

    async def fail(reader: PageReader, answer: Fetched) -> PageFacts | Skipped:
        if answer.url.endswith("/p1"):
            raise LoadFailed("stopped here")
        return await read(reader, answer)

    with monkeypatch.context() as patched, pytest.raises(LoadFailed, match="stopped here"):
        patched.setattr(PageReader, "read", fail)
        go(desk, plain, depth=3)
    assert go(desk, plain, depth=3).resumed
    assert set(kept(desk, plain)) == {"/", "/p0", "/p1", "/p2"} and plain.asked["/p1"] == 1


def test_searches_say_that_a_crawl_has_not_finished(tmp_path: Path, plain: Site) -> None:
    library = tmp_path / "library"
    line = command(library, plain, "--concurrency", "1", "--depth", "40")
    stopped_at(plain, "/p12", lambda: subprocess.Popen(line, env=environment(), text=True), signal.SIGKILL)
    serve = [sys.executable, "-m", "refdesk", "--library", str(library), "--embedder", "none", "serve"]
    with StdioClient(serve) as client:
        client.initialize()
        for tool in ("rag_search", "qurio_search"):
            blocks = client.call(tool, {"query": "topic"})["result"]["content"]
            told = f"`refdesk crawl {plain.root} --name site` goes on with it"
            assert "note: the crawl of site has not finished, " in blocks[-1]["text"] and told in blocks[-1]["text"]
        subprocess.run(line, env=environment(), capture_output=True, check=True)
        assert "has not finished" not in str(client.call("rag_search", {"query": "topic"}))


@pytest.mark.parametrize(("chosen", "path", "pages"), [("plain", "/p5", 31), ("broad", "/p120", 151)])
def test_ctrl_c_ends_cleanly(
    tmp_path: Path, request: pytest.FixtureRequest, chosen: str, path: str, pages: int
) -> None:
    site: Site = request.getfixturevalue(chosen)
    line = command(tmp_path / "library", site, "--concurrency", "2", "--depth", "40")
    process = stopped_at(
        site,
        path,
        lambda: subprocess.Popen(line, env=environment(), text=True, stderr=subprocess.PIPE),
        signal.SIGINT,
    )
    assert process.returncode == 130
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    assert "run the same command to go on" in said and "Traceback" not in said
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, check=True)
    assert f"{pages} pages" in done.stdout


@pytest.fixture
def broad() -> Iterator[Site]:
    """Many pages, all linked from the start: enough for some to be indexed while others come."""
    with Site() as site:
        for number in range(150):
            text = f"<h1>Page {number}</h1><p>What page {number} says about topic {number * 7}.</p>"
            site.routes[f"/p{number}"] = page(f"Page {number}", text)
        links = "".join(f"<a href='/p{number}'>x</a>" for number in range(150))
        site.routes["/"] = page("Start", f"<h1>Start</h1><p>Here it all begins.</p>{links}")
        yield site


def test_a_failure_to_index_is_told_and_the_crawl_goes_on(tmp_path: Path, broad: Site) -> None:
    settings = Settings(library=tmp_path / "library", embedder="remote", allow_hosts=("127.0.0.1",))
    with open_desk(settings) as desk, pytest.raises(SettingsError, match="remote embedder has no address"):
        go(desk, broad)
    with open_desk(replace(settings, embedder="none")) as desk:
        report = go(desk, broad)
        assert report.resumed and (report.pages, report.written) == (151, 151)
        assert all(one.ok for one in desk._store.verify(repair=False))
    assert sum(broad.asked[f"/p{number}"] for number in range(150)) <= 150 + 4


def test_a_crawl_that_fails_stops_indexing(desk: Desk, broad: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    indexing, stopped = threading.Event(), threading.Event()

    def index_slowly(indexer: Indexer, progress: Progress) -> int:
        indexing.set()
        for _ in range(300):
            if progress.cancelled():
                stopped.set()
                break
            time.sleep(0.1)
        return 0

    monkeypatch.setattr(Indexer, "index_batch", index_slowly)
    broad.routes["/p140"] = Reply(b"", 429, etag=False, headers={"Retry-After": "3600"})
    broad.on_request = lambda path: indexing.wait(30) if path == "/p140" else None
    with pytest.raises(LoadFailed, match="asks to wait"):
        go(desk, broad)
    assert stopped.is_set()


def test_a_kill_while_pages_are_indexed(tmp_path: Path, broad: Site) -> None:
    line = command(tmp_path / "library", broad, "--concurrency", "1", "--json")
    run: Callable[[], subprocess.Popen[str]] = lambda: subprocess.Popen(line, env=environment(), text=True)  # noqa: E731
    stopped_at(broad, "/p120", run, signal.SIGKILL)
    broad.asked["/p120"] -= 1
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert report["resumed"] is True and report["pages"] == 151
    assert {broad.asked[f"/p{number}"] for number in range(150)} == {1}
    with open_desk(Settings(library=tmp_path / "library", embedder="none")) as desk:
        assert desk.count_documents("site") == 151


# --- what is read ---------------------------------------------------------------------------------


def shares(kept_text: str, source: str) -> tuple[float, float]:
    """The share of the source's words that was kept, and the share of kept words that are foreign."""
    wanted, got = Counter(source_words(source)), Counter(text_words(kept_text))
    both = sum((wanted & got).values())
    return both / sum(wanted.values()), 1 - both / sum(got.values())


@pytest.mark.parametrize(
    ("generator", "theme"),
    [("mkdocs", "mkdocs"), ("mkdocs", "readthedocs"), ("sphinx", "alabaster"), ("sphinx", "classic")],
)
def test_pages_say_what_their_sources_say(
    desk: Desk, built: Path, tmp_path: Path, generator: str, theme: str, record_property: Callable[[str, object], None]
) -> None:
    if generator == "sphinx":
        pytest.importorskip("sphinx")
        pytest.importorskip("myst_parser")
    if (generator, theme) == ("mkdocs", "mkdocs"):
        folder = built
    else:
        folder = (build_mkdocs if generator == "mkdocs" else build_sphinx)(tmp_path / "built", theme)
    with Site(folder) as site:
        go(desk, site)
        found = kept(desk, site)
        ending = "/" if generator == "mkdocs" else ".html"
        assert not [address for address in found if "_sources" in address]
        worst_kept, worst_foreign = 1.0, 0.0
        for path, source in sources(generator).items():
            address = "/" if path == "index" else f"/{path}{ending}"
            share, foreign = shares(desk.raw(found[address].id), source)
            worst_kept, worst_foreign = min(worst_kept, share), max(worst_foreign, foreign)
            assert share >= 0.95 and foreign <= 0.05, (address, share, foreign)
    record_property("kept", worst_kept)
    record_property("foreign", worst_foreign)


def test_a_browser_shows_what_scripts_write(desk: Desk, nasty: Site) -> None:
    from refdesk.crawl.render import why_no_browser

    if missing := why_no_browser():
        pytest.skip(missing)
    report = go(desk, nasty, browser=True)
    assert report.scripts == [] and report.rendered == 1
    assert "stoplight loosejaw" in desk.raw(kept(desk, nasty)["/app"].id)


def test_a_browser_reaches_nothing_by_itself(tmp_path: Path, plain: Site) -> None:
    """Scripts of a page try every way to another port of this machine, which was not allowed."""
    from refdesk.crawl.render import why_no_browser

    if missing := why_no_browser():
        pytest.skip(missing)
    with Site() as inside:
        inside.routes["/"] = page("Inside", "<p>secret</p>")
        address = inside.address
        script = (
            f'document.body.innerHTML += \'<img src="http://{address}/i"><iframe src="http://{address}/f"></iframe>\';'
            f"new WebSocket('ws://{address}/ws'); navigator.sendBeacon('http://{address}/b', 'x');"
            f"fetch('http://{address}/').then(r => r.text()).then(t => {{ document.body.innerText += t; }})"
            ".catch(e => {}).finally(() => { const p = document.createElement('p');"
            " p.innerText = 'The script has run and says a few words. '.repeat(8); document.body.appendChild(p); });"
        )
        html = f"<html><body><img src='/pixel.png'><div id='root'></div><script>{script}</script></body></html>"
        plain.routes["/"] = Reply(html.encode())
        settings = Settings(library=tmp_path / "library", embedder="none", allow_hosts=(plain.address,))
        with open_desk(settings) as desk:
            report = go(desk, plain, depth=0, browser=True)
            text = desk.raw(kept(desk, plain)["/"].id)
        assert report.rendered == 1 and "The script has run" in text and "secret" not in text
        assert inside.connections == 0 and not plain.asked["/pixel.png"]
