"""Normalises URLs, and tells which may lead to text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import quote, urljoin, urlsplit

_TRACKING = re.compile(
    r"(?:utm_\w+|pk_\w+|mtm_\w+|hsa_\w+|_hs\w+|vero_\w+|oly_\w+|mc_[ce]id|[gdy]clid|wbraid|gbraid|gclsrc|msclkid|fbclid|"
    r"igshid|twclid|ttclid|li_fat_id|mkt_tok|_ga|_gl|_openstat|ref_src|ref_url|"
    r"phpsessid|jsessionid|cfid|cftoken)",
    re.IGNORECASE,
)
_SESSION_IN_PATH = re.compile(r";jsessionid=[^/?]*", re.IGNORECASE)
_ESCAPE = re.compile(r"%([0-9a-fA-F]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_KEPT_IN_PATH = "/%:@!$&'()*+,;=~-._[]"
_KEPT_IN_QUERY = _KEPT_IN_PATH + "?"
_NEVER_TEXT = re.compile(
    r"png|jpe?g|gif|svg|webp|avif|ico|bmp|tiff?|psd|ai|eps|swf|mp[34]|m4[av]|og[gav]|wav|flac|webm|avi|mov|mkv|"
    r"zip|gz|tgz|bz2|xz|zst|7z|rar|tar|jar|war|whl|egg|deb|rpm|dmg|pkg|msi|exe|bin|iso|apk|so|dll|dylib|wasm|"
    r"woff2?|ttf|otf|eot|css|m?js|map|inv|pickle|epub|mobi|xlsx?|pptx?|od[tsp]|class|pyc|rss|atom",
    re.IGNORECASE,
)
_PARAMETER = re.compile(r"([?&;])([^=&#\s?;]{1,100})=([^&#\s]*)")
_SECRET = re.compile(
    r"(?:^|[^a-z])(?:auth|code|jwt|pass|passwd|pwd|session|sid|sig)$"
    r"|(?:key|token|secret|password|signature|credential)s?$",
    re.IGNORECASE,
)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def clean(url: str, base: str = "") -> str:
    """The normalised URL: no fragment, tracking parameters, default port or needless escapes; "" if not http(s)."""
    try:
        return _cleaned(urljoin(base, url.strip()) if base else url.strip())
    except ValueError:
        return ""


def clean_all(urls: Iterable[str], base: str) -> tuple[str, ...]:
    """The normalised targets of a page's links, each once, in order, without links within the page."""
    written = dict.fromkeys(url.partition("#")[0] for url in urls)
    found = dict.fromkeys(clean(url, base) for url in written if url)
    found.pop("", None)
    return tuple(found)


@lru_cache(maxsize=65_536)  # pages of a site share most of their links
def _cleaned(url: str) -> str:
    parts = urlsplit(url)
    scheme, host, port = parts.scheme.lower(), (parts.hostname or "").rstrip("."), parts.port
    if scheme not in _DEFAULT_PORTS or not host or "@" in parts.netloc:
        return ""
    if not host.isascii():
        import httpx

        try:
            host = httpx.URL(f"http://{host}/").raw_host.decode("ascii")
        except httpx.InvalidURL:
            return ""
    host = f"[{host}]" if ":" in host else host.lower()
    where = host if port in (None, _DEFAULT_PORTS[scheme]) else f"{host}:{port}"
    path = re.sub(r"^/{2,}", "/", parts.path)
    path = urlsplit(urljoin("http://site/", path)).path if "/." in path else path
    path = _escaped(_SESSION_IN_PATH.sub("", path), _KEPT_IN_PATH) or "/"
    kept = [one for one in parts.query.split("&") if one and not _TRACKING.fullmatch(one.partition("=")[0])]
    query = _escaped("&".join(kept), _KEPT_IN_QUERY)
    return f"{scheme}://{where}{path}{'?' + query if query else ''}"


def _escaped(text: str, safe: str) -> str:
    """The text with unreserved characters unescaped and all others that are not safe escaped."""

    def normal(found: re.Match[str]) -> str:
        character = chr(int(found[1], 16))
        return character if character in _UNRESERVED else found[0].upper()

    return quote(_ESCAPE.sub(normal, text), safe=safe)


def site_of(url: str) -> str:
    return urlsplit(url).netloc


def root_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/"


def folder_of(url: str) -> str:
    return urljoin(url, ".").partition("?")[0]


def path_of(url: str) -> str:
    """The path and query of a URL; index.html for a folder."""
    parts = urlsplit(url)
    path = parts.path.lstrip("/")
    named = f"{path}index.html" if not path or path.endswith("/") else path
    return f"{named}?{parts.query}" if parts.query else named


def is_text(url: str) -> bool:
    """Whether the URL may lead to text, by its file extension."""
    name = urlsplit(url).path.rpartition("/")[2]
    return _NEVER_TEXT.fullmatch(name.rpartition(".")[2]) is None if "." in name else True


def twins(url: str) -> tuple[str, ...]:
    """The pages that a Markdown URL may repeat, by the conventions of llms.txt."""
    if "?" in url or not url.endswith(".md"):
        return ()
    stem = url.removesuffix(".md")
    if stem.endswith("/index.html"):
        return (stem, stem.removesuffix("index.html"))
    if stem.endswith(".html"):
        return (stem, stem.removesuffix(".html"))
    if stem.endswith("/index"):
        folder = stem.removesuffix("index")
        return (folder, f"{stem}.html", folder.rstrip("/"))
    return (stem, f"{stem}.html", f"{stem}/")


def hide_keys(text: str) -> str:
    """The text without the values of keys, tokens and passwords in its URLs, for messages and logs."""
    return _PARAMETER.sub(lambda one: f"{one[1]}{one[2]}=…" if _SECRET.search(one[2]) else one[0], text)
