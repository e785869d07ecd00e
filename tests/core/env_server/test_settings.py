"""``ServerConfig``: each setting has a bound, a variable, a row in the documentation and, where meant, an option."""

import inspect
from contextlib import suppress
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from tests.support.environments.common import Add, CounterEnvironment, Total
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from openenv.auto.in_process import InProcessProvider
from openenv.cli.commands.serve import serve as serve_command
from openenv.core.env_server.app import HTTPEnvServer, create_app, create_fastapi_app
from openenv.core.env_server.settings import (
    MEBIBYTE,
    SETTINGS,
    ServerConfig,
    ServerSettings,
    Setting,
    environment_variables,
)
from openenv.core.exceptions import ConfigurationError

PAGE = (Path(__file__).parents[3] / "docs" / "serving.md").read_text()
EVERY = pytest.mark.parametrize("setting", SETTINGS.values(), ids=list(SETTINGS))
PUBLIC = {"max_sessions", "idle_timeout_s", "mode"}
"""Settings that are parameters of their own; all others are in ``ServerSettings``."""
ADDED_TO = {"traces_leave_out"}
"""Settings whose variable adds to the keyword argument."""
WITHOUT_OPTION = {"idle_timeout_s", "max_message_size_mb", "header_timeout_s", "body_timeout_s", "token", "mode"}
WITHOUT_OPTION |= {"traces_named_only"}
OUT_OF_BOUNDS: dict[str, Any] = {"journal": 5, "token": "two words", "allowed_hosts": ["a b"], "mode": "training"}
OUT_OF_BOUNDS |= {"measure_cpu": "yes", "traces": 5, "traces_named_only": "yes", "traces_leave_out": ["screenshot"]}
OUT_OF_BOUNDS |= {"allowed_origins": ["example.com"], "telemetry": "yes", "debug": 2, "auth": "off", "isolation": "all"}
OTHERS: dict[str, Any] = {"journal": "j", "token": "t", "allowed_hosts": ("a", "b"), "mode": "production"}
OTHERS |= {"allowed_origins": ("https://a.test", "http://b.test"), "telemetry": True, "debug": True, "auth": "none"}
OTHERS |= {"isolation": "process", "traces": "t.db", "traces_sample": 0.5, "traces_named_only": True}
OTHERS |= {"measure_cpu": True, "tokens": "t.toml", "traces_leave_out": ("reset.seed", "observation.png")}


def test_keyword_arguments_and_settings_are_the_same() -> None:
    assert get_type_hints(ServerSettings).keys() == SETTINGS.keys() - PUBLIC
    for build in (create_app, create_fastapi_app, HTTPEnvServer):
        parameters = inspect.signature(build).parameters
        assert {"max_concurrent_envs", "concurrency_config", "reset_observation_cls", "settings"} <= parameters.keys()


@EVERY
def test_each_has_a_bound(setting: Setting) -> None:
    value = OUT_OF_BOUNDS.get(setting.name, -1)
    with pytest.raises(ConfigurationError, match="Expected"):
        ServerConfig(**{setting.name: value})


@EVERY
def test_each_has_a_variable_over_which_the_keyword_wins(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    other = OTHERS.get(setting.name, 3)
    if setting.name == "sessions_per_process":
        monkeypatch.setenv("OPENENV_ISOLATION", "process")
    for variable, text in environment_variables({setting.name: other}).items():
        assert variable == setting.variable
        monkeypatch.setenv(variable, text)
    assert getattr(ServerConfig.read(), setting.name) == other != setting.default
    given: Any = {setting.name: setting.default}
    config = ServerConfig.read(**given) if setting.name in PUBLIC else ServerConfig.read(given)
    is_unset = setting.default is None and (setting.name in PUBLIC or not setting.kind.optional)
    holds_variable = is_unset or setting.name in ADDED_TO
    assert getattr(config, setting.name) == (other if holds_variable else setting.default)


@EVERY
def test_each_has_a_row_in_the_documentation(setting: Setting) -> None:
    option = f"`{setting.option}`" if setting.option else ""
    assert f"\n| `{setting.keyword}` | {option} | `{setting.variable}` | {setting.default_text} | " in PAGE


def test_the_documentation_has_no_further_rows() -> None:
    table = PAGE.partition("| Keyword | Option | Variable |")[2].partition("\n\n")[0]
    assert table.count("\n| `") == len(SETTINGS)


@EVERY
def test_each_has_an_option_where_meant(setting: Setting) -> None:
    assert (setting.option is None) == (setting.name in WITHOUT_OPTION)
    assert (setting.name in inspect.signature(serve_command).parameters) == (setting.option is not None)


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(TypeError, match=r"Unknown setting: step_timeout\. Beside the parameters there are allowed"):
        create_app(CounterEnvironment, Add, Total, step_timeout=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_a_public_parameter_is_no_setting(name: str) -> None:
    with pytest.raises(TypeError, match=f"Unknown setting: {name}"):
        HTTPEnvServer(CounterEnvironment, Add, Total, **{name: getattr(ServerConfig.read(), name)})


def test_an_empty_journal_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_JOURNAL", str(tmp_path / "journal"))
    assert ServerConfig.read({"journal": ""}).journal == str(tmp_path / "journal")
    monkeypatch.delenv("OPENENV_JOURNAL")
    assert ServerConfig.read({"journal": ""}).journal is None


def test_names_in_a_set_are_handed_on() -> None:
    text = environment_variables({"allowed_hosts": {"a.test", "b.test"}})["OPENENV_ALLOWED_HOSTS"]
    assert sorted(text.split(",")) == ["a.test", "b.test"]


def test_a_number_as_text_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Expected drain_s to be a number, got '5'"):
        create_app(CounterEnvironment, Add, Total, drain_s="5")  # type: ignore[arg-type]


def test_no_limit_by_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_HEADER_TIMEOUT_S", "none")
    assert ServerConfig.read().header_timeout_s is None
    monkeypatch.setenv("OPENENV_DRAIN_S", "none")
    with pytest.raises(ConfigurationError, match="Expected OPENENV_DRAIN_S to be a number, got 'none'"):
        ServerConfig.read()


def test_secrets_are_not_in_the_repr() -> None:
    described = repr(ServerConfig(token="sesame", journal="postgresql://me:hidden@host/episodes"))
    assert "sesame" not in described
    assert "hidden" not in described


def test_nothing_is_opened_before_the_server_starts(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    app = create_app(CounterEnvironment, Add, Total, journal=journal)
    assert not journal.exists()
    app.state.server.prepare()
    assert journal.exists()


def test_a_journal_that_can_t_be_used_is_said_when_the_server_starts(tmp_path: Path) -> None:
    place = tmp_path / "text"
    place.write_text("no journal at all, but a text that is long enough to be looked at")
    app = create_app(CounterEnvironment, Add, Total, journal=place)
    with pytest.raises(ConfigurationError, match=f"The journal {place} can't be"):
        app.state.server.prepare()


def test_a_server_in_this_process_keeps_to_its_longest_message() -> None:
    provider = InProcessProvider(lambda: create_app(CounterEnvironment, Add, Total, max_message_size_mb=1))
    address = provider.start().replace("http://", "ws://")
    try:
        with connect(f"{address}/ws", proxy=None) as socket:
            with suppress(ConnectionClosed):
                socket.send("x" * (5 * MEBIBYTE))
            with pytest.raises(ConnectionClosed):  # a message of up to four MiB is answered
                socket.recv()
    finally:
        provider.stop()


def test_secrets_are_the_token_and_the_passwords_of_databases() -> None:
    journal, traces = "postgresql://me:two%20words@127.0.0.1/journal", "postgresql:///traces?password=third"
    config = ServerConfig(journal=journal, traces=traces, token="a-token")
    assert config.secrets == ["a-token", "two%20words", "two words", "third"]
    assert ServerConfig(traces="traces.db").secrets == []
