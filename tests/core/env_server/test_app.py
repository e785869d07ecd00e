"""Building and running the application."""

import json
import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import ValidationError
from tests.support.environments.common import Add, CounterEnvironment, SingleSessionEnvironment, Total
from tests.support.servers import RunningServer, eventually

from openenv._extras import install_command
from openenv.core.env_server.app import (
    HTTPEnvServer,
    create_app,
    create_fastapi_app,
    create_web_interface_app,
    serve,
)
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import ConcurrencyConfig, ServerMode, State
from openenv.core.exceptions import ConcurrencyConfigurationError, ConfigurationError

BUILDERS = pytest.mark.parametrize("build", [create_app, create_fastapi_app, create_web_interface_app])


def sessions_of(app: FastAPI) -> HTTPEnvServer:
    server = app.state.server
    assert isinstance(server, HTTPEnvServer)
    return server


class RoomyEnvironment(CounterEnvironment):
    """States how many sessions a server of it has by default."""

    DEFAULT_MAX_SESSIONS = 8


def make_counter() -> Any:
    return CounterEnvironment()


class TestArguments:
    @BUILDERS
    @pytest.mark.parametrize(
        "env",
        [
            CounterEnvironment,
            partial(CounterEnvironment),
            make_counter,
            CounterEnvironment(),
            lambda: make_counter(),  # noqa: PLW0108  # a lambda is what is tried
        ],
        ids=["class", "partial", "function", "instance", "lambda"],
    )
    def test_every_kind_of_environment(self, build: Any, env: Any) -> None:
        with RunningServer(build(env, Add, Total)) as server, server.wire() as wire:
            wire.reset()
            assert wire.step(amount=1)["data"]["observation"]["total"] == 1

    @BUILDERS
    @pytest.mark.parametrize("env", [None, 3, "CounterEnvironment"])
    def test_what_is_no_environment(self, build: Any, env: Any) -> None:
        with pytest.raises(TypeError):
            build(env, Add, Total)

    @BUILDERS
    def test_dataclasses_as_in_0_1_say_what_to_change(self, build: Any) -> None:
        @dataclass
        class Move:
            amount: int

        @dataclass
        class Shown(Total):
            total: int

        for action, observation in ((Move, Total), (Add, Shown)):
            with pytest.raises(ConfigurationError, match="leave @dataclass out and derive it from Action"):
                build(CounterEnvironment, action, observation)

    @BUILDERS
    def test_one_session_by_default(self, build: Any) -> None:
        assert sessions_of(build(CounterEnvironment, Add, Total)).max_concurrent_envs == 1

    @pytest.mark.parametrize(
        ("variable", "keyword", "sessions"), [(None, None, 8), ("3", None, 3), ("3", 5, 5), (None, 5, 5)]
    )
    def test_the_keyword_wins_over_the_variable_and_the_variable_over_the_class(
        self, monkeypatch: pytest.MonkeyPatch, variable: str | None, keyword: int | None, sessions: int
    ) -> None:
        if variable is not None:
            monkeypatch.setenv("MAX_CONCURRENT_ENVS", variable)
        for env in (RoomyEnvironment, partial(RoomyEnvironment)):
            assert sessions_of(create_app(env, max_concurrent_envs=keyword)).max_concurrent_envs == sessions

    @pytest.mark.parametrize("env", [SingleSessionEnvironment, CounterEnvironment()], ids=["class", "instance"])
    def test_the_variable_gives_no_second_session_to_what_supports_one(
        self, env: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("MAX_CONCURRENT_ENVS", "1024")
        assert sessions_of(create_app(env, Add, Total)).max_concurrent_envs == 1
        assert "MAX_CONCURRENT_ENVS=1024 is not used" in caplog.text

    @pytest.mark.parametrize(("text", "said"), [("many", "a whole number, got 'many'"), ("0", "1 or above, got 0")])
    def test_the_variable_is_checked(self, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
        monkeypatch.setenv("MAX_CONCURRENT_ENVS", text)
        with pytest.raises(ConfigurationError, match=f"Expected MAX_CONCURRENT_ENVS to be {said}"):
            create_app(RoomyEnvironment)

    def test_the_order_of_positional_arguments(self) -> None:
        config = ConcurrencyConfig(max_concurrent_envs=3)
        for app in (
            create_app(CounterEnvironment, Add, Total, "name", None, config),
            create_fastapi_app(CounterEnvironment, Add, Total, None, config, "name", State),
            create_web_interface_app(CounterEnvironment, Add, Total, "name", 3),
        ):
            assert (sessions_of(app).env_name, sessions_of(app).max_concurrent_envs) == ("name", 3)

    @pytest.mark.parametrize(
        ("env", "name"),
        [(CounterEnvironment, "CounterEnvironment"), (make_counter, "make_counter")],
    )
    def test_the_name_by_default(self, env: Any, name: str) -> None:
        assert sessions_of(create_app(env, Add, Total)).env_name == name

    @BUILDERS
    def test_many_sessions_of_a_class_for_one(self, build: Any) -> None:
        with pytest.raises(ConcurrencyConfigurationError, match="SUPPORTS_CONCURRENT_SESSIONS = True"):
            build(SingleSessionEnvironment, Add, Total, max_concurrent_envs=2)

    @BUILDERS
    def test_two_words_on_one_matter(self, build: Any) -> None:
        with pytest.raises(ValueError, match="give one of them"):
            build(CounterEnvironment, Add, Total, max_concurrent_envs=2, concurrency_config=ConcurrencyConfig())

    @BUILDERS
    @pytest.mark.parametrize("count", [0, -1])
    def test_no_sessions_at_all(self, build: Any, count: int) -> None:
        with pytest.raises(ValidationError):
            build(CounterEnvironment, Add, Total, max_concurrent_envs=count)

    @pytest.mark.parametrize("limit", ["reset_timeout_s", "step_timeout_s", "max_message_size_mb"])
    @pytest.mark.parametrize("value", [0, -1, float("nan")])
    def test_a_limit_that_nothing_can_keep_to(self, limit: str, value: float) -> None:
        with pytest.raises(ValueError, match=limit):
            create_app(CounterEnvironment, Add, Total, **{limit: value})  # type: ignore[arg-type]


def test_routes_are_listed_one_by_one() -> None:
    """Programs for the public package look for them there."""
    paths = [getattr(route, "path", None) for route in create_app(CounterEnvironment, Add, Total).routes]
    assert {"/health", "/reset", "/step", "/state", "/ws", "/mcp", "/list_environments", "/metrics"} <= set(paths)
    assert None not in paths


class TestMode:
    def paths(self, app: FastAPI) -> set[str]:
        return set(app.openapi()["paths"])

    @pytest.mark.parametrize("mode", ["production", "PRODUCTION", ServerMode.PRODUCTION])
    def test_production(self, mode: Any) -> None:
        assert "/step" not in self.paths(create_app(CounterEnvironment, Add, Total, mode=mode))

    def test_the_environment_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_MODE", "Production")
        assert "/step" not in self.paths(create_app(CounterEnvironment, Add, Total))
        assert "/step" in self.paths(create_app(CounterEnvironment, Add, Total, mode="simulation"))
        monkeypatch.setenv("OPENENV_MODE", "wrong")
        with pytest.raises(ConfigurationError, match="'wrong'"):
            create_app(CounterEnvironment, Add, Total)

    def test_neither(self) -> None:
        with pytest.raises(ValueError, match="Expected the mode"):
            create_app(CounterEnvironment, Add, Total, mode="training")


class TestIsolation:
    """What is said about it when the server is built; ``isolation/`` tests what it does."""

    def build(self, **settings: Any) -> HTTPEnvServer:
        return HTTPEnvServer(CounterEnvironment, Add, Total, **settings)

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            (
                {"isolation": "thread"},
                r"Expected isolation \(OPENENV_ISOLATION\) to be 'none' or 'process', got 'thread'",
            ),
            ({"isolation": "process", "sessions_per_process": 0}, "sessions_per_process to be 1 or above, got 0"),
            ({"isolation": "process", "sessions_per_process": -1}, "sessions_per_process to be 1 or above, got -1"),
            ({"sessions_per_process": 2}, 'it needs isolation="process"'),
            ({"isolation": "none", "sessions_per_process": 2}, 'it needs isolation="process"'),
        ],
    )
    def test_settings_that_make_no_sense(self, settings: dict[str, Any], said: str) -> None:
        with pytest.raises(ConfigurationError, match=said):
            self.build(**settings)

    def test_the_environment_variables(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENENV_SESSIONS_PER_PROCESS", "many")
        self.build()  # says nothing of isolation
        monkeypatch.setenv("OPENENV_ISOLATION", "process")
        with pytest.raises(ConfigurationError, match=r"OPENENV_SESSIONS_PER_PROCESS to be a whole number, got 'many'"):
            self.build()
        self.build(sessions_per_process=2)
        self.build(isolation="none")
        monkeypatch.setenv("OPENENV_ISOLATION", "always")
        with pytest.raises(ConfigurationError, match=r"OPENENV_ISOLATION.* got 'always'"):
            self.build()

    def test_serve_makes_no_environment_to_learn_its_class(self) -> None:
        with pytest.raises(ConfigurationError, match=r"annotate it, as in `def make_fails\(\) -> MyEnvironment`"):
            serve(make_fails, isolation="process")


def make_fails():  # type: ignore[no-untyped-def]  # which is the point
    raise AssertionError("made in the server")


def test_an_application_is_described() -> None:
    app = create_app(CounterEnvironment, Add, Total)
    assert (app.title, app.version) == ("CounterEnvironment", "1.0.0")
    titled = create_app(CounterEnvironment, Add, Total, title_override="Adding")
    assert titled.title == "Adding"


def test_a_page_of_gradio_is_asked_for_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "gradio", None)
    monkeypatch.delenv("ENABLE_WEB_INTERFACE", raising=False)
    create_app(CounterEnvironment, Add, Total, gradio_builder=lambda *_: None)
    assert not caplog.records, "as in the public package, it is built where the web interface is on"
    app = create_web_interface_app(CounterEnvironment, Add, Total, gradio_builder=lambda *_: None)
    assert f"needs Gradio: {install_command('gradio')}. The page at /web/ is there" in caplog.text
    assert TestClient(app).get("/", follow_redirects=False).headers["location"] == "/web/"


def test_a_gradio_that_is_there_and_broken_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "gradio.py").write_text("import no_such_module_of_gradio\n")
    monkeypatch.syspath_prepend(tmp_path)
    create_web_interface_app(CounterEnvironment, Add, Total, gradio_builder=lambda *_: None)
    assert "needs Gradio, which can't be imported here: No module named 'no_such_module_of_gradio'." in caplog.text


class TestServer:
    def test_routes_on_an_application_of_one_s_own(self) -> None:
        app = FastAPI()
        server = HTTPEnvServer(CounterEnvironment, Add, Total, max_concurrent_envs=2)
        server.register_routes(app)
        app.state.server = server
        with RunningServer(app) as running, running.wire() as wire:
            wire.reset()
            assert wire.step(amount=1)["data"]["observation"]["total"] == 1
            status = server.get_capacity_status()
            assert (status.active_sessions, status.available_slots, status.is_at_capacity) == (1, 1, False)

    def test_routes_that_an_application_registers_as_it_starts(self) -> None:
        server = HTTPEnvServer(CounterEnvironment, Add, Total, max_message_size_mb=0.001)

        @asynccontextmanager
        async def lifespan(app: FastAPI) -> AsyncIterator[None]:
            app.post("/reset")(lambda: {"own": server._env_factory().reset().total})  # as calendar_env has it
            server.register_routes(app)
            yield

        with RunningServer(FastAPI(lifespan=lifespan)) as running, running.wire() as wire, running.http() as http:
            wire.reset()
            assert wire.step(amount=1)["data"]["observation"]["total"] == 1
            assert http.post("/reset").json() == {"own": 0}
            assert http.post("/step", content=b"x" * 2000).status_code == 413
            assert http.get("/schema", headers={"Host": "evil.example"}).status_code == 403

    def test_what_it_says_of_itself(self) -> None:
        server = HTTPEnvServer(CounterEnvironment, Add, Total, max_concurrent_envs=2)
        assert (server.active_sessions, server.max_concurrent_envs, server.is_concurrency_safe) == (0, 2, True)
        assert server.concurrency_config == ConcurrencyConfig(max_concurrent_envs=2)
        assert server.get_session_info("zzz") is None
        assert HTTPEnvServer(SingleSessionEnvironment, Add, Total).is_concurrency_safe is False

    def test_a_session_s_description(self) -> None:
        with RunningServer(create_app(CounterEnvironment, Add, Total)) as server, server.http() as http:
            name = http.post("/reset").headers["X-OpenEnv-Session"]
            http.post("/step", json={"action": {"amount": 1}})
            info = server.sessions.get_session_info(name)
            assert info is not None
            assert (info.session_id, info.step_count, info.environment_type) == (name, 1, "CounterEnvironment")

    def test_the_end_of_the_server_closes_every_environment(self) -> None:
        closed: list[int] = []

        class Closing(CounterEnvironment):
            def close(self) -> None:
                closed.append(1)

        with RunningServer(create_app(Closing, Add, Total, max_concurrent_envs=3)) as server:
            wires = [server.wire() for _ in range(2)]
            for wire in wires:
                wire.reset()
            with server.http() as http:
                http.post("/reset")
        assert len(closed) == 3


PROGRAM = """
from openenv.core.env_server import create_app, serve, server_main
from openenv.core.env_server.interfaces import Action, Environment, Observation, State

class Add(Action):
    amount: int

class Total(Observation):
    total: int

class Adder(Environment[Add, Total, State]):
    def reset(self):
        return Total(total=0)

    def step(self, action):
        return Total(total=action.amount)

    @property
    def state(self):
        return State()

{call}
"""


class TestServe:
    @pytest.mark.parametrize(
        ("call", "options"),
        [
            ("serve(environment_class=Adder)", ()),
            ("server_main(create_app(Adder), default_port={port})", ()),
            ("server_main(create_app(Adder))", ("--host", "127.0.0.1", "--port", "{port}")),
        ],
        ids=["serve", "main", "main-with-options"],
    )
    def test_a_program_of_one_line(self, call: str, options: tuple[str, ...]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        environment = {**os.environ, "PORT": str(port)}
        program = PROGRAM.format(call=call.format(port=port))
        arguments = [option.format(port=port) for option in options]
        process = subprocess.Popen([sys.executable, "-c", program, *arguments], env=environment)
        try:

            def answers() -> bool:
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/schema", timeout=1) as response:
                        return "amount" in json.load(response)["action"]["properties"]
                except OSError:
                    return False

            eventually(answers, "the server", timeout_s=60)
            process.terminate()
            assert process.wait(60) in (0, -15)
        finally:
            process.kill()
            process.wait()

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ("auth='always'", r"All clients need this token, which is not shown again: [\w-]{32}\n"),
            ("host='0.0.0.0'", r"Other machines need this token, which is not shown again: [\w-]{32}\n"),
        ],
    )
    def test_who_needs_the_token_is_told(self, options: str, told: str) -> None:
        environment = {**os.environ, "OPENENV_TOKEN": ""}
        command = [sys.executable, "-c", PROGRAM.format(call=f"serve(Adder, port=0, {options})")]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline().startswith("Serving Adder at ")
                assert re.fullmatch(told, process.stdout.readline())
            finally:
                process.kill()

    def test_a_class_that_does_not_say_its_types(self) -> None:
        class Untyped(Environment):
            def reset(self):  # type: ignore[no-untyped-def]
                ...

            def step(self, action):  # type: ignore[no-untyped-def]
                ...

            @property
            def state(self):  # type: ignore[no-untyped-def]
                ...

        with pytest.raises(ConfigurationError, match="Untyped does not say"):
            serve(Untyped, port=1)
