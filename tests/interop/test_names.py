"""Every name that programs import from the public package is there under the same path."""

import importlib
import json
import subprocess
from importlib.util import find_spec

from benchmarks.public_package import ROOT
from tests.interop.conftest import PROGRAMS, Interpreters

CORE = (
    "client_types env_client evals evals.base evals.inspect_harness evals.types generic_client llm_client mcp_client "
    "rubrics rubrics.base rubrics.containers rubrics.llm_judge rubrics.trajectory sync_client tools "
    "tools.git_server_client utils"
)
SERVER = (
    "base_transforms exceptions http_server interfaces mcp_environment mcp_types route_config serialization types "
    "web_interface"
)
PROVIDERS = "daytona hf_sandbox modal novita uv"
MODULES = [
    *("openenv.auto.auto_action", "openenv.auto.auto_env", "openenv.discovery.search"),
    *("openenv", "openenv.auto", "openenv.core", "openenv.core.env_server", "openenv.discovery"),
    *("openenv.core.containers.runtime", "openenv.core.containers.runtime.providers"),
    *(f"openenv.core.containers.runtime.{name}_provider" for name in PROVIDERS.split()),
    *(f"openenv.core.{name}" for name in CORE.split()),
    *(f"openenv.core.env_server.{name}" for name in SERVER.split()),
]


def is_here(module: str, name: str) -> bool:
    """Whether ``from module import name`` finds it: a name of the module, or a module in it."""
    try:
        return hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}") is not None
    except ImportError:
        return False


def test_what_programs_import_is_here(interpreters: Interpreters) -> None:
    promised = listed(interpreters)
    assert (len(MODULES), sum(map(len, promised.values()))) == (43, 311)
    assert absent(promised) == {}


def test_what_programs_import_through_another_module_is_here(interpreters: Interpreters) -> None:
    held = listed(interpreters, "--held")
    assert "StepResult" in held["openenv.core.env_client"]
    assert sum(map(len, held.values())) > 200
    assert absent(held) == {}


def listed(interpreters: Interpreters, *options: str) -> dict[str, list[str]]:
    command = [str(interpreters["public"]), "-m", f"{PROGRAMS}.names", *options, *MODULES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    names: dict[str, list[str]] = json.loads(done.stdout)
    return names


def absent(public: dict[str, list[str]]) -> dict[str, list[str]]:
    missing = {module: [name for name in names if not is_here(module, name)] for module, names in public.items()}
    return {module: names for module, names in missing.items() if names}
