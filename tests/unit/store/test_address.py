"""The address of a shared library: what it may say, and that nothing of a password is shown when it can't be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from refdesk.errors import SettingsError
from refdesk.settings import load
from refdesk.store.shared.address import parse, without_password
from refdesk.store.shared.database import Postgres

INDEX = "index=qdrant://q1:6334,q2"


@pytest.mark.parametrize(
    ("given", "libpq"),
    [("u@h1:5432,h2:5433/db?sslsni=1&", {"user": "u", "host": "h1,h2", "port": "5432,5433", "sslsni": "1"}),
     ("/db?host=h1,h2&port=5432,5433&user=a@b&", {"user": "a@b", "host": "h1,h2", "port": "5432,5433"}),
     ("/db?host=/var/run/postgresql&", {"host": "/var/run/postgresql"}),
     ("u:a%2Fb%40c@[::1]:5432/db?", {"user": "u", "password": "a/b@c", "host": "::1", "port": "5432"}),
     ("h/db?application_name=a+b%20c&", {"host": "h", "application_name": "a+b c"})],
)  # fmt: skip
def test_what_libpq_takes_reaches_it(tmp_path: Path, given: str, libpq: dict[str, str]) -> None:
    address = f"postgres://{given}{INDEX}"
    settings = load({}, {"REFDESK_LIBRARY": address}, tmp_path)
    assert settings.database == address
    assert conninfo_to_dict(parse(address).record) == {"dbname": "db", **libpq}


@pytest.mark.parametrize("where", ["refdesk:{}@host/db", "refdesk:{}@h1:5432,h2/db", "refdesk:{}@host"])
@pytest.mark.parametrize(
    "password",
    ["TopSecret/x", "Se@cret9", "Se%zzcret9", "Se#cret9", "Se?cret9", "Se/?cret9", "99/?cret9", "99?b=cret9",
     "99?a@cret9", "Se@99/cret9", "Se cret9", "Se%00cret9", "99/cret9", "99/a?b=1#cret9"],
)  # fmt: skip
def test_nothing_is_shown_of_a_password_that_is_not_encoded(tmp_path: Path, password: str, where: str) -> None:
    address = f"postgres://{where.format(password)}?{INDEX}"
    for flags, environ in (({"library": address}, {}), ({}, {"REFDESK_LIBRARY": address})):
        with pytest.raises(SettingsError, match=r"ercent-encode / @ # \? % in the password") as refused:
            load(flags, environ, tmp_path)
        for part in ("Secret", "Se", "cret9", "zz", "99"):
            assert part not in str(refused.value)
    with pytest.raises(SettingsError, match=r"ercent-encode"):
        parse(address)


@pytest.mark.parametrize(
    "given",
    ["h:x/db?", "h:0/db?", "h:65536/db?", "h:5432,h2:x/db?", "/db?host=h&port=x&", "/db?host=h&port=1,70000&",
     "::1/db?", "[::1/db?", "h:5٠/db?"],
)  # fmt: skip
def test_a_port_that_is_none_is_a_wrong_setting(tmp_path: Path, given: str) -> None:
    with pytest.raises(SettingsError, match="Ports are 1 to 65535"):
        load({}, {"REFDESK_LIBRARY": f"postgres://{given}{INDEX}"}, tmp_path)


@pytest.mark.parametrize(
    ("given", "said"),
    [("shards=0", "from 1 to 9999"), ("shards=-1", "from 1 to 9999"), ("replicas=0", "from 1 to 9999"),
     ("replicas=many", "from 1 to 9999"), ("schema=", "gives schema no value"), ("shards=", "gives shards no value"),
     ("quantisation=", "gives quantisation no value"), ("index_ca=", "gives index_ca no value"), ("schema", "no value"),
     ("shard=3", "no parameter shard. Did you mean shards?"), ("Schema=x", "Did you mean schema?"),
     ("quantization=int8", "Did you mean quantisation?"), ("replica=1", "Did you mean replicas?"),
     ("index=qdrant://q:x", "Ports are 1 to 65535"), ("index=qdrant://q,,r", "without a name"),
     ("index=qdrant://u:s3cret@q", "a host or a port")],
)  # fmt: skip
def test_a_value_that_can_not_be_is_refused(given: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse(f"postgres://h/db?{INDEX}&{given}")
    assert said in str(refused.value) and "s3cret" not in str(refused.value)


def test_a_parameter_of_libpq_is_none_of_ours_misspelt() -> None:
    for known in (one.keyword.decode() for one in Conninfo.get_defaults()):
        assert parse(f"postgres://h/db?{known}=1&{INDEX}").record == f"postgresql://h/db?{known}=1"


def test_another_scheme_is_named_and_a_forgotten_one_shows_nothing(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="can't be at mysql://"):
        load({"library": "mysql://h/db"}, {}, tmp_path)
    with pytest.raises(SettingsError, match="postgres:// address") as refused:
        load({}, {"REFDESK_LIBRARY": f"refdesk:s3cret@h/db?{INDEX}"}, tmp_path)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("given", ["user=u&sslpassword=s3cret&", "password=s3cret&"])
def test_no_password_is_taken_from_the_command_line(tmp_path: Path, given: str) -> None:
    with pytest.raises(SettingsError, match="list of processes") as refused:
        load({"library": f"postgres://h/db?{given}{INDEX}"}, {}, tmp_path)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("record", "said"),
    [("h:1/db?sslmode=bogus", 'is wrong: invalid sslmode value: "bogus"'), ("h:1/db?sslrode=x", '"sslrode"'),
     ("/db?host=127.0.0.1,127.0.0.2&port=1,2,3", "could not match 3 port numbers"),
     ("/?service=no-such-one", 'service "no-such-one" not found'), ("u:Se%zzcret9@h/db", "not one for Postgres: .*…"),
     ("127.0.0.1:TopSecret/x@h/db", "is wrong: .*…"), ("h/db?password=Se%00cret9", "not one for Postgres")],
)  # fmt: skip
def test_what_libpq_refuses_is_a_wrong_setting_and_shows_no_password(record: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as refused:
        Postgres(f"postgresql://{record.replace('h:1', '127.0.0.1:1')}", "refdesk", 1.0)
    assert not any(part in str(refused.value) for part in ("Secret", "cret9", "Se%"))


def test_a_message_loses_all_parts_of_a_password_and_nothing_else() -> None:
    record = "postgresql://refdesk:a%2Fbc@h/db?sslpassword=o%26p"
    said = without_password("refdesk at h: 'a%2Fbc', 'a/bc', host 'bc', 'o&p'; backup of a database", record)
    assert said == "refdesk at h: '…', '…', host '…', '…'; backup of … database"
    assert without_password("as it is", "postgresql://u@h/db") == "as it is"
