"""What the provider base classes promise to clients and to authors of providers."""

from typing import Any

import pytest
from tests.servers import RunningServer

from openenv.core.containers.runtime import ContainerProvider, RuntimeProvider
from openenv.core.exceptions import ConfigurationError, ProviderError


class Recorder:
    """What a provider was told to do, and what it should do instead of succeeding."""

    def __init__(self, url: str = "http://127.0.0.1:9", dead: bool = False) -> None:
        self.url = url
        self.dead = dead
        self.calls: list[str] = []

    def check(self) -> None:
        if self.dead:
            raise ProviderError("it died")


class FakeRuntime(RuntimeProvider):
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    @property
    def base_url(self) -> str:
        return self.recorder.url

    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        self.recorder.calls.append("start")
        return self.recorder.url

    def stop(self) -> None:
        self.recorder.calls.append("stop")

    def check_alive(self) -> None:
        self.recorder.check()


class FakeContainers(ContainerProvider):
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def start_container(
        self, image: str = "made-with", port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        self.recorder.calls.append(f"start {image}")
        return self.recorder.url

    def stop_container(self) -> None:
        self.recorder.calls.append("stop")

    def close(self) -> None:
        self.recorder.calls.append("close")

    def check_alive(self) -> None:
        self.recorder.check()


class ImageNeeded(FakeContainers):
    def start_container(  # type: ignore[override]
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        return super().start_container(image)


def test_a_runtime_starts_on_enter_and_stops_on_exit() -> None:
    recorder = Recorder()
    with FakeRuntime(recorder):
        assert recorder.calls == ["start"]
    assert recorder.calls == ["start", "stop"]


def test_a_container_provider_only_closes_on_exit() -> None:
    recorder = Recorder()
    with FakeContainers(recorder):
        assert recorder.calls == []
    assert recorder.calls == ["close"]


def test_launch_waits_for_a_real_server(counter_server: RunningServer) -> None:
    recorder = Recorder(counter_server.url)
    assert FakeRuntime(recorder).launch() == counter_server.url
    assert FakeContainers(recorder).launch() == counter_server.url
    assert recorder.calls == ["start", "start made-with"]


def test_a_failed_launch_leaves_nothing_running() -> None:
    runtime, containers = Recorder(dead=True), Recorder(dead=True)
    with pytest.raises(ProviderError, match="it died"):
        FakeRuntime(runtime).launch()
    with pytest.raises(ProviderError, match="it died"):
        FakeContainers(containers).launch()
    assert runtime.calls == ["start", "stop"]
    assert containers.calls == ["start made-with", "stop", "close"]


def test_launch_says_what_a_container_provider_needs() -> None:
    recorder = Recorder()
    with pytest.raises(ConfigurationError, match=r"ImageNeeded\.start_container needs image.*from_docker_image"):
        ImageNeeded(recorder).launch()
    assert recorder.calls == []


def test_shut_down_stops_and_releases() -> None:
    runtime, containers = Recorder(), Recorder()
    FakeRuntime(runtime).shut_down()
    FakeContainers(containers).shut_down()
    assert runtime.calls == ["stop"]
    assert containers.calls == ["stop", "close"]


def test_a_public_style_runtime_needs_no_base_url() -> None:
    class Public(RuntimeProvider):
        def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
            return "http://127.0.0.1:9"

        def stop(self) -> None:
            pass

        def wait_for_ready(self, timeout_s: float = 30.0) -> None:
            pass

    assert Public().launch() == "http://127.0.0.1:9"
    with pytest.raises(ProviderError, match="Public overrides neither base_url nor wait_for_ready"):
        assert Public().base_url


def test_the_base_classes_are_abstract() -> None:
    bases: tuple[Any, ...] = (ContainerProvider, RuntimeProvider)
    for base in bases:
        with pytest.raises(TypeError, match="abstract"):
            base()
