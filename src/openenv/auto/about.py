"""Descriptions of environments for people: actions, observations, reward, reset, and an example to copy."""

import ast
import inspect
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from typing import Any

from pydantic import BaseModel

from openenv.auto.fields import FieldAbout, fields_of
from openenv.auto.package import EnvironmentPackage
from openenv.auto.readme import Readme, read_readme
from openenv.core.env_server.execution.reset_parameters import reset_parameters
from openenv.core.env_server.mcp_types import Tool
from openenv.core.env_server.tools import class_tools
from openenv.core.env_server.types import State
from openenv.core.environment_types import EnvironmentTypes, environment_types
from openenv.core.exceptions import ConfigurationError
from openenv.core.schema.generator import ToolSignature, described_schema
from openenv.core.schema.reader import calls_tool, members
from openenv.core.tasks.task_set import task_set_of

_BESIDE = frozenset({"metadata", "done", "reward"})
_OF_EVERY_STATE = frozenset({"episode_id", "step_count"})


@dataclass(frozen=True)
class Part:
    """An action, a tool, an observation or a state.

    Attributes:
        name: Its name.
        description: Description of it.
        fields: Its fields, without those that every such part has.
    """

    name: str
    description: str
    fields: list[FieldAbout]


@dataclass(frozen=True)
class About:
    """Description of an environment.

    Attributes:
        name: Its name.
        description: One sentence.
        summary: A paragraph; empty where there is none.
        version: Its version; empty where it has none.
        module: Import path of its package; empty where it has none.
        folder: Its folder; empty where it has no folder.
        actions: The kinds of actions.
        tools: The tools.
        observation: Observation of an action.
        state: State, which clients can request at any time.
        reset: The parameters of a reset; ``None`` where they are unknown, as of a server elsewhere.
        reward: Rewarded behaviour; empty where it is not documented.
        end: End of an episode; empty likewise.
        player: Description of its scripted player; empty where it has none.
        example: A program to copy; empty where there is none.
    """

    name: str
    description: str = ""
    summary: str = ""
    version: str = ""
    module: str = ""
    folder: str = ""
    actions: list[Part] = field(default_factory=list)
    tools: list[Part] = field(default_factory=list)
    observation: Part | None = None
    state: Part | None = None
    reset: list[FieldAbout] | None = None
    reward: str = ""
    end: str = ""
    player: str = ""
    example: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


def about_package(package: EnvironmentPackage) -> About:
    """Describe a package's environment. This imports its classes, and what the server needs.

    Raises:
        ConfigurationError: The manifest or the classes are not as they must be.
    """
    readme = read_readme(package.folder)
    environment = package.environment_class()
    about = about_class(package.name, environment, readme, _types_of(package, environment))
    player = readme.sections.get("the player", "") if package.manifest.player else ""
    return replace(
        about,
        description=package.description or about.description,
        version=package.version,
        module=package.module,
        folder=str(package.folder),
        player=player or ("It has one." if package.manifest.player else ""),
    )


def example_fits(example: str, package: str) -> bool:
    """Return whether an example imports only what a package has, and makes its models of fields that they have.

    A README that was written for other classes, such as that of a new environment's folder, has an example that fails.
    """
    try:
        tree = ast.parse(example)
    except SyntaxError:
        return False
    known: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and f"{node.module}.".startswith(f"{package}."):
            try:
                module = import_module(str(node.module))
                known |= {each.asname or each.name: getattr(module, each.name) for each in node.names}
            except (ImportError, AttributeError):
                return False
    return all(_has_fields(node, known) for node in ast.walk(tree) if isinstance(node, ast.Call))


def _has_fields(call: ast.Call, known: Mapping[str, Any]) -> bool:
    made = known.get(call.func.id) if isinstance(call.func, ast.Name) else None
    if not isinstance(made, type) or not issubclass(made, BaseModel) or made.model_config.get("extra") == "allow":
        return True
    names = {each for name, field in made.model_fields.items() for each in (name, field.alias)}
    return all(each.arg is None or each.arg in names for each in call.keywords)


def about_class(
    name: str, environment: type, readme: Readme | None = None, types: EnvironmentTypes | None = None
) -> About:
    """Describe an environment's class.

    Raises:
        ConfigurationError: It does not declare the types of its actions and observations.
    """
    readme = readme or Readme()
    types = types or environment_types(environment)
    schemas = {
        role: model.model_json_schema()
        for role, model in (("action", types.action), ("observation", types.observation), ("state", types.state))
    }
    about = about_schemas(name, schemas, [tool.described for tool in class_tools(environment).values()])
    doc = inspect.cleandoc(environment.__doc__ or "")
    return replace(
        about,
        description=doc.split("\n\n")[0].replace("\n", " "),
        summary=readme.summary or doc,
        reset=reset_fields(environment),
        reward=readme.facts.get("reward", ""),
        end=readme.facts.get("end", ""),
        example=readme.example,
    )


def about_schemas(name: str, schemas: Mapping[str, Mapping[str, Any]], tools: list[Tool]) -> About:
    """Describe an environment by the schemas and tools that its server publishes."""
    return About(
        name,
        actions=_actions(schemas["action"]),
        tools=[_part(tool.name, {**tool.input_schema, "description": tool.description}, frozenset()) for tool in tools],
        observation=_titled(schemas["observation"], _BESIDE),
        state=_titled(schemas["state"], _OF_EVERY_STATE),
    )


def reset_fields(environment: type) -> list[FieldAbout]:
    """List the parameters of an environment's ``reset``.

    Raises:
        ConfigurationError: A parameter can't be passed by its name.
    """
    reset: Any = environment.reset  # type: ignore[attr-defined]  # every environment has one
    signature = ToolSignature(reset, "reset", is_method=True)
    given = inspect.signature(reset).parameters
    schema = signature.parameters
    properties: dict[str, Any] = {
        name: {**described, "default": _json_default(given[name].default)}
        for name, described in schema.get("properties", {}).items()
    }
    if task_set_of(environment) is not None:  # whose tasks have the values of some
        schema = reset_parameters(environment).schema
        properties = {name: properties.get(name, about) for name, about in schema["properties"].items()}
    return fields_of({**schema, "properties": properties})


def _types_of(package: EnvironmentPackage, environment: type) -> EnvironmentTypes:
    """Return the types of an environment; public ones leave these to their application."""
    try:
        return environment_types(environment)
    except ConfigurationError:
        return EnvironmentTypes(package.action_class(), package.observation_class(), State)


def _json_default(default: Any) -> Any:
    return default if isinstance(default, str | int | float | bool) else None


def _actions(schema: Mapping[str, Any]) -> list[Part]:
    """Return the kinds of actions: several in a union; none where it only calls tools."""
    return [] if calls_tool(schema) else [_part(name, kind, _BESIDE) for name, kind in members(schema)]


def _titled(schema: Mapping[str, Any], left_out: frozenset[str]) -> Part:
    return _part(schema.get("title", ""), schema, left_out)


def _part(name: str, schema: Mapping[str, Any], left_out: frozenset[str]) -> Part:
    described = described_schema(schema)
    return Part(name, described["description"], fields_of(described, left_out))
