"""Authentication over HTTP: the operator's own token, or a JWT that the configured issuer signed for this server."""

from __future__ import annotations

import hmac
import logging
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from mcp.server.auth.provider import AccessToken

from refdesk.errors import LoadFailed
from refdesk.server.process import OAuth, ThreadPool

logger = logging.getLogger(__name__)

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
KEYS_FRESH_S = 300.0  # a key that the issuer withdrew is accepted so long
KEYS_ASK_AGAIN_S = 10.0
FETCH_TIMEOUT_S = 5.0


class TokenCheck:
    """Accepts the operator's own token and, with OAuth on, the issuer's."""

    def __init__(self, token: str | None, oauth: OAuth | None, workers: ThreadPool) -> None:
        self._token = token
        self._issuer = None if oauth is None else IssuerTokens(oauth)
        self._scopes = [] if oauth is None else list(oauth.scopes)
        self._workers = workers

    async def verify_token(self, token: str) -> AccessToken | None:
        if self._token is not None and hmac.compare_digest(token.encode(), self._token.encode()):
            return AccessToken(token=token, client_id="operator-token", scopes=self._scopes)
        issuer = self._issuer
        if issuer is None:
            return None
        return await self._workers.run(lambda: issuer.verify(token))


class IssuerTokens:
    """Verifies JWTs against the issuer's published keys; blocks, so run it in a thread."""

    def __init__(self, oauth: OAuth) -> None:
        self._oauth = oauth
        self._lock = threading.Lock()
        self._keys: dict[str | None, Any] = {}
        self._asked = -KEYS_FRESH_S
        self._keys_uri = ""

    def verify(self, token: str) -> AccessToken | None:
        """The verified token, or None if it is refused, with the reason in the log."""
        import jwt

        try:
            key = self._key(jwt.get_unverified_header(token).get("kid"))
            claims = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._oauth.audience,
                issuer=self._oauth.issuer,
                leeway=30,
                options={"require": ["exp", "iss", "aud"]},
            )
        except Exception as error:
            logger.warning("a token was refused: %s", error)
            return None
        return AccessToken(
            token=token,
            client_id=str(claims.get("client_id") or claims.get("azp") or claims.get("sub") or "unknown"),
            scopes=_scopes(claims),
            expires_at=int(claims["exp"]),
            resource=self._oauth.audience,
            subject=claims.get("sub"),
            claims=claims,
        )

    def _key(self, key_id: str | None) -> Any:
        import jwt

        with self._lock:
            waited = time.monotonic() - self._asked
            # An unknown key may be new, but unauthenticated callers must not trigger a fetch each time.
            if waited > KEYS_FRESH_S or (key_id not in self._keys and waited > KEYS_ASK_AGAIN_S):
                self._asked = time.monotonic()
                self._keys_uri = self._keys_uri or self._find_keys_uri()
                self._keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(_fetch(self._keys_uri)).keys}
            if key_id is None and len(self._keys) == 1:
                return next(iter(self._keys.values()))
            if key_id not in self._keys:
                raise LoadFailed(f"The issuer has no key {key_id!r}.")
            return self._keys[key_id]

    def _find_keys_uri(self) -> str:
        """The `jwks_uri` in the issuer's metadata (RFC 8414, or OpenID Connect discovery)."""
        issuer = self._oauth.issuer.rstrip("/")
        parts = urlsplit(issuer)
        root = f"{parts.scheme}://{parts.netloc}"
        tried = [
            f"{root}/.well-known/oauth-authorization-server{parts.path}",
            f"{root}/.well-known/openid-configuration{parts.path}",
            f"{issuer}/.well-known/openid-configuration",
        ]
        for place in tried:
            try:
                metadata = _fetch(place)
            except LoadFailed:
                continue
            if str(metadata.get("issuer", "")).rstrip("/") == issuer and "jwks_uri" in metadata:
                return str(metadata["jwks_uri"])
        raise LoadFailed(f"No authorization server metadata of {issuer} at {', '.join(tried)}.")


def _scopes(claims: dict[str, Any]) -> list[str]:
    scopes = claims.get("scope", claims.get("scp", ""))
    return scopes.split() if isinstance(scopes, str) else [str(each) for each in scopes]


def _fetch(url: str) -> dict[str, Any]:
    import httpx

    try:
        answer = httpx.get(url, timeout=FETCH_TIMEOUT_S, follow_redirects=False)
        found: dict[str, Any] = answer.raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise LoadFailed(f"{url}: {error}") from error
    if not isinstance(found, dict):
        raise LoadFailed(f"{url} is not a JSON object.")
    return found
