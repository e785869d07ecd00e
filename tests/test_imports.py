"""What importing a part of OpenEnv loads, seen in interpreters that have loaded nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.import_graph import import_graph
from tests.support.modules import MODULES

from openenv import GenericEnvClient
from openenv._extras import install_command
from openenv.core.providers import LocalProcessProvider

SERVER = {"fastapi", "mcp", "prometheus_client", "starlette", "uvicorn"}
COMMAND_LINE = {"rich", "typer"}
EXTRAS = {
    "datasets",
    "docker",
    "fastmcp",
    "gymnasium",
    "huggingface_hub",
    "inspect_ai",
    "kubernetes",
    "matplotlib",
    "numpy",
    "openai",
    "openreward",
    "peft",
    "pettingzoo",
    "PIL",
    "psycopg",
    "ray",
    "scipy",
    "torch",
    "transformers",
    "trl",
}
WIRE = {"pydantic", "websockets"}


def loaded_by(statement: str) -> set[str]:
    """Return the top-level packages that a fresh interpreter has loaded after a statement."""
    program = (
        f"{statement}\nimport json, sys\nprint(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    return set(json.loads(finished.stdout))


def test_the_package_itself_loads_nothing() -> None:
    assert not loaded_by("import openenv, openenv.core, openenv.core.env_server") & (
        SERVER | COMMAND_LINE | EXTRAS | WIRE
    )


# One process for all statements of a test: what none of them loads, all of them together do not.
CLIENTS_AND_TYPES = """
from openenv import EnvClient, GenericEnvClient, SyncEnvClient, TypedEnvClient, client_for
from openenv import Action, Environment, Observation, State, ToolResult, tool
from openenv.core import MCPClientBase, MCPToolClient
from openenv.core.client_tools import ToolClient
from openenv.core.env_server.mcp_types import CallToolAction, Tool
from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.providers.local_process import LocalProcessProvider
from openenv.core.exceptions import OpenEnvError
"""
SERVERS_DISCOVERY_AND_COMMANDS = """
from openenv.core.env_server import create_app, serve
from openenv import find_environment, list_environments, make
import openenv.cli.__main__
import openenv.adapters
"""


def test_clients_and_types_load_no_server() -> None:
    assert not loaded_by(CLIENTS_AND_TYPES) & (SERVER | COMMAND_LINE | EXTRAS)


def test_the_command_for_traces_loads_no_server() -> None:
    assert not loaded_by("import openenv.traces.reading, openenv.cli.commands.traces") & (SERVER | EXTRAS)


def test_types_load_no_socket_library() -> None:
    assert "websockets" not in loaded_by("from openenv import Action, Environment, Observation, State")


def test_servers_discovery_and_commands_load_no_extra() -> None:
    assert not loaded_by(SERVERS_DISCOVERY_AND_COMMANDS) & EXTRAS


# An environment that says what its server has loaded.
LOADED = """
import sys
from openenv import Action, Environment, Observation, State

class Loaded(Observation):
    modules: list[str]

class LoadedEnvironment(Environment[Action, Loaded, State]):
    def reset(self, seed=None, episode_id=None):
        return Loaded(modules=sorted(sys.modules))

    def step(self, action):
        return self.reset()

    @property
    def state(self):
        return State()
"""
# What a server of one environment can do without; each is imported when it is first used.
UNUSED_BY_SERVERS = (
    "mcp",
    "openenv.auto.making",
    "openenv.core.client",
    "openenv.core.env_server.history.stores.postgres",
    "openenv.core.env_server.operations.exposition",
    "openenv.core.env_server.web.interface",
    "openenv.core.providers.local_process",
    "openenv.core.providers.venv.environment",
    "openenv.discovery",
    "openenv.doctor",
    "openenv.fleet.fleet",
    "openenv.train",
    "openenv.validation",
    "packaging",
    "prometheus_client",
    "websockets.asyncio",
    "websockets.sync",
)


def test_a_server_that_answers_has_loaded_no_client_nor_what_else_it_does_not_use(tmp_path: Path) -> None:
    file = tmp_path / "loaded.py"
    file.write_text(LOADED)
    with GenericEnvClient(provider=LocalProcessProvider(str(file))).sync() as client:
        client.reset()
        loaded: list[str] = client.step({}).observation["modules"]

    assert {"fastapi", "openenv.core.env_server.app", "uvicorn"} <= set(loaded)
    unused = tuple(f"{module}." for module in UNUSED_BY_SERVERS)
    assert [module for module in loaded if f"{module}.".startswith(unused)] == []


_IMPORT_ALL = """
import importlib, json, sys, traceback
failed = {}
for name in json.loads(sys.argv[1]):
    try:
        importlib.import_module(name)
    except BaseException:
        failed[name] = traceback.format_exc()[-4000:]
print(json.dumps(failed))
"""


def import_all(modules: list[str], before: str = "") -> dict[str, str]:
    """Import the modules one after another in one process; return the traceback of each that fails."""
    finished = subprocess.run(
        [sys.executable, "-c", before + _IMPORT_ALL, json.dumps(modules)], capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
    failed: dict[str, str] = json.loads(finished.stdout)
    return failed


def test_every_module_can_be_the_first_one_imported() -> None:
    # Whether a module can be imported depends on what was imported before only if its import comes back to itself; that
    # each can be imported at all is seen by tests/test_doctests.py.
    assert len(MODULES) > 20
    assert import_graph().circle(MODULES) == []


@pytest.mark.parametrize(
    ("extra", "package", "name"),
    [
        ("gymnasium", "gymnasium", "Gymnasium"),
        ("ors", "openreward", "the OpenReward SDK"),
        ("pettingzoo", "pettingzoo", "PettingZoo"),
    ],
)
def test_what_an_extra_is_for_says_which_one_it_needs(extra: str, package: str, name: str) -> None:
    hidden = f"import sys\nsys.modules[{package!r}] = None\n"
    failed = import_all([f"openenv.adapters.{extra}"], before=hidden)
    said = f"ImportError: This needs {name}: {install_command(extra)}"
    assert failed[f"openenv.adapters.{extra}"].strip().endswith(said)


@pytest.mark.timeout(900)
def test_all_but_what_an_extra_is_for_works_without_the_extras() -> None:
    # FastAPI brings the interface of OpenTelemetry; what the extra brings is its SDK.
    hidden = f"import sys\nsys.modules.update(dict.fromkeys({sorted(EXTRAS | {'opentelemetry.sdk'})!r}))\n"
    needing = (
        "openenv.train.",
        "openenv.adapters.",
        "openenv.cli.commands.fork",
        "openenv.cli.commands.pull",
        "openenv.core.providers.docker.",
        "openenv.core.providers.swarm.",
        "openenv.core.providers.kubernetes.",
        "openenv.core.providers.swarm.",
        "openenv.core.env_server.history.stores.postgres",
        "openenv.core.env_server.mcp_environment",
        "openenv.core.env_server.operations.tracing",
        "openenv.core.env_server.postgres_address",
        "openenv.core.env_server.traces.postgres",
        "openenv.core.tools.local_python_executor",
        "openenv.fleet.",
        "openenv.hub.",
        "openenv.validation.providers.docker",
        "openenv.validation.statistical.training",
    )
    modules = [name for name in MODULES if not name.startswith(needing)]

    assert import_all(modules, before=hidden) == {}
    # What is hidden is hidden: the check above would otherwise say nothing.
    assert import_all(["torch"], before=hidden).keys() == {"torch"}
