"""TLS, passwords and API keys against real servers; a secret is in no log, answer or list of processes."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import refdesk
from refdesk.errors import SettingsError, StoreError
from refdesk.settings import load
from refdesk.store.shared.store import SharedStore
from tests.mcp_client.http import HttpClient, HttpServer
from tests.ports.library import batch, collection, write
from tests.scale import servers

PASSWORD, KEY = "pa55-of-postgres", "k3y-of-qdrant"


def _certificate(folder: Path) -> servers.Tls:
    """An authority, and what it vouches for."""
    now = datetime.now(UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, one)]) for one in ("authority", "127.0.0.1")]
    files = servers.Tls(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    for place, file in enumerate((files.authority, files.certificate)):
        made = x509.CertificateBuilder().subject_name(names[place]).issuer_name(names[0])
        made = made.public_key(keys[place].public_key()).serial_number(x509.random_serial_number())
        made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        made = made.add_extension(x509.BasicConstraints(ca=place == 0, path_length=None), critical=True)
        if place:
            address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
            made = made.add_extension(address, critical=False)
        file.write_bytes(made.sign(keys[0], hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files.key.write_bytes(keys[1].private_bytes(*form))
    return files


@dataclass(frozen=True)
class Secured:
    """Servers that ask for secrets, and where they are."""

    folder: Path
    tls: servers.Tls
    postgres: servers.Postgres
    node: servers.Qdrant

    def address(self, *, user: str = "refdesk@", **changed: str) -> str:
        options = {
            "sslmode": "verify-full", "sslrootcert": str(self.tls.authority), "shards": "1", "replicas": "1",
            "index": f"qdrants://127.0.0.1:{self.node.port}", "index_ca": str(self.tls.authority), **changed,
        }  # fmt: skip
        named = "&".join(f"{key}={value}" for key, value in options.items() if value)
        return f"postgres://{user}127.0.0.1:{self.postgres.port}/postgres?{named}"


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    folder = Path(tempfile.mkdtemp(prefix="refdesk-secure-"))
    folder.chmod(0o755)
    try:
        tls = _certificate(folder)
        postgres = servers.Postgres(folder / "postgres", PASSWORD, tls)
        try:
            node = servers.Qdrant(folder / "qdrant", api_key=KEY, tls=tls)
            yield Secured(folder, tls, postgres, node)
            node.kill()
        finally:
            postgres.stop()
    except servers.Missing as missing:
        pytest.skip(str(missing))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _processes() -> str:
    """The command lines of all processes, as `ps` shows them."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(found)


def test_a_server_speaks_tls_with_both_and_shows_no_secret(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"127.0.0.1:*:*:refdesk:{PASSWORD}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    monkeypatch.setenv("REFDESK_LIBRARY", secured.address(schema="served"))
    monkeypatch.setenv("REFDESK_QDRANT_API_KEY", KEY)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("REFDESK_LOG_LEVEL", "debug")
    note = tmp_path / "note.md"
    note.write_text("# Lanterns\n\nA lantern needs oil.\n")
    main = Path(refdesk.__file__).with_name("__main__.py")
    arguments = ("serve", "--toolsets", "rag", "--transport", "http", "--port", "0", "--allow-root", str(tmp_path))
    with HttpServer(main, *arguments) as server, HttpClient(server.url) as client:

        def call(tool: str, **given: str) -> str:
            return json.dumps(client.modern("tools/call", {"name": tool, "arguments": given}))

        said = [call("rag_create_collection", name="notes")]
        said.append(call("rag_ingest", uri=note.as_uri(), collection="notes"))
        said.append(call("rag_search", query="lantern oil", collection="notes"))
        assert "needs oil" in said[-1] and "keyword" not in said[-1] and "can't be reached" not in said[-1]
        secured.node.kill()  # what goes wrong is told of, too
        said.append(call("rag_search", query="lantern", collection="notes"))
        assert "can't be reached" in said[-1] and "needs oil" in said[-1]
        secured.node.start()
        said += [call("rag_stats"), httpx.get(f"{server.root}/metrics").text, _processes()]
        log = "".join(server.log)
    assert log and "refdesk_calls_total" in said[-2] and "--transport http" in said[-1]
    for secret in (PASSWORD, KEY):
        assert secret not in "\n".join([*said, log])


def test_a_service_file_names_the_server_and_the_password(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = tmp_path / "services"
    service.write_text(
        f"[kb]\nhost=127.0.0.1\nport={secured.postgres.port}\ndbname=postgres\nuser=refdesk\npassword={PASSWORD}\n"
        f"sslmode=verify-full\nsslrootcert={secured.tls.authority}\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    index = f"index=qdrants://127.0.0.1:{secured.node.port}&index_ca={secured.tls.authority}&shards=1&replicas=1"
    with closing(SharedStore(f"postgres:///?service=kb&schema=service&{index}", api_key=KEY)) as store:
        store.put_collection(collection())
        store.apply(batch(write("a", ["alpha"], vectors=False)))
        assert len(store.view().lexical(["alpha"], 5)) == 1 and store.view().notices == ()
        encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert store.read(lambda db: db.execute(encrypted).fetchone()[0])


def test_what_is_refused_says_why_and_shows_no_secret(
    secured: Secured, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    said = []
    with pytest.raises(StoreError, match="password") as refused:
        SharedStore(secured.address(user="refdesk:wr0ng-0ne@"), api_key=KEY)
    said.append(str(refused.value))
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    for wrong in ({"sslmode": "disable"}, {"sslrootcert": os.devnull}):
        with pytest.raises(StoreError, match="Postgres") as refused:
            SharedStore(secured.address(**wrong), api_key=KEY)
        said.append(str(refused.value))
    with closing(SharedStore(secured.address(schema="key"), api_key="wr0ng-0ne")) as store:
        deadline = time.monotonic() + 60
        with pytest.raises(SettingsError, match="API key") as key:
            while time.monotonic() < deadline:  # a reader waits a second and a half for the background to be refused
                store.view()
                time.sleep(0.05)
        said.append(str(key.value))
    untrusted = {"index_ca": "", "schema": "untrusted"}  # nobody public vouches for the node
    with closing(SharedStore(secured.address(**untrusted), api_key=KEY)) as store:
        store.put_collection(collection())
        store.apply(batch(write("a", ["alpha"], vectors=False)))
        assert "can't be reached" in store.view().notices[0] and "see index_ca" in store.view().notices[0]
    no_certificate = tmp_path / "notes.pem"
    no_certificate.write_text("of this week")
    for file in (tmp_path / "none.pem", no_certificate):
        with pytest.raises(SettingsError, match="index_ca"):
            SharedStore(secured.address(index_ca=str(file)), api_key=KEY)
    for flag in (secured.address(user=f"refdesk:{PASSWORD}@"), secured.address(password=PASSWORD)):
        with pytest.raises(SettingsError, match="list of processes") as flagged:
            load({"library": flag}, {}, tmp_path)
        said.append(str(flagged.value))
    for secret in (PASSWORD, KEY, "wr0ng-0ne"):
        assert secret not in "\n".join([*said, caplog.text])


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_a_port_that_speaks_tls_or_does_not_is_named_as_such(
    secured: Secured, monkeypatch: pytest.MonkeyPatch, is_encrypted: bool
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    plain = servers.for_tests()[1][0].port
    index = f"qdrants://127.0.0.1:{plain}" if is_encrypted else f"qdrant://127.0.0.1:{secured.node.port}"
    place = secured.address(index=index, index_ca="", schema=f"wrong{is_encrypted:d}")
    with closing(SharedStore(place, api_key=KEY)) as store:
        store.put_collection(collection())
        store.apply(batch(write("a", ["alpha"], vectors=False)))
        (view := store.view()).lexical(["alpha"], 5)
        assert ("see qdrant://" if is_encrypted else "see qdrants://") in view.notices[0]
        found = store.verify(repair=False)[1]
        assert not found.ok and "Correct the library's address" in found.message


def test_a_role_that_has_its_schema_needs_no_right_on_the_database(address: str) -> None:
    postgres = servers.for_tests()[0]
    with psycopg.connect(postgres.address, autocommit=True) as db:
        db.execute("DROP SCHEMA IF EXISTS given CASCADE; DROP ROLE IF EXISTS clerk; CREATE ROLE clerk LOGIN")
        db.execute("CREATE SCHEMA given AUTHORIZATION clerk; REVOKE CREATE ON DATABASE postgres FROM PUBLIC")
        given = re.sub("schema=[a-z0-9]+", "schema=given", address.replace("//refdesk@", "//clerk@"))
        with closing(SharedStore(given)) as store:
            store.put_collection(collection())
            store.apply(batch(write("a", ["alpha"], vectors=False)))
            assert len(store.view().lexical(["alpha"], 5)) == 1 and not store.view().notices
        with pytest.raises(StoreError, match="permission denied"):
            SharedStore(given.replace("schema=given", "schema=its_own"))
