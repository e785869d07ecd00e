"""Every name that a package promises is there, under every path that programs import it from."""

import importlib
import importlib.metadata
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.support.modules import MODULES

import openenv

ROOT = Path(__file__).resolve().parents[1]

HARNESS = (
    "CLIHarnessAdapter HarnessAdapter HarnessRolloutResult HarnessRunLimits LoopOwningSession MCPHarnessAdapter "
    "Message ModelStep ModelStepResult RESERVED_TOOL_NAMES ResourceSession ResourceSessionFactory RolloutEvent "
    "SessionMCPBridge StepEnvSessionAdapter ToolResult ToolTraceEntry TraceEntry TrainableSession TrainingTrace "
    "TrainingTurn VerifyResult build_harness_rollout_func"
)

# Programs written for OpenEnv import these names from these modules.
PROMISED = {
    "openenv": "Action Environment EnvClient GenericAction GenericEnvClient Observation State SyncEnvClient "
    "ToolResult client_for create_app make rng serve tool",
    "openenv.core": "Action EnvClient Environment GenericAction GenericEnvClient MCPClientBase MCPToolClient "
    "Observation State SyncEnvClient",
    "openenv.auto.auto_action": "AutoAction",
    "openenv.core.harness": HARNESS,
    "openenv.core.harness.rollout": HARNESS,
    "openenv.core.harness.capture.upstream": "NON_POLICY_SAMPLING training_sampling",
    "openenv.core.harness.training": "TrainingTrace TrainingTurn",
    "openenv.core.client_types": "StepResult",
    "openenv.core.env_client": "ActT EnvClient ObsT StateT StepResult",
    "openenv.core.env_server": "Action BaseMessage CompositeTransform ConcurrencyConfig ConcurrencyConfigurationError "
    "Environment EnvironmentFactoryError GetTaskRangeRequest GetTaskRequest ListTasksRequest NumTasksRequest "
    "HTTPEnvServer HealthResponse HealthStatus Message ModelTokenizer "
    "NullTransform Observation OpenEnvError SchemaResponse ServerCapacityStatus ServerMode SessionCapacityError "
    "SessionCreationError SessionInfo SessionNotFoundError State TaskProvider Transform WSCloseMessage WSErrorCode "
    "WSErrorResponse WSIncomingMessage WSObservationResponse WSResetMessage WSStateMessage WSStateResponse "
    "WSStepMessage create_app create_fastapi_app create_web_interface_app deserialize_action serialize_observation "
    "serve server_main CallToolAction CallToolObservation JsonRpcError JsonRpcErrorCode JsonRpcRequest JsonRpcResponse "
    "ListToolsAction ListToolsObservation MCPEnvironment McpMethod RESERVED_TOOL_NAMES Tool ToolError ToolErrorType "
    "WSMCPMessage WSMCPResponse GetEndpointConfig WebInterfaceManager deserialize_action_with_preprocessing",
    "openenv.core.env_server.base_transforms": "CompositeTransform NullTransform",
    "openenv.core.env_server.exceptions": "ConcurrencyConfigurationError EnvironmentFactoryError OpenEnvError "
    "SessionCapacityError SessionCreationError SessionNotFoundError",
    "openenv.core.env_server.web_interface": "ActionLog EpisodeState WebInterfaceManager create_web_interface_app "
    "get_quick_start_markdown load_environment_metadata",
    "openenv.core.env_server.http_server": "Action Environment EnvironmentMetadata HTTPEnvServer Observation State "
    "create_app create_fastapi_app",
    "openenv.core.env_server.interfaces": "Action Environment EnvironmentMetadata Message ModelTokenizer Observation "
    "State TaskProvider Transform",
    "openenv.core.env_server.mcp_environment": "MCPEnvironment MCP_TOOL_CALL_TIMEOUT get_server_tools",
    "openenv.core.env_server.mcp_types": "CallToolAction CallToolObservation JsonRpcError JsonRpcErrorCode "
    "JsonRpcRequest JsonRpcResponse ListToolsAction ListToolsObservation McpMethod RESERVED_TOOL_NAMES Tool ToolError "
    "ToolErrorType WSMCPMessage WSMCPResponse",
    "openenv.core.env_server.route_config": "GetEndpointConfig register_get_endpoints",
    "openenv.core.env_server.serialization": "deserialize_action deserialize_action_with_preprocessing "
    "serialize_observation",
    "openenv.core.env_server.types": "Action CodeExecResult ConcurrencyConfig EnvironmentMetadata HealthResponse "
    "Observation ResetRequest ResetResponse Scalar SchemaResponse ServerMode State StepRequest StepResponse",
    "openenv.core.generic_client": "GenericAction GenericEnvClient",
    "openenv.core.mcp_client": "GenericMCPObservation MCPClientBase MCPToolClient",
    "openenv.core.sync_client": "SyncEnvClient",
    "openenv.core.utils": "convert_to_ws_url hf_space_subdomain run_async_safely",
    "openenv.core.containers.runtime.providers": (
        "ContainerProvider DockerSwarmProvider LocalDockerProvider RuntimeProvider UVProvider"
    ),
    "openenv.core.containers.runtime.daytona_provider": "DaytonaProvider",
    "openenv.core.containers.runtime.hf_sandbox_provider": "HFSandboxProvider",
    "openenv.core.containers.runtime.modal_provider": "ModalProvider",
    "openenv.core.containers.runtime.aca_provider": "ACASandboxProvider",
    "openenv.core.containers.runtime.novita_provider": "NovitaSandboxProvider",
    "openenv.core.containers.runtime.uv_provider": "UVProvider",
    "openenv.discovery": "CatalogChanges CatalogError CatalogSnapshot DiscoveryEntry ENVIRONMENT_MEDIA_TYPE "
    "EnvironmentCard PROFILE_VERSION SearchMatch build_catalog compare_catalogs load_catalog resolve_entry "
    "search_catalog write_catalog",
    "openenv.providers": "LocalDockerProvider LocalProcessProvider UVProvider",
    "openenv.train.spec.tool_environment": "EpisodeStep ToolEnvironment",
    "openenv.core.containers.runtime": "ContainerProvider LocalProcessProvider Resources RuntimeProvider UVProvider",
}


@pytest.mark.parametrize(("module", "names"), list(PROMISED.items()))
def test_promised_names_are_there(module: str, names: str) -> None:
    found = importlib.import_module(module)

    missing = [name for name in names.split() if getattr(found, name, None) is None]
    assert not missing


@pytest.mark.needs("reasoning-gym")  # whose names are loaded when they are used
def test_everything_in_all_resolves_once() -> None:
    packages = {name: getattr(importlib.import_module(name), "__all__", []) for name in MODULES}

    assert [name for name, exported in packages.items() if len(set(exported)) < len(exported)] == []
    unresolved = {f"{name}.{export}" for name in packages for export in packages[name] if not _resolves(name, export)}
    assert unresolved == set()


def _resolves(module: str, name: str) -> bool:
    return hasattr(importlib.import_module(module), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'openenv' has no attribute 'EnvClent'"):
        openenv.EnvClent  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.needs("reasoning-gym")
def test_public_classes_and_functions_are_documented() -> None:
    undocumented = [
        f"{module}.{name}"
        for module in MODULES
        for name, member in vars(importlib.import_module(module)).items()
        if not name.startswith("_")
        and (inspect.isclass(member) or inspect.isfunction(member))
        and member.__module__ == module
        and not inspect.getdoc(member)
    ]

    assert undocumented == []


def test_the_version_is_the_distributions() -> None:
    assert openenv.__version__ == importlib.metadata.version("openenv-core")


def test_what_users_import_has_a_page_in_the_reference() -> None:
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    documented = re.findall(r"^\.\. automodule:: (\S+)$", pages, re.MULTILINE)
    shown = [member for name in documented for member in _public_members(importlib.import_module(name))]
    packages = [importlib.import_module(name) for name in ("openenv", "openenv.core.env_server", "openenv.auto")]
    exported = [getattr(package, name) for package in packages for name in package.__all__]

    wanted = [member for member in exported if inspect.isclass(member) or inspect.isfunction(member)]
    assert [member.__qualname__ for member in wanted if member not in shown] == []


def _public_members(module: ModuleType) -> list[Any]:
    """What a reference page of the module shows: what it exports, else what it defines."""
    if hasattr(module, "__all__"):
        return [getattr(module, name) for name in module.__all__]
    return [member for member in vars(module).values() if getattr(member, "__module__", None) == module.__name__]
