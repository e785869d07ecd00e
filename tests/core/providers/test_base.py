"""What the provider base classes promise to clients and to authors of providers."""

import socket
import subprocess
import sys
from typing import Any

import pytest
from tests.support.servers import RunningServer

from openenv.core.containers.runtime import ContainerProvider, RuntimeProvider
from openenv.core.exceptions import ConfigurationError, ProviderError, ServerNotReadyError
from openenv.core.providers.base import token_for
from openenv.core.wire.names import TOKEN_VARIABLE


class Recorder:
    """What a provider was told to do, and what it should do instead of succeeding."""

    def __init__(self, url: str = "http://127.0.0.1:9", dead: bool = False, log: str = "") -> None:
        self.url = url
        self.dead = dead
        self.log = log
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

    def logs(self, size: int = 4000) -> str:
        return self.recorder.log[-size:]


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

    def logs(self, size: int = 4000) -> str:
        return self.recorder.log[-size:]


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
    with pytest.raises(ConfigurationError, match=r"ImageNeeded\.start_container\(\) requires image.*from_docker_image"):
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


def nobody() -> str:
    """An address that refuses connections."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_a_server_that_is_not_ready_in_time_is_a_timeout_with_the_end_of_its_log() -> None:
    runtime, containers = Recorder(nobody(), log="still loading"), Recorder(nobody(), log="still loading")
    with pytest.raises(TimeoutError, match=r"not ready within 0\.05 s(?s:.*)still loading"):
        FakeRuntime(runtime).launch(0.05)
    with pytest.raises(ServerNotReadyError) as error:
        FakeContainers(containers).launch_image("mine:1", timeout_s=0.05)
    assert isinstance(error.value, ProviderError)
    assert error.value.logs == "still loading"
    assert runtime.calls == ["start", "stop"]
    assert containers.calls == ["start mine:1", "stop", "close"]


def test_what_a_provider_can_not_tell_is_not_made_up() -> None:
    with pytest.raises(ServerNotReadyError) as error:
        FakeRuntime(Recorder(nobody())).wait_for_ready(0.05)
    assert error.value.logs is None
    assert "log" not in str(error.value)
    assert RuntimeProvider.logs(FakeRuntime(Recorder())) == ""
    assert FakeRuntime(Recorder()).token is None


def test_an_image_is_launched_with_the_options_that_start_container_takes(counter_server: RunningServer) -> None:
    given: dict[str, Any] = {}

    class Noting(FakeContainers):
        def start_container(self, image: str = "made-with", port: int | None = None, **kwargs: Any) -> str:  # type: ignore[override]
            given.update(kwargs, image=image, port=port)
            return counter_server.url

    assert Noting(Recorder()).launch_image("mine:1", port=7, env_vars={"A": "b"}, replicas=2) == counter_server.url
    assert given == {"image": "mine:1", "port": 7, "env_vars": {"A": "b"}, "replicas": 2}


def test_a_token_is_new_unless_the_variables_have_one() -> None:
    assert token_for({TOKEN_VARIABLE: "mine"}) == "mine"
    made = {token_for({}), token_for({TOKEN_VARIABLE: ""})}
    assert len(made) == 2
    assert all(len(token) >= 32 for token in made)


LEFT_BEHIND = """
import os, sys
from openenv.core.containers.runtime import RuntimeProvider

class Loud(RuntimeProvider):
    def __init__(self, name): self.name = name
    def start(self, port=None, env_vars=None, **kwargs): self._stop_at_exit(); return "http://127.0.0.1:9"
    def stop(self):
        self._stopped()
        print("stopped", self.name, flush=True)
        if self.name == "broken": raise OSError("no engine any more")

kept, broken, stopped = Loud("kept"), Loud("broken"), Loud("stopped")
for one in (kept, broken, stopped): one.start()
stopped.stop()
Loud("dropped").start()
if os.fork() == 0: sys.exit()
os.wait()
print("the end", flush=True)
{ending}
"""


@pytest.mark.parametrize("ending", ["", "raise SystemExit(3)", "raise ValueError('oops')"])
def test_what_was_left_running_is_stopped_when_the_interpreter_ends(ending: str) -> None:
    program = LEFT_BEHIND.replace("{ending}", ending)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    # Not by the forked child, which has nothing of its own; and each of them, whatever another one meets.
    assert done.stdout.split("\n")[:2] == ["stopped stopped", "the end"]
    assert sorted(done.stdout.split("\n")[2:]) == ["", "stopped broken", "stopped dropped", "stopped kept"]
    assert "no engine any more" in done.stderr
