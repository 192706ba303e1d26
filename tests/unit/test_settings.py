from pathlib import Path

import pytest

from refdesk.errors import SettingsError
from refdesk.settings import load


def test_flags_beat_the_environment_beats_the_file_beats_defaults(tmp_path: Path) -> None:
    (tmp_path / "refdesk.toml").write_text('port = 1\nhost = "file"\nworkers = 3\n')
    environ = {"REFDESK_CONFIG": str(tmp_path / "refdesk.toml"), "REFDESK_PORT": "2", "REFDESK_HOST": "env"}
    settings = load({"port": 3, "host": None}, environ, tmp_path)
    assert (settings.port, settings.host, settings.workers, settings.lock_timeout_s) == (3, "env", 3, 30.0)


def test_the_library_is_the_nearest_refdesk_folder(tmp_path: Path) -> None:
    (tmp_path / ".refdesk").mkdir()
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert load({}, {}, inner).library == tmp_path / ".refdesk"
    assert load({}, {"REFDESK_LIBRARY": "other"}, inner).library == inner / "other"


def test_without_any_the_library_is_in_the_users_data_folder(tmp_path: Path) -> None:
    assert load({}, {}, tmp_path).library.name == "refdesk"


def test_a_library_in_the_file_is_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "refdesk.toml").write_text('library = "lib"\n')
    inner = tmp_path / "inner"
    inner.mkdir()
    assert load({}, {}, inner).library == tmp_path / "lib"


@pytest.mark.parametrize(
    "line",
    ['allow_roots = ["/"]', 'embedder = "remote"', 'embedder_url = "https://a.example"', 'host = "0.0.0.0"',
     'allow_hosts = ["a"]', 'library = "/tmp"', 'library = "../x"'],
)  # fmt: skip
def test_a_file_that_was_merely_found_opens_nothing(tmp_path: Path, line: str) -> None:
    (tmp_path / "refdesk.toml").write_text(line + "\n")
    with pytest.raises(SettingsError, match=r"anybody's.*REFDESK_CONFIG"):
        load({}, {}, tmp_path)
    load({}, {"REFDESK_CONFIG": str(tmp_path / "refdesk.toml")}, tmp_path)


def test_where_playbooks_are_is_a_table_of_the_file_and_the_address_is_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "refdesk.toml").write_text('skills.database = "neo4j"\n')
    environ = {"NEO4J_URI": "neo4j://db:7687", "NEO4J_USERNAME": "desk", "NEO4J_PASSWORD": "s3cret"}
    loaded = load({}, environ, tmp_path)
    assert (loaded.skills, loaded.neo4j_uri, loaded.neo4j_user) == ("neo4j", "neo4j://db:7687", "desk")
    assert loaded.neo4j_password == "s3cret" and "s3cret" not in repr(loaded)
    assert load({}, {"REFDESK_SKILLS": "embedded"}, tmp_path).skills == "embedded"
    for wrong in ('skills.url = "x"', 'skills.database = "oracle"', 'neo4j_password = "x"'):
        (tmp_path / "refdesk.toml").write_text(wrong)
        with pytest.raises(SettingsError, match=r"skills\.url|embedded, neo4j|neo4j_password"):
            load({}, environ, tmp_path)


@pytest.mark.parametrize("where", ["file", "environment"])
def test_unknown_keys_fail_and_the_known_ones_are_named(tmp_path: Path, where: str) -> None:
    if where == "file":
        (tmp_path / "refdesk.toml").write_text("prot = 1\n")
    environ = {"REFDESK_PROT": "1"} if where == "environment" else {}
    with pytest.raises(SettingsError, match=r"prot.*port"):
        load({}, environ, tmp_path)


def test_wrong_types_fail_with_the_key(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="port"):
        load({}, {"REFDESK_PORT": "many"}, tmp_path)


def test_lists_are_written_with_commas(tmp_path: Path) -> None:
    assert load({}, {"REFDESK_TOOLSETS": "docs, code"}, tmp_path).toolsets == ("docs", "code")


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    settings = load({}, {"REFDESK_AUTH_TOKEN": "hush", "OPENAI_API_KEY": "hush"}, tmp_path)
    assert settings.auth_token == "hush"
    assert "hush" not in repr(settings)


@pytest.mark.parametrize(("said", "meant"), [("true", True), ("1", True), ("off", False), ("False", False)])
def test_a_switch_is_read_as_it_is_meant(tmp_path: Path, said: str, meant: bool) -> None:
    assert load({}, {"REFDESK_CONSOLE": said}, tmp_path).console is meant


def test_a_switch_that_is_neither_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="console"):
        load({}, {"REFDESK_CONSOLE": "maybe"}, tmp_path)


@pytest.mark.parametrize("value", ["-1", "nan", "inf"])
def test_a_limit_is_a_number_that_can_be(tmp_path: Path, value: str) -> None:
    with pytest.raises(SettingsError, match=r"lock_timeout_s is '.*': it must be 0 or more"):
        load(environ={"REFDESK_LOCK_TIMEOUT_S": value}, cwd=tmp_path)
