"""Hostile content, forged requests, sign-in: what a console must not let through."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import httpx

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
        paths = [one.path for one in desk.documents("poison", 100)]
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
