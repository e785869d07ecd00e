"""Other worlds' environments by ``PREFIX:ID``."""

import subprocess
import sys

import pytest
from tests.adapters.gymnasium.test_environment import CLASSIC_CONTROL
from tests.support.servers import RunningServer

from openenv._extras import install_command
from openenv.adapters import ADAPTERS
from openenv.adapters.targets import find_adapted
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError


def test_it_is_served_under_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_CONCURRENT_ENVS", "3")
    with RunningServer(find_adapted(f"gymnasium:{CLASSIC_CONTROL[0]}").app()) as server:
        assert server.sessions.env_name == "gymnasium:CartPole-v1"
        assert server.sessions.max_concurrent_envs == 3
        with server.http() as http:
            assert http.get("/metadata").json()["name"] == "gymnasium:CartPole-v1"


def test_clients_are_told_no_module_and_no_parameter() -> None:
    found = find_adapted("gymnasium:gymnasium.envs:FrozenLake-v1?map_name=8x8")
    assert found.name == "gymnasium:FrozenLake-v1"
    with RunningServer(found.app()) as server, server.http() as http:
        assert http.get("/list_environments").json() == [found.name]
        assert http.get(f"/{found.name}/splits").status_code == 501


def test_an_unknown_prefix_lists_close_ones() -> None:
    with pytest.raises(
        EnvironmentNotFoundError, match=r"'gymnasum'\. Did you mean gymnasium\? There are: .*pettingzoo"
    ):
        find_adapted("gymnasum:CartPole-v1")


@pytest.mark.parametrize("prefix", ADAPTERS)
def test_a_missing_extra_says_how_to_install_it(prefix: str) -> None:
    adapter = ADAPTERS[prefix]
    program = (
        f"import sys; sys.modules[{adapter.package!r}] = None\n"
        "from openenv.adapters.targets import find_adapted\n"
        f"find_adapted('{prefix}:Some-v1')"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith(
        f"{ConfigurationError.__module__}.ConfigurationError: {prefix}:Some-v1 needs {adapter.package}"
    )
    assert last.endswith(install_command(adapter.extra))
