"""Renders pages that need JavaScript with an installed Chromium; our own client makes its requests."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
from typing import TYPE_CHECKING

from refdesk.crawl.urls import hide_keys
from refdesk.errors import LoadFailed, RefdeskError
from refdesk.sources.web import WebClient

if TYPE_CHECKING:
    from playwright.async_api import Browser as Chromium
    from playwright.async_api import Playwright, Route

logger = logging.getLogger(__name__)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
_LOAD_MS = 20_000
_QUIET_MS = 5_000  # a page that polls its server is never quiet
_UNWANTED = frozenset({"image", "media", "font", "websocket", "eventsource", "manifest", "ping"})
_DROPPED_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection", "set-cookie"})
_ARGUMENTS = (
    "--host-resolver-rules=MAP * ~NOTFOUND",  # it makes no connections: our client makes every request
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--disable-webrtc",
    "--no-first-run",
)


def installed_chromium() -> str:
    """The path of an installed Chromium or Chrome, "" if there is none."""
    return next((found for name in _NAMES if (found := shutil.which(name))), "")


def why_no_browser() -> str:
    """What must be installed to render pages, "" if nothing."""
    if importlib.util.find_spec("playwright") is None:
        return "Install refdesk[browser] to render them."
    return "" if installed_chromium() else "Install Chromium to render them."


class Browser:
    """A Chromium, started for the first page that needs it; it reaches only what our client may reach."""

    def __init__(self, client: WebClient) -> None:
        self._client = client
        self._playwright: Playwright | None = None
        self._chromium: Chromium | None = None

    async def __aenter__(self) -> Browser:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._chromium is not None:
            await self._chromium.close()
        if self._playwright is not None:
            await self._playwright.stop()

    async def render(self, url: str) -> str:
        """The HTML of the page after its scripts have run; raises LoadFailed if the browser fails."""
        from playwright.async_api import Error, async_playwright

        try:
            if self._chromium is None:
                self._playwright = await async_playwright().start()
                self._chromium = await self._playwright.chromium.launch(
                    executable_path=installed_chromium(),
                    args=list(_ARGUMENTS),
                    chromium_sandbox=getattr(os, "geteuid", lambda: 1)() != 0,  # Chromium has none for root
                )
            # A new context shares no cookies or storage with others.
            context = await self._chromium.new_context(service_workers="block", accept_downloads=False)
            await context.route("**/*", self._answer)
            try:
                page = await context.new_page()
                await page.goto(url, wait_until="load", timeout=_LOAD_MS)
                try:
                    await page.wait_for_load_state("networkidle", timeout=_QUIET_MS)
                except Error:
                    logger.info("%s keeps loading: read as it is", hide_keys(url))
                return await page.content()
            finally:
                await context.close()
        except Error as error:
            raise LoadFailed(f"the browser can't show it: {error.message.splitlines()[0]}") from error

    async def _answer(self, route: Route) -> None:
        """Makes a request of the browser, under the same address rules as any other."""
        request = route.request
        if request.method != "GET" or request.resource_type in _UNWANTED:
            await route.abort()
            return
        try:
            answer = await self._client.ask(request.url)
        except RefdeskError as error:
            logger.info("the browser was refused %s: %s", hide_keys(request.url), error)
            await route.abort()
            return
        if answer.location:
            await route.fulfill(status=answer.status, headers={"location": answer.location})
            return
        kept = {key: value for key, value in answer.headers.items() if key not in _DROPPED_HEADERS}
        await route.fulfill(status=answer.status, headers=kept, body=answer.data)
