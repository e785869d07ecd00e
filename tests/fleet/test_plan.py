"""What the servers of a fleet are told."""

from pathlib import Path

import pytest
from tests.chaos.environments import ChainEnvironment

from openenv.core.exceptions import ConfigurationError
from openenv.core.providers.resources import Resources
from openenv.fleet.plan import ServerPlan, environment_of, name_of, server_variables

ROOT = Path(__file__).parents[2]


def plan(environment: object) -> ServerPlan:
    return ServerPlan(environment, "127.0.0.1", {}, Resources())


def test_settings_become_the_variables_that_a_server_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_STEP_TIMEOUT_S", "7")
    monkeypatch.setenv("OPENENV_DRAIN_S", "8")
    monkeypatch.setenv("MAX_CONCURRENT_ENVS", "3")
    monkeypatch.setenv("UNRELATED", "secret")
    variables = server_variables(
        {"drain_s": 2.5, "journal": Path("/tmp/j"), "debug": True, "allowed_hosts": ["a", "b"], "token": None}, 12
    )
    assert variables["OPENENV_DRAIN_S"] == "2.5"
    assert variables["OPENENV_STEP_TIMEOUT_S"] == "7"
    assert variables["OPENENV_JOURNAL"] == "/tmp/j"
    assert variables["OPENENV_DEBUG"] == "1"
    assert variables["OPENENV_ALLOWED_HOSTS"] == "a,b"
    assert variables["MAX_CONCURRENT_ENVS"] == "12"
    assert server_variables({}, None)["MAX_CONCURRENT_ENVS"] == "3"
    assert not {"UNRELATED", "OPENENV_TOKEN"} & variables.keys()


def test_no_limit_reaches_a_server_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server_variables({"max_message_size_mb": 1.5, "header_timeout_s": None}, None).items():
        monkeypatch.setenv(name, value)
    config = plan(ChainEnvironment).make_app().state.server.config
    assert (config.max_message_size_mb, config.header_timeout_s) == (1.5, None)


def test_secrets_are_not_in_the_repr() -> None:
    described = ServerPlan("echo", None, {"OPENENV_TOKEN": "sesame"}, Resources())
    assert "sesame" not in repr(described)


def test_a_folder_is_found_from_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    folder = str(ROOT / "envs" / "echo_env")
    assert environment_of("envs/echo_env") == folder
    assert environment_of(Path("envs/echo_env")) == folder
    assert environment_of("echo") == "echo"
    assert environment_of(ChainEnvironment) is ChainEnvironment


def test_an_instance_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="got an instance"):
        environment_of(ChainEnvironment())


def test_names() -> None:
    assert name_of(str(ROOT / "envs" / "echo_env")) == "echo_env"
    assert name_of("echo") == "echo"
    assert name_of(ChainEnvironment) == "ChainEnvironment"


def test_a_class_gets_as_many_sessions_as_the_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_CONCURRENT_ENVS", "17")
    assert plan(ChainEnvironment).make_app().state.server.max_concurrent_envs == 17
    monkeypatch.delenv("MAX_CONCURRENT_ENVS")
    assert plan(ChainEnvironment).make_app().state.server.max_concurrent_envs == 64
