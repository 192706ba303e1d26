"""Which local paths may be read: those in allowed roots, except files that hold secrets."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from refdesk.errors import Forbidden, InvalidUri, LoadFailed

PRIVATE = "holds secrets"
_NAME_IT = "--allow-secret names those that may be read"

# System folders: these themselves, since projects may be below some of them; and these with everything below.
_WIDE = frozenset(
    ("/", "/home", "/Users", "/usr", "/usr/local", "/usr/src", "/var", "/var/lib", "/var/www", "/opt", "/srv", "/root")
)
_SYSTEM = re.compile(
    r"/(?:etc|proc|sys|dev|boot|run|s?bin|lib\d*|usr/(?:s?bin|lib\w*|share)|var/(?:log|run|spool)|System|Library"
    r"|private/etc)(?:/|$)"
)
_WINDOWS = re.compile(
    r"[a-z]:\\?$|[a-z]:\\(?:users|program files(?: \(x86\))?)$|[a-z]:\\(?:windows|programdata)(?:\\|$)", re.IGNORECASE
)

_SAMPLE = r"(?:examples?|samples?|templates?|tmpl|dist|defaults?|schema)"
_SECRET_NAME = re.compile(
    rf"""
      \.env (?:\. (?!(?:.+\.)?{_SAMPLE}$) .+ )? | (?!{_SAMPLE}\.env$) .+\.env | \.envrc
    | id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)? (?:[-_]\w+)? (?:\.(?:bak|old|orig|key|pem))?
    | .+\.(?:kdbx?|ppk|p12|pfx|jks|keystore|kubeconfig|tfstate|tfstate\.backup|agilekeychain|opvault|ovpn)
    | kubeconfig | credentials (?:\.(?:json|csv|ini|toml|ya?ml|db|xml))? | application_default_credentials\.json
    | client_secrets?(?:[-_.].*)?\.json | service[-_]?account(?:[-_.].*)?\.json | secrets\.(?:json|ya?ml|toml|ini)
    | [._]netrc | \.pgpass | pgpass\.conf | \.my\.cnf | \.mylogin\.cnf | \.pypirc | \.npmrc | \.yarnrc\.yml
    | \.dockercfg | \.git-credentials | \.htpasswd | \.vault[-_]token | \.boto | \.s3cfg | \.terraformrc | \.\w+_history
    | ssh_host_\w+_key | master\.key
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SECRET_PLACE = re.compile(
    r"/(?:\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.password-store|\.config/gcloud|Keychains)(?:/|$)|/\.docker/config\.json$"
    r"|/etc/(?:g?shadow-?|sudoers(?:\.d/.*)?|master\.passwd)$|^/proc/(?:self|thread-self|\d+)/(?:environ|mem)$",
    re.IGNORECASE,
)
_PRIVATE_KEY = re.compile(rb"\s*(?:-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|PuTTY-User-Key-File-\d)")


def allowed_roots(offered: Iterable[Path], named: Iterable[str]) -> list[Path]:
    """The real paths of the allowed roots: those the operator named, and the offered ones that are not too wide.

    A relative name depends on the working directory, so it counts as offered.
    """
    given = [Path(one).expanduser() for one in named]
    narrow = [one for one in (*offered, *given) if not is_too_wide(Path(os.path.realpath(one)))]
    by_name = [one for one in given if one.is_absolute()]
    return list(dict.fromkeys(Path(os.path.realpath(one)) for one in (*narrow, *by_name)))


def is_too_wide(folder: Path) -> bool:
    """Whether a real folder is a system folder or a whole home folder, which must be named explicitly."""
    here = str(folder)
    if here in _WIDE or _SYSTEM.match(here) or _WINDOWS.match(here) or str(folder.parent) in ("/home", "/Users"):
        return True
    homes = [Path.home()]  # by the environment, and by the system's user database
    with contextlib.suppress(ImportError, KeyError):
        import pwd

        homes.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    return any(folder == home or folder in home.parents for home in (Path(os.path.realpath(one)) for one in homes))


def confine(path: Path, roots: Sequence[Path], allow_secrets: Sequence[str] = ()) -> Path:
    """The real path, if it is in one of the roots and holds no secrets; raises Forbidden otherwise."""
    try:
        real = Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise InvalidUri(f"{path!s} is not a path: {error}.") from error
    reason = why_secret(real.as_posix(), allow_secrets)
    if not any(real == root or root in real.parents for root in roots):
        outside = f"outside the allowed roots ({', '.join(map(str, roots)) or 'none'})"
        folder = real if real.is_dir() else real.parent
        # No advice on how to allow these: a misled agent would pass it on to the operator.
        if reason:
            raise Forbidden(f"{path} is refused: by its name it {PRIVATE}, and it is {outside}.")
        if is_too_wide(folder):
            raise Forbidden(
                f"{path} is refused: it is {outside}, and {folder} is a folder of the system or a whole home folder.",
                "Copy what is needed into a folder of the project.",
            )
        raise Forbidden(
            f"{path} is {outside}.",
            f"Start the server with --allow-root {folder}, or open it as a root of your client.",
        )
    if reason:
        raise Forbidden(f"{path} {reason}.")
    if not real.exists():
        raise LoadFailed(f"{path} does not exist.", "Check the path.")
    return real


def why_secret(path: str, allowed: Sequence[str]) -> str | None:
    """Why a secret at an absolute path is not read; "" for an allowed secret, None for no secret."""
    name = path.rpartition("/")[2]
    if not (_SECRET_NAME.fullmatch(name) or _SECRET_PLACE.search(path)):
        return None
    return "" if _is_named(path, name, allowed) else f"{PRIVATE}: its name says so; {_NAME_IT}"


def why_private(path: str, data: bytes, allowed: Sequence[str]) -> str:
    """Why these bytes are not indexed, if they are a private key that the operator did not allow; else ""."""
    if _PRIVATE_KEY.match(data) is None or _is_named(path, path.rpartition("/")[2], allowed):
        return ""
    return f"{PRIVATE}: a private key; {_NAME_IT}"


def _is_named(path: str, name: str, allowed: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, one) or fnmatch.fnmatchcase(path, one) for one in allowed)
