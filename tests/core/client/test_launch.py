"""Clients that have their servers started: by every way to use a handle, with real servers behind the providers."""

import asyncio
import copy
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.servers import RunningServer, eventually

from echo_env import EchoAction, EchoEnv, EchoObservation
from echo_env.server.echo_environment import EchoEnvironment
from openenv import GenericEnvClient, SyncEnvClient
from openenv.core import MCPToolClient
from openenv.core.containers.runtime import ContainerProvider, RuntimeProvider, UVProvider
from openenv.core.env_server.app import create_fastapi_app
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    HandleUsedError,
    ProviderError,
    ServerNotReadyError,
    ServerUnauthorizedError,
)

IMAGE = "echo-env:latest"


class Containers(ContainerProvider):
    """Starts what a container would hold in this process, and notes what it was told."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.told: list[Any] = []
        self.server: RunningServer | None = None

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        self.told.append((image, port, env_vars, kwargs))
        if self.failure is not None:
            raise self.failure
        app = create_fastapi_app(EchoEnvironment, EchoAction, EchoObservation, max_concurrent_envs=8)
        self.server = RunningServer(app).start()
        return self.server.url

    def stop_container(self) -> None:
        self.told.append("stop")
        if self.server is not None:
            self.server.stop()


class Runtime(RuntimeProvider):
    """The same for a provider that knows what it runs."""

    def __init__(self) -> None:
        self.containers = Containers()
        self.told: list[Any] = []

    @property
    def base_url(self) -> str:
        assert self.containers.server is not None
        return self.containers.server.url

    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        self.told.append((port, env_vars, kwargs))
        return self.containers.start_container("")

    def stop(self) -> None:
        self.containers.stop_container()


@pytest.fixture
def containers() -> Iterator[Containers]:
    """A provider whose container is gone at the end of the test, by what the test does."""
    provider = Containers()
    yield provider
    assert provider.told[-1] == "stop"
    assert provider.told.count("stop") == 1


def echoes(env: Any) -> None:
    """Play a blocking client."""
    assert env.reset().observation.echoed_message == "Echo environment ready!"
    assert env.step(EchoAction(message="Hello, World!")).reward == 1.3


async def echoes_async(env: Any) -> None:
    """The same inside an event loop."""
    assert (await env.reset()).observation.echoed_message == "Echo environment ready!"
    assert (await env.step(EchoAction(message="Hello, World!"))).reward == 1.3


def test_a_handle_is_used_as_the_client_where_no_loop_runs(containers: Containers) -> None:
    client = EchoEnv.from_docker_image(IMAGE, provider=containers)
    assert containers.told == []
    echoes(client)
    assert client.state().step_count == 1
    assert containers.told == [(IMAGE, None, None, {})]
    client.close()


def test_the_facade_is_connected(containers: Containers) -> None:
    with EchoEnv.from_docker_image(IMAGE, containers).sync() as env:
        assert isinstance(env, SyncEnvClient)
        assert containers.server is not None
        containers.server.wait_for_sessions(1)
        echoes(env)


def test_a_handle_is_entered(containers: Containers) -> None:
    with EchoEnv.from_docker_image(IMAGE, containers) as env:
        assert isinstance(env, EchoEnv)
        echoes(env)


# The loop that the client was connected in ends before the client does.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_it_runs_as_a_coroutine(containers: Containers) -> None:
    client: Any = asyncio.run(EchoEnv.from_docker_image(IMAGE, containers))
    assert type(client).__name__ == "EchoEnv"
    echoes(client)
    client.close()
    del client
    gc.collect()


async def test_it_is_awaited(containers: Containers) -> None:
    client = await EchoEnv.from_docker_image(IMAGE, containers)
    assert containers.server is not None
    assert containers.server.sessions.active_sessions == 1
    await echoes_async(client)
    await client.close()


async def test_it_is_a_task(containers: Containers) -> None:
    handle = EchoEnv.from_docker_image(IMAGE, containers)
    task = asyncio.create_task(handle, name="start")
    assert "start" in repr(task)
    async with await task as client:
        await echoes_async(client)


async def test_it_is_entered_inside_a_loop(containers: Containers) -> None:
    async with EchoEnv.from_docker_image(IMAGE, containers) as env:
        await echoes_async(env)


async def test_it_is_used_as_the_client_inside_a_loop(containers: Containers) -> None:
    handle = EchoEnv.from_docker_image(IMAGE, containers)
    with pytest.raises(HandleUsedError, match="await the handle before you read base_url"):
        _ = handle.base_url
    # The first of those that come together starts the server; all wait for it.
    results = await asyncio.gather(handle.reset(), handle.reset(), handle.vector(2))
    assert results[0].observation.echoed_message == "Echo environment ready!"
    assert handle.base_url is not None
    await echoes_async(handle)
    await handle.close()


async def test_the_facade_works_in_a_notebook_s_loop(containers: Containers) -> None:
    with EchoEnv.from_docker_image(IMAGE, containers).sync() as env:
        echoes(env)


@pytest.mark.parametrize(
    ("given", "ending"), [({}, ":latest"), ({"tag": "v2"}, ":v2"), ({"tag": "sha256:0"}, "@sha256:0")]
)
@pytest.mark.parametrize("way", [EchoEnv.from_hub, EchoEnv.from_env])
def test_a_space_s_image_is_started(containers: Containers, way: Any, given: dict[str, str], ending: str) -> None:
    client = way("openenv/Echo_Env", provider=containers, **given)
    echoes(client)
    client.close()
    assert containers.told[0][0] == f"registry.hf.space/openenv-echo-env{ending}"


def test_options_go_where_they_are_known(containers: Containers) -> None:
    options: dict[str, Any] = {"port": 8, "env_vars": {"A": "b"}, "workers": 2, "message_timeout_s": 7, "token": "mine"}
    with EchoEnv.from_docker_image(IMAGE, containers, **options) as env:
        assert env.message_timeout_s == 7
    assert containers.told[0] == (IMAGE, 8, {"A": "b"}, {"workers": 2})


class ForwardingEnv(EchoEnv):
    """Hands its options on, as many a public client does."""

    def __init__(self, *args: Any, loud: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loud = loud


def test_a_client_that_hands_its_options_on_gets_them(containers: Containers) -> None:
    options: dict[str, Any] = {"message_timeout_s": 7, "loud": True, "workers": 2}
    with ForwardingEnv.from_docker_image(IMAGE, containers, **options) as env:
        assert (env.message_timeout_s, env.loud) == (7, True)
    assert containers.told[0] == (IMAGE, None, None, {"workers": 2})


def test_a_provider_that_knows_its_project_is_started() -> None:
    provider = Runtime()
    with EchoEnv.from_env("openenv/echo-env", use_docker=False, provider=provider, port=8, workers=2) as env:
        echoes(env)
    assert provider.told == [(8, None, {"workers": 2})]
    with EchoEnv.from_hub("openenv/echo-env", provider) as env:  # which says enough
        echoes(env)
    assert provider.containers.told.count("stop") == 2


def test_without_docker_the_space_s_repository_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[UVProvider] = []

    def launch(provider: UVProvider, timeout_s: float | None = None, **options: Any) -> str:
        made.append(provider)
        raise ProviderError(f"{provider.project_path} {provider.app} {timeout_s} {options}")

    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    monkeypatch.setattr(UVProvider, "launch", launch)
    with pytest.raises(ProviderError, match=r"^git\+https://huggingface\.co/spaces/openenv/echo-env None None {}$"):
        EchoEnv.from_env("openenv/echo-env", use_docker=False).sync()
    handle = EchoEnv.from_hub(
        "openenv/echo-env", use_docker=False, project_path="./mine", app="a:b", workers=2, wait_timeout=9
    )
    assert "EchoEnv from ./mine: not started" in repr(handle)
    with pytest.raises(ProviderError, match=r"^\./mine a:b 9 {'workers': 2}$"):
        handle.resolve()
    private = EchoEnv.from_env("openenv/echo-env", use_docker=False, project_path="git+https://me:s3cret@hub.test/mine")
    assert "from git+https://hub.test/mine: not started" in repr(private)


def test_other_clients_have_it_too(containers: Containers) -> None:
    with GenericEnvClient.from_docker_image(IMAGE, containers).sync() as env:
        env.reset()
        assert env.step({"message": "hi"}).observation["message_length"] == 2
    further = Containers()
    tools = MCPToolClient.from_docker_image(IMAGE, further)
    tools.reset()
    assert tools.list_tools()
    tools.close()
    assert further.told[-1] == "stop"


class Lax(Containers):
    """Its server never gets ready."""

    def check_alive(self) -> None:
        if self.server is not None:
            self.server.stop()

    def logs(self, size: int = 4000) -> str:
        return "still loading"


USES: dict[str, Any] = {
    "attribute": lambda handle: handle.reset(),
    "sync": lambda handle: handle.sync(),
    "with": lambda handle: handle.__enter__(),
    "run": asyncio.run,
}


@pytest.mark.parametrize("use", list(USES.values()), ids=list(USES))
def test_a_start_that_fails_leaves_nothing_running(use: Any) -> None:
    broken = Containers(ProviderError("no such image"))
    with pytest.raises(ProviderError, match="no such image"):
        use(EchoEnv.from_docker_image(IMAGE, broken))
    lax = Lax()
    with pytest.raises(ServerNotReadyError, match=r"within 0\.1 s(?s:.*)still loading"):
        use(EchoEnv.from_docker_image(IMAGE, lax, wait_timeout=0.1))
    assert broken.told[-1] == lax.told[-1] == "stop"


class Gone(Containers):
    """Its server ends as soon as it was ready."""

    def wait_for_ready(self, base_url: str, timeout_s: float = 30) -> None:
        super().wait_for_ready(base_url, timeout_s)
        assert self.server is not None
        self.server.stop()


@pytest.mark.parametrize("use", list(USES.values()), ids=list(USES))
def test_a_connection_that_fails_leaves_nothing_running(use: Any) -> None:
    gone = Gone()
    with pytest.raises(ConnectionFailedError):
        use(EchoEnv.from_docker_image(IMAGE, gone))
    assert gone.told[-1] == "stop"


def test_a_client_that_can_not_be_made_leaves_nothing_running(containers: Containers) -> None:
    with pytest.raises(ConfigurationError, match="visible ASCII"):
        EchoEnv.from_docker_image(IMAGE, containers, token="no token").resolve()


def test_a_handle_is_resolved_once(containers: Containers) -> None:
    handle = EchoEnv.from_docker_image(IMAGE, containers)

    async def run_and_close() -> None:
        await (await asyncio.create_task(handle)).close()

    asyncio.run(run_and_close())
    for use in USES.values():
        with pytest.raises(RuntimeError, match="has given its client, or failed to, already"):
            use(handle)


async def test_a_handle_is_awaited_once(containers: Containers) -> None:
    handle = EchoEnv.from_docker_image(IMAGE, containers)
    client = await handle
    with pytest.raises(HandleUsedError):
        await handle
    with pytest.raises(HandleUsedError):
        await handle.reset()
    await client.close()


def test_a_handle_that_is_closed_starts_nothing() -> None:
    containers = Containers()
    handle = EchoEnv.from_docker_image(IMAGE, containers)
    handle.close()
    with pytest.raises(HandleUsedError):
        handle.reset()
    asyncio.run(_closed_in_a_loop(containers))
    EchoEnv.from_docker_image(IMAGE, containers)
    gc.collect()  # one that was never used is no coroutine that was never awaited
    assert containers.told == []


async def _closed_in_a_loop(containers: Containers) -> None:
    handle = EchoEnv.from_docker_image(IMAGE, containers)
    await handle.close()
    started = asyncio.ensure_future(EchoEnv.from_docker_image(IMAGE, containers))
    started.cancel()
    with pytest.raises(asyncio.CancelledError):
        await started


@pytest.mark.parametrize("name", ["no_such_thing", "_client_session", "cr_frame", "__len__"])
def test_what_clients_do_not_have_starts_nothing(name: str) -> None:
    containers = Containers()
    handle = EchoEnv.from_docker_image(IMAGE, containers)
    with pytest.raises(AttributeError, match=name):
        getattr(handle, name)
    assert isinstance(repr(copy.copy(handle)), str)
    assert containers.told == []


def test_a_wrong_kind_of_provider_is_refused_at_once() -> None:
    wrong: Any = Runtime()
    with pytest.raises(ConfigurationError, match="Expected a ContainerProvider to start the image"):
        EchoEnv.from_docker_image(IMAGE, wrong)
    with pytest.raises(ConfigurationError, match="expected a RuntimeProvider"):
        EchoEnv.from_env("openenv/echo-env", use_docker=False, provider=Containers())
    with pytest.raises(ConfigurationError, match="made with what project_path says"):
        EchoEnv.from_env("openenv/echo-env", use_docker=False, provider=Runtime(), project_path=".")
    with pytest.raises(ConfigurationError, match="Expected a Space as OWNER/NAME"):
        EchoEnv.from_hub("echo-env")


class Held(Containers):
    """Its container takes until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.starting = threading.Event()
        self.go_on = threading.Event()

    def start_container(self, *arguments: Any, **options: Any) -> str:
        self.starting.set()
        assert self.go_on.wait(60)
        return super().start_container(*arguments, **options)


async def test_a_start_that_nobody_waits_for_any_more_is_undone() -> None:
    held = Held()
    waiting = asyncio.create_task(EchoEnv.from_docker_image(IMAGE, held))
    await asyncio.to_thread(held.starting.wait)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert held.told == []
    held.go_on.set()
    await asyncio.to_thread(eventually, lambda: held.told[-1:] == ["stop"], "the container is removed")


class Guarded(Containers):
    """Its server asks everybody for the token that it made."""

    token = "s3cret"

    def start_container(self, image: str = IMAGE, *arguments: Any, **options: Any) -> str:
        app = create_fastapi_app(EchoEnvironment, EchoAction, EchoObservation, max_concurrent_envs=8, token=self.token)
        self.server = RunningServer(app).start()
        self.told.append(image)
        return self.server.url


def test_the_provider_s_token_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENV_TOKEN", "of-another-server")
    for client in (EchoEnv.from_docker_image(IMAGE, Guarded()).resolve(), EchoEnv(provider=Guarded())):
        with client.sync() as env:
            echoes(env)
            echoes(env.new_session())
            assert env.schemas()["action"]["title"] == "EchoAction"
            assert len(env.vector(2).reset()) == 2


def test_an_authorization_of_the_caller_s_is_a_proxy_s_and_the_provider_s_token_goes_beside_it() -> None:
    with EchoEnv(provider=Guarded(), headers={"Authorization": "Bearer of-a-proxy"}).sync() as env:
        echoes(env)


@pytest.mark.parametrize("given", [{"token": "other"}, {"headers": {"Authorization": "Bearer a", "X-API-Key": "b"}}])
def test_what_the_caller_gave_goes_before_the_provider_s_token(given: dict[str, Any]) -> None:
    for start in (lambda: EchoEnv.from_docker_image(IMAGE, Guarded(), **given).sync(), lambda: _connected(given)):
        with pytest.raises(ServerUnauthorizedError):
            start()


def _connected(given: dict[str, Any]) -> None:
    client = EchoEnv(provider=Guarded(), **given)
    try:
        client.sync().connect()
    finally:
        client.sync().close()
