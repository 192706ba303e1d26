"""Hostile content, forged requests, sign-in: what a console must not let through."""

from __future__ import annotations

import html
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from starlette.concurrency import run_in_threadpool

from refdesk.app import open_desk
from refdesk.desk.desk import Desk
from refdesk.settings import Settings
from refdesk.skills.format import from_markdown
from tests.conftest import Tree
from tests.console.conftest import PLAYBOOK, Client, Open, Serve, get, post
from tests.mcp_client.http import HttpClient

HOSTILE = {
    "script": "<script>window.hacked = 1; alert(1)</script>",
    "handlers": '<img src=x onerror="window.hacked=1"><body onload="window.hacked=1"><div onclick=hacked()>here</div>',
    "links": "[click](javascript:window.hacked=1) <a href='javascript:alert(1)'>b</a> [c](JaVaScRiPt:alert(1))"
    " [d](data:text/html,<script>alert(1)</script>) <a href='&#106;avascript:alert(1)'>e</a> [f](vbscript:x)",
    "svg": "<svg onload=alert(1)><script>window.hacked=1</script><a xlink:href='javascript:alert(1)'>x</a></svg>"
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
    "css": "<style>@import 'http://evil.example/x.css'; body{background:url(http://evil.example/b)}</style>"
    "<p style='background:url(http://evil.example/c)'>styled</p><link rel=stylesheet href=http://evil.example/y.css>",
    "frames": "<iframe src=http://evil.example/></iframe><object data=http://evil.example/o></object>"
    "<embed src=http://evil.example/e><base href=http://evil.example/><meta http-equiv=refresh content='0;url=http://evil.example/'>"
    "<form action=http://evil.example/><button>go</button></form>",
    "pictures": "![beacon](http://evil.example/beacon.png) <img src='http://evil.example/i.png'> "
    '<video src=http://evil.example/v poster=http://evil.example/p></video> ![x](x.png"onerror="alert(1))',
    "markdown": "[a]: javascript:alert(1)\n[x][a] <javascript:alert(1)> `<script>alert(1)</script>`\n\n```html\n"
    "<script>alert(1)</script>\n```\n\n<details open ontoggle=alert(1)>t</details>\n\n"
    '# <img src=x onerror=alert(1)> heading "><script>alert(1)</script>\n',
    "attributes": "<p class='hit' id='main'>a</p><p id=keys>b</p>"
    "<a href=# class=skip accesskey=x autofocus onfocus=alert(1)>c</a>",
}


def _corpus(tree: Tree) -> Path:
    files = {f"{name}.md": f"# poison {name}\n\n{text}\n" for name, text in HOSTILE.items()}
    files |= {
        f"{name}.html": f"<html><body><h1>poison {name}</h1><p>poison</p>{text}</body></html>"
        for name, text in HOSTILE.items()
    }
    files |= {f"{name}.py": f"def poison_{name}():\n    '''{text}'''\n" for name, text in HOSTILE.items()}
    files['"><script>alert(1)<\u202e.md'] = "# poison name\n\npoison <script>alert(1)</script>"
    return tree(files)


def test_nothing_that_is_indexed_acts(tree: Tree, serve: Serve, browse: Open, tmp_path: Path) -> None:
    root = _corpus(tree)
    with open_desk(Settings(library=tmp_path / "library", workers=1)) as desk:
        desk.index(root, "files", name="poison", description="<script>alert(1)</script>")
        paths = [one.path for one in desk.documents("poison", 100, 0)]
        desk.index(root, "code", name="code")
        skill_id = _poisoned_playbook(desk)
    assert len(paths) > 20
    server = serve(tmp_path / "library")
    at = browse(server.root)
    with HttpClient(server.url) as agent:
        agent.initialize()
        for text in HOSTILE.values():
            agent.call("rag_search", {"query": text[:200], "collection": "poison"})
    for query in ("poison", "script alert", '"><script>alert(1)</script>'):
        at.page.goto(f"{at.root}/?{httpx.QueryParams({'q': query, 'why': query})}")
        at.page.wait_for_selector("#results")
        assert at.page.evaluate("window.hacked") is None
    pages = [f"/read/poison/{quote(path)}" for path in paths]
    for path in [*pages, *(f"{path}?as=agent" for path in pages), *_elsewhere(skill_id)]:
        at.go(path)
        at.page.wait_for_selector("main")
        assert at.page.evaluate("window.hacked") is None, path
        assert (
            at.page.locator(
                "main script, main style, main iframe, main img, main svg script, main form[action*=evil]"
            ).count()
            == 0
        )
        assert (
            at.page.locator("main [style], main [onerror], main [onload], main [onclick], main [onfocus]").count() == 0
        )
        for href in at.page.locator("main a[href]").evaluate_all(
            "links => links.map(one => new URL(one.href.baseVal ?? one.href, location).protocol)"
        ):
            assert href in ("http:", "https:", "mailto:"), path
    assert at.strangers == []
    assert at.errors == []


def _poisoned_playbook(desk: Desk) -> str:
    texts = iter(HOSTILE.values())
    book = PLAYBOOK.replace("Reset a locked account", "<script>alert(1)</script>").replace("Accounts", "<b onclick=x>")
    for part in (
        "Let a locked customer",
        "Compare the mail address",
        "They are the same",
        "Hand over to",
        "is suspended",
    ):
        book = book.replace(part, next(texts).replace("\n", " "))
    skill, _ = desk.learner.adopt(from_markdown(book).draft)
    desk.learner.adopt(
        from_markdown(book.replace("Unlock it", "<img src=x onerror=alert(1)>")).draft, skill_id=skill.skill_id
    )
    return skill.skill_id


def _elsewhere(skill_id: str) -> list[str]:
    """The other pages that show what is not to be trusted."""
    of_playbook = [f"/playbooks/{skill_id}{tab}" for tab in ("", "?as=edit", "?as=history")]
    symbols = [f"/graph/code?symbol={name}" for name in ("poison_script", "poison_svg", "%3Cscript%3Ealert(1)")]
    asked = [f"/agents/case?query={quote(text[:200])}" for text in HOSTILE.values()]
    return [
        "/",
        "/library",
        "/library/poison",
        "/graph/code",
        "/playbooks",
        "/agents",
        "/setup",
        *of_playbook,
        *symbols,
        *asked,
    ]


def test_pages_run_no_inline_script_and_load_nothing_from_elsewhere(served: str) -> None:
    answer = get(served)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy and "style-src 'self';" in policy
    assert "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert not re.search(r"\sstyle=|<script>|\son\w+=", answer.text)


def test_a_change_needs_the_pages_own_token_and_origin(served: str) -> None:
    with Client(base_url=served) as client:
        page = client.get("/").text
        token = re.search(r'name="token" value="([0-9a-f]+)"', page)
        assert token is not None
        assert client.post("/theme", data={"theme": "dark", "token": token[1]}).status_code == 303
        assert client.post("/theme", data={"theme": "dark"}).status_code == 403
        assert client.post("/theme", data={"theme": "dark", "token": "0" * 64}).status_code == 403
        foreign = {"origin": "http://evil.example"}
        assert client.post("/theme", data={"theme": "dark", "token": token[1]}, headers=foreign).status_code == 403
        crossing = {"sec-fetch-site": "cross-site"}
        assert client.post("/theme", data={"theme": "dark", "token": token[1]}, headers=crossing).status_code == 403
        assert client.get("/", headers={"host": "evil.example"}).status_code == 421
    stranger = post(f"{served}/theme", data={"theme": "dark", "token": token[1]})
    assert stranger.status_code == 403  # somebody else's token


def test_with_a_token_only_who_signs_in_sees_anything(library: Path, serve: Serve, browse: Open) -> None:
    root = serve(library, "--auth-token", "open sesame").root
    for path in ("/", "/library", "/read/refdesk/model.py", "/setup", "/agents", "/playbooks", "/graph"):
        answer = get(root + path)
        assert answer.status_code == 303 and answer.headers["location"].startswith("/sign-in"), path
    assert get(f"{root}/", cookies={f"refdesk-{httpx.URL(root).port}": "a.9999999999.b"}).status_code == 303
    stranger = get(f"{root}/sign-in").text
    assert "<nav" not in stranger and "run-pill" not in stranger and "refdesk-docs" not in stranger
    at = browse(root)
    at.go("/?q=write+lock")
    at.page.locator("[name=auth]").fill("wrong")
    at.page.keyboard.press("Enter")
    at.page.wait_for_selector("[role=alert]")
    at.page.locator("[name=auth]").fill("open sesame")
    at.page.keyboard.press("Enter")
    at.page.wait_for_selector(".hit-card")
    assert "q=write" in at.page.url
    (cookie,) = [
        one for one in at.page.context.cookies() if one["name"].startswith("refdesk-") and "theme" not in one["name"]
    ]
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    at.page.get_by_role("button", name="Sign out").click()
    at.page.wait_for_url("**/sign-in")
    at.go("/library")
    assert "/sign-in" in at.page.url


def test_the_console_can_be_off(library: Path, serve: Serve) -> None:
    server = serve(library, "--no-console")
    assert get(f"{server.root}/").status_code == 404
    assert get(f"{server.root}/healthz").status_code == 200


def test_with_oauth_alone_the_page_says_why_there_is_no_console(
    library: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REFDESK_OAUTH_ISSUER", "https://login.example.org")
    monkeypatch.setenv("REFDESK_OAUTH_AUDIENCE", "refdesk")
    root = serve(library).root
    answer = get(f"{root}/")
    assert answer.status_code == 404 and "The console is off" in answer.text and "--auth-token" in answer.text
    assert "content-security-policy" in answer.headers
    for path in ("/library", "/read/refdesk/model.py", "/sign-in", "/static/console.js"):
        assert get(root + path).status_code == 404, path


def test_with_oauth_the_command_signs_in_with_a_token_of_its_own(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import subprocess
    import sys

    from tests.mcp_client.stdio import environment

    monkeypatch.setenv("REFDESK_OAUTH_ISSUER", "https://login.example.org")
    monkeypatch.setenv("REFDESK_OAUTH_AUDIENCE", "refdesk")
    shutil.copytree(library, tmp_path / "library")
    command = [sys.executable, "-m", "refdesk", "--library", str(tmp_path / "library"), "console", "--no-open"]
    with subprocess.Popen(command, env=environment(), text=True, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        try:
            told = re.search(r"(http://127\.0\.0\.1:\d+).* token (\S+)", run.stdout.readline())
            assert told is not None
            transport = httpx.HTTPTransport(retries=20)
            with Client(base_url=told[1], transport=transport, follow_redirects=True) as client:
                form = re.search(r'name="token" value="([0-9a-f]+)"', client.get("/library").text)
                assert form is not None
                page = client.post("/sign-in?to=/library", data={"auth": told[2], "token": form[1]}).text
            assert "handbook" in page
        finally:
            run.terminate()


def test_who_looks_for_other_addresses_is_not_led_to_a_sign_in(library: Path, serve: Serve) -> None:
    root = serve(library, "--auth-token", "t").root
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/nowhere"):
        answer = get(root + path)
        assert answer.status_code == 404 and "<nav" not in answer.text, path


def test_what_is_large_or_many_is_refused_or_cut(served: str) -> None:
    def lines() -> Iterator[bytes]:
        yield b"theme=dark&back=" + b"x" * (7 << 20)

    with Client(base_url=served) as client:
        kind = {"content-type": "application/x-www-form-urlencoded"}
        assert client.post("/theme", content=b"".join(lines()), headers=kind).status_code == 403
        assert client.post("/theme", content=lines(), headers=kind).status_code == 403  # without a length
        page = client.get("/", params={"q": "lock", "collection": ["refdesk"] * 2000})
        assert page.status_code == 200 and len(page.content) < 300_000
        page = client.get("/", params={"q": "x" * 20_000})
        assert page.status_code == 200 and len(page.content) < 600_000


def test_pages_take_few_threads_and_leave_out_what_nobody_waits_for(tmp_path: Path) -> None:
    """As many requests as there are threads for everything must not take them all."""
    import asyncio
    import threading
    from concurrent.futures import ThreadPoolExecutor

    from starlette.responses import Response

    from refdesk.console.site import Console, Page, Visit

    entered, over = [], threading.Event()

    def slow(visit: Visit) -> Response:
        entered.append(visit)
        over.wait(60)
        return Response("late")

    async def ask(page: Page, *, stays: bool) -> None:
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [], "server": ("x", 80)}

        async def receive() -> dict[str, Any]:
            if stays:
                await asyncio.sleep(3600)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            pass

        await page(scope | {"scheme": "http", "root_path": ""}, receive, send)

    async def crowd(page: Page) -> int:
        waiting = [asyncio.create_task(ask(page, stays=number < 10)) for number in range(60)]
        while len(entered) < 4:
            await asyncio.sleep(0.01)
        answered = await asyncio.wait_for(run_in_threadpool(lambda: len(entered)), 30)
        over.set()
        await asyncio.gather(*waiting)
        return answered

    with open_desk(Settings(library=tmp_path / "library", workers=1)) as desk:
        page = Page(Console(desk, b"k" * 32, list), slow)
        with ThreadPoolExecutor(1) as own:  # a thread that has no event loop: the browser's runs in this one
            assert own.submit(lambda: asyncio.run(crowd(page))).result() == 4
    assert len(entered) == 10  # those who were gone got nothing made


def test_what_lexers_take_minutes_over_is_shown_all_the_same() -> None:
    from refdesk.console.words import code_lines

    for language, line in {"toml": "a=[" * 600, "rust": 'r#"' * 600, "typescript": "<T>(" * 490}.items():
        text = "\n".join([line] * 600)
        assert "\n".join(row.striptags() for row in code_lines("x = <1>\n", language)) == "x = <1>\n"
        assert html.unescape(re.sub(r"<[^>]+>", "", "\n".join(code_lines(text, language)))) == text


def test_a_sign_in_leads_nowhere_else(library: Path, serve: Serve) -> None:
    root = serve(library, "--auth-token", "t").root
    with Client(base_url=root) as client:
        for to in ("https://evil.example/", "//evil.example/", "/\\evil.example"):
            page = client.get("/sign-in", params={"to": to}).text
            token = re.search(r'name="token" value="([0-9a-f]+)"', page)
            assert token is not None
            answer = client.post("/sign-in", params={"to": to}, data={"auth": "t", "token": token[1]})
            assert answer.status_code == 303 and answer.headers["location"] == "/"


def test_the_tools_do_not_load_the_console(tmp_path: Path) -> None:
    import subprocess
    import sys

    from tests.mcp_client.stdio import environment

    loaded = (
        "import sys; from pathlib import Path; from refdesk.app import make_toolsets;"
        " from refdesk.settings import Settings; make_toolsets(Settings(library=Path(sys.argv[1])));"
        " print([name for name in ('jinja2', 'nh3', 'pygments', 'refdesk.console.site') if name in sys.modules])"
    )
    command = [sys.executable, "-c", loaded, str(tmp_path / "library")]
    told = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True).stdout
    assert told.strip() == "[]"


def test_no_file_beside_the_pages_is_served(served: str) -> None:
    for path in ("/static/../site.py", "/static/%2e%2e/site.py", "/static/site.py", "/read/refdesk/../../etc/passwd"):
        assert get(served + path).status_code in (404, 307), path
