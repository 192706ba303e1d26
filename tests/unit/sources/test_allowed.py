"""Roots that nobody named are narrow, and secrets stay where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from refdesk.errors import Forbidden
from refdesk.sources.allowed import allowed_roots, confine, why_private, why_secret

SECRETS = """
    /p/.env /p/.env.local /p/.env.production /p/prod.env /p/.envrc /p/id_rsa /p/id_ed25519 /p/id_rsa_work
    /p/id_ecdsa.bak /p/.netrc /p/_netrc /p/.pgpass /p/credentials /p/credentials.json /p/.aws/credentials
    /p/.aws/config /p/.ssh/config /p/.ssh/known_hosts /p/.gnupg/secring.gpg /p/kubeconfig /p/.kube/config
    /p/passwords.kdbx /p/secrets.yaml /etc/shadow /etc/gshadow /etc/sudoers /p/.git-credentials
    /p/.bash_history /p/.npmrc /p/.pypirc /p/server.p12 /p/terraform.tfstate /p/client_secret_123.json
    /p/service-account.json /p/.docker/config.json /p/.config/gcloud/access_tokens.db /p/master.key
    /p/ssh_host_rsa_key /proc/self/environ /p/.ENV
"""
INNOCENT = """
    /p/.env.example /p/.env.sample /p/.env.template /p/.env.local.example /p/example.env /p/id_rsa.pub
    /p/id_rsa_parser.py /p/env.py /p/environment.md /p/app.env.ts /p/credentials.py /p/Credentials.java
    /p/secrets.py /p/secrets.md /p/secret.yaml /p/shadow.css /p/etc/hosts /p/kube/config /p/ssh/config.md
    /p/master.keys.md /p/docker/config.json /p/netrc.py /p/public.pem /p/key.md /p/history.md
"""


@pytest.mark.parametrize("path", SECRETS.split())
def test_secrets_are_known_by_their_names(path: str) -> None:
    reason = why_secret(path, ())
    assert reason is not None
    assert "--allow-secret" in reason
    assert why_secret(path, ("*",)) == ""


@pytest.mark.parametrize("path", INNOCENT.split())
def test_other_names_are_not(path: str) -> None:
    assert why_secret(path, ()) is None


def test_a_private_key_is_known_by_what_it_says() -> None:
    for head in (b"RSA ", b"", b"OPENSSH ", b"EC ", b"ENCRYPTED "):
        key = b"\n-----BEGIN " + head + b"PRIVATE KEY-----\nMIIE\n"
        assert "--allow-secret" in why_private("/p/x.txt", key, ())
        assert why_private("/p/x.txt", key, ("x.txt",)) == ""
    assert why_private("/p/x.pem", b"-----BEGIN CERTIFICATE-----\n", ()) == ""
    assert why_private("/p/x.md", b"# Keys\n\n-----BEGIN PRIVATE KEY-----\n", ()) == ""


def test_wide_folders_are_roots_only_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "people" / "ann"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    wide = ["/", "/etc", "/etc/nginx", "/usr", "/var", "/root", "/proc", "/sys", "/dev", "/home", "/home/bob"]
    offered = [*map(Path, wide), home, home.parent]
    assert allowed_roots(offered, ()) == []
    assert allowed_roots([home / "project", *offered], ()) == [(home / "project").resolve()]
    assert allowed_roots([], ["/etc", str(home)]) == [Path("/etc"), home.resolve()]
    monkeypatch.chdir("/")
    assert allowed_roots([Path.cwd()], ["."]) == []


def test_nobody_is_told_how_to_open_secrets_and_folders_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "ann"
    (home / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    root = tmp_path / "root"
    for path in ("/", "/etc", "/etc/passwd", "/etc/none", "/proc/1/maps", "/usr/bin/env", str(home), f"{home}/x.md"):
        with pytest.raises(Forbidden, match=r"is refused: it is outside .* folder of the system") as refused:
            confine(Path(path), [root])
        assert "--allow" not in str(refused.value)
    for path in ("/etc/shadow", f"{home}/.ssh/id_rsa", f"{home}/project/.env"):
        with pytest.raises(Forbidden, match="is refused: by its name it holds secrets") as refused:
            confine(Path(path), [root])
        assert "--allow" not in str(refused.value)
    with pytest.raises(Forbidden, match=f"--allow-root {home.resolve()}/project"):
        confine(home / "project" / "x.md", [root])


def test_a_link_does_not_hide_a_secret(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "notes.md").symlink_to(".env")
    root = tmp_path.resolve()
    with pytest.raises(Forbidden, match="holds secrets"):
        confine(tmp_path / "notes.md", [root])
    assert confine(tmp_path / "notes.md", [root], [".env"]) == root / ".env"
