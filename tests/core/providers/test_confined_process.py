"""A confined server is reached, and reaches little itself."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.environment_folders import write_files
from tests.support.servers import Wire

from openenv.core.providers.confined_process import ConfinedProcessProvider

pytestmark = [pytest.mark.needs("sandbox"), pytest.mark.level("process")]

_FILES = {
    "openenv.yaml": """
        name: probe_env
        environment: environment:ProbeEnvironment
        """,
    "__init__.py": "",
    "environment.py": """
        import os, socket
        from pathlib import Path
        from typing import Any

        from openenv import Action, Environment, Observation, State

        class Look(Action):
            path: str = "/"

        class Seen(Observation):
            seen: dict[str, Any] = {}

        def attempt(function, *arguments):
            try:
                return str(function(*arguments))
            except OSError as error:
                return type(error).__name__

        class ProbeEnvironment(Environment[Look, Seen, State]):
            def reset(self) -> Seen:
                return Seen()

            def step(self, action: Look) -> Seen:
                own = Path(__file__).parent / "written"
                return Seen(seen={
                    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
                    "home": attempt(os.listdir, Path.home()),
                    "services": attempt(os.listdir, "/run"),
                    "own_folder": attempt(own.write_text, "x"),
                    "temporary": attempt(Path("/tmp/x").write_text, "x"),
                    "too_large": attempt(Path("/tmp/y").write_bytes, bytes(40 * 2**20)),
                    "network": attempt(socket.create_connection, ("192.0.2.1", 9), 5),
                    "secret": os.environ.get("SOME_SECRET_KEY"),
                    "given": os.environ.get("GIVEN"),
                }, reward=0.0)

            @property
            def state(self) -> State:
                return State()
        """,
}


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What an environment sees in a confined server without a network."""
    monkeypatch.setenv("SOME_SECRET_KEY", "correct-horse")
    folder = write_files(tmp_path / "probe_env", _FILES)
    provider = ConfinedProcessProvider(folder, disk_bytes=16 * 2**20, env_vars={"GIVEN": "yes"}, grace_s=0)
    with provider:
        provider.wait_for_ready()
        assert provider.inner_pid is not None
        with Wire(provider.base_url.replace("http", "ws") + "/ws") as wire:
            wire.reset()
            answer = wire.step(path="/")
            yield answer["data"]["observation"]["seen"]
    assert provider.inner_pid is None


def test_confined_server_sees_little(seen: dict[str, Any]) -> None:
    assert seen["processes"] < 10
    assert seen["services"] == "[]"
    assert seen["own_folder"] == "OSError"
    assert seen["temporary"] == "1"
    assert seen["too_large"] == "OSError"
    assert seen["network"] == "OSError"
    assert (seen["secret"], seen["given"]) == (None, "yes"), json.dumps(seen)
