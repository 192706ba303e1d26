"""Every view: the graph walked, set-up, what axe finds wrong, and the pictures of the documentation."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from refdesk.app import open_desk
from refdesk.settings import Settings
from tests.console.conftest import ROOT, Open, Serve, get
from tests.mcp_client.http import HttpClient
from tests.server import node_tools

PICTURES = ROOT / "docs" / "pictures"
VIEWS = {
    "search": "/?q=how+are+vectors+stored",
    "nothing": "/?q=zzqqxx",
    "compared": "/?q=how+are+vectors+stored&alpha=0&other=1",
    "reader": "/read/refdesk/desk/reading.py?lines=40-44&q=library",
    "page": "/read/handbook/evaluation.md?lines=3-5",
    "agent": "/read/refdesk/model.py?as=agent",
    "library": "/library",
    "collection": "/library/refdesk",
    "remove": "/library/refdesk/remove",
    "graphs": "/graph",
    "map": "/graph/refdesk",
    "graph": "/graph/refdesk?symbol=store/local.py:LocalStore",
    "symbols": "/graph/refdesk?symbol=close",
    "playbooks": "/playbooks",
    "agents": "/agents",
    "case": "/agents/case?query=how+are+vectors+stored",
    "setup": "/setup",
    "missing": "/nowhere",
    "start": "/",
}


def test_the_graph_is_walked(served: str, browse: Open) -> None:
    at = browse(served)
    at.go("/graph/refdesk")
    assert at.page.locator(".graph a.map").count() > 5
    at.page.locator(".graph a.map text", has_text="store/").first.click()
    at.page.wait_for_selector("h1:text('store')")
    at.page.locator("[aria-label='Find a symbol']").fill("Writer.index")
    at.page.keyboard.press("Enter")
    at.page.wait_for_selector(".graph.pad svg")
    assert at.page.locator("h1").inner_text() == "Writer.index"
    at.page.locator(".graph a.left", has_text="Desk._index").click()
    at.page.wait_for_selector("h1:text('Desk._index')")
    assert at.page.locator(".graph a.right", has_text="Writer.index").count() == 1
    edges = at.page.locator(".graph path").count()
    at.page.locator(".levels a", has_text="0.95").click()
    at.page.wait_for_selector(".levels a[aria-current]:text('0.95')")
    assert at.page.locator(".graph path").count() < edges
    at.page.locator(".head a.mono").click()
    at.page.wait_for_selector(".code .row.hit")
    assert "def _index(" in at.page.locator(".code").inner_text()
    assert at.errors == []


def test_implementers_and_supertypes_are_drawn(served: str, browse: Open) -> None:
    at = browse(served)
    at.go("/graph/refdesk?symbol=errors.py:InvalidInput")
    assert at.page.locator(".graph a.above", has_text="RefdeskError").count() == 1
    assert at.page.locator(".graph a.below", has_text="InvalidUri").count() == 1


def test_a_symbol_with_several_definitions_is_chosen(served: str) -> None:
    page = get(f"{served}/graph/refdesk", params={"symbol": "close"}).text
    assert "definitions" in page and "Desk.close" in page
    assert "No definition is called" in get(f"{served}/graph/refdesk", params={"symbol": "no_such_thing"}).text


def test_set_up_tells_clients_health_and_where_settings_come_from(library: Path, serve: Serve, browse: Open) -> None:
    at = browse(serve(library, "--auth-token", "swordfish").root, permissions=["clipboard-read", "clipboard-write"])
    at.go("/setup")
    at.page.locator("[name=auth]").fill("swordfish")
    at.page.keyboard.press("Enter")
    at.page.wait_for_url("**/setup")
    at.page.locator("summary", has_text="Claude Code").click()
    at.page.locator("[data-copy=entry-claude-code]").click()
    copied = at.page.evaluate("navigator.clipboard.readText()")
    assert '"mcpServers"' in copied and '"refdesk"' in copied and '"serve"' in copied
    settings = at.page.locator("[aria-label=Settings]")
    assert "the command line" in settings.locator("tr", has_text="auth_token").inner_text()
    assert "default" in settings.locator("tr", has_text="refresh_ms").inner_text()
    assert "swordfish" not in at.page.content()
    at.page.get_by_role("button", name="Check now").click()
    at.page.wait_for_selector("#run .tag.good")
    assert "record" in at.page.locator("#run").inner_text()
    at.go("/setup")
    assert at.page.locator(".answer .good").count() > 0


def _axe(page: Any) -> list[str]:
    """What axe-core calls a serious or critical fault."""
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{one['id']}: {node['target']} {node['failureSummary'].splitlines()[-1].strip()}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(served: str, browse: Open, scheme: str) -> None:
    axe = (node_tools.required().modules / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    at = browse(served, color_scheme=scheme, bypass_csp=True)
    faults = {}
    for name, path in VIEWS.items():
        at.go(path)
        at.page.evaluate(axe)
        if found := _axe(at.page):
            faults[name] = found
    assert faults == {}


def test_every_view_has_one_heading_and_labels(served: str, browse: Open) -> None:
    at = browse(served)
    for name, path in VIEWS.items():
        answer = at.go(path)
        assert answer.status == (404 if name == "missing" else 200), name
        assert at.page.title().endswith("RefDesk"), name
        unnamed = at.page.locator("main button, main a[href], main input:not([type=hidden])").evaluate_all(
            "all => all.filter(one => !(one.innerText || one.textContent || '').trim() && !one.ariaLabel"
            " && !(one.labels && one.labels.length)).map(one => one.outerHTML)"
        )
        assert unnamed == [], name
    assert at.strangers == []


def test_no_view_is_wider_than_a_phone(served: str, browse: Open) -> None:
    at = browse(served, viewport={"width": 390, "height": 844})
    for name, path in VIEWS.items():
        at.go(path)
        wide, there = at.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= there, name


def test_long_lists_page(serve: Serve, browse: Open, tmp_path: Path) -> None:
    with open_desk(Settings(library=tmp_path / "library", workers=1)) as desk:
        for number in range(230):
            desk.create_collection(f"team-{number:03}", "code" if number % 2 else "files")
    at = browse(serve(tmp_path / "library").root)
    at.go("/library")
    assert at.page.locator("[aria-label=Collections] tbody tr").count() == 100
    at.page.get_by_role("link", name="Next").click()
    at.page.wait_for_url("**/library?page=2")
    at.page.get_by_role("link", name="Next").click()
    at.page.wait_for_url("**/library?page=3")
    assert at.page.locator("[aria-label=Collections] tbody tr").count() == 30
    at.page.locator("[name=named]").fill("AM-12")
    at.page.keyboard.press("Enter")
    at.page.wait_for_url("**named=AM-12")
    assert at.page.locator("[aria-label=Collections] tbody tr").count() == 10
    at.go("/")
    assert "218 more collections" in at.page.locator("main").inner_text()
    at.go("/graph?page=3")
    assert at.page.locator("[aria-label=Codebases] tbody tr").count() == 15


def test_pictures(library: Path, serve: Serve, browse: Open, tmp_path: Path) -> None:
    """Takes the pictures of the documentation; KEEP_PICTURES=1 puts them there."""
    server = serve(library, here=ROOT)
    with HttpClient(server.url) as agent:
        agent.initialize()
        for query in ("how are vectors stored", "who holds the write lock", "zebra crossings in Ulm", "retry a crawl"):
            agent.call("rag_search", {"query": query})
    folder = PICTURES if os.environ.get("KEEP_PICTURES") else tmp_path
    folder.mkdir(exist_ok=True)
    shown = {"search": "light", "reader": "dark", "graph": "light", "playbook": "light", "agents": "dark"}
    found = re.search(r"/playbooks/[0-9a-f-]{36}", get(f"{server.root}/playbooks").text)
    assert found is not None
    places = {**VIEWS, "playbook": f"{found[0]}?as=history", "reader": "/read/refdesk/text/globs.py?lines=18-24&q=glob"}
    for name, scheme in shown.items():
        at = browse(
            server.root, color_scheme=scheme, viewport={"width": 1200, "height": 900 if name == "graph" else 760}
        )
        at.go(places[name])
        if name == "search":
            at.page.locator(".why summary").first.click()
        at.page.wait_for_timeout(300)
        at.page.screenshot(path=folder / f"{name}.png")
        assert at.errors == []
    at = browse(server.root, viewport={"width": 390, "height": 760})
    at.go(VIEWS["search"])
    at.page.screenshot(path=folder / "phone.png")
    assert all((folder / f"{name}.png").stat().st_size > 10_000 for name in (*shown, "phone"))
