"""Checks that run an environment: its server starts, a reset gives what its types promise, and a seed is kept.

The server runs in a process of its own, as for ``openenv play``, so that an environment that hangs or ends its process
is a finding like any other.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from openenv.auto.package import EnvironmentPackage
from openenv.core.client.blocking import wait_for
from openenv.core.client.mcp import fetch_tools
from openenv.core.client_types import StepResult
from openenv.core.exceptions import OpenEnvError, ProviderError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.providers.local_process import LocalProcessProvider
from openenv.core.schema.json_models import read_model
from openenv.core.schema.reader import constants, members
from openenv.core.sync_client import SyncEnvClient
from openenv.core.wire.mcp_types import CallToolObservation
from openenv.validation.findings import Check, Finding, fail, warn
from openenv.validation.report import CheckResult, run_check

LEVEL = "runtime"
_SEED = 1
_TIMEOUT_S = 60.0
_MEND = "Mend what it says; `openenv play` meets the same."


@dataclass(frozen=True)
class Running:
    """An environment and a client of its server.

    Attributes:
        package: The environment.
        client: A client that speaks dicts; its first use starts the server.
    """

    package: EnvironmentPackage
    client: SyncEnvClient[Any, Any, Any]


def run_checks(package: EnvironmentPackage, timeout_s: float = _TIMEOUT_S) -> list[CheckResult]:
    """Start an environment's server and check what it does. Where it does not start, nothing else is checked.

    Args:
        package: The environment.
        timeout_s: Seconds that an answer may take.
    """
    provider = LocalProcessProvider(package.target)
    with closing(GenericEnvClient(provider=provider, message_timeout_s=timeout_s).sync()) as client:
        running = Running(package, client)
        started = run_check(_STARTS, running)
        return [started] if started.status == "fail" else [started, *(run_check(each, running) for each in _CHECKS)]


def _find_in_start(running: Running) -> Iterator[Finding]:
    try:
        running.client.connect()
    except OpenEnvError as error:
        yield fail(_first_and_last_line(error), _MEND)


def _find_in_reset(running: Running) -> Iterator[Finding]:
    try:
        observation = _reset(running).observation
        expected = running.package.observation_class()
        if not issubclass(expected, CallToolObservation):  # which only a tool's call gives: a reset gives another
            read_model(expected, observation)
    except OpenEnvError as error:
        yield fail(str(error), _MEND)
    except ValidationError as error:
        yield fail(
            f"the first observation does not fit its class: {error}", "Return what the observation's class says."
        )


def _find_in_seeds(running: Running) -> Iterable[Finding]:
    try:
        first, second = _reset(running), _reset(running)
    except OpenEnvError:  # which the check before has said
        return []
    if (first.observation, first.reward) == (second.observation, second.reward):
        return []
    remedy = "Episodes that can't be repeated can't be replayed either; draw all that is random from the seed."
    return [warn(f"two resets with seed {_SEED} gave different observations", remedy)]


def _find_in_tools(running: Running) -> Iterator[Finding]:
    try:
        kinds = dict(members(running.client.schemas()["action"]))
        listed = wait_for(fetch_tools, running.client.async_client)
    except OpenEnvError as error:
        yield fail(str(error), _MEND)
        return
    remedy = "Give an action a field for each of its values, and an annotation that is a model or a union of models."
    for name, kind in kinds.items():
        if "properties" not in kind:
            yield fail(f"the action {name} is no object with fields, so agents get a tool without parameters", remedy)
    for tool in listed:
        kind = kinds.get(tool.action or "", {})
        fields = kind.get("properties", {}).keys() - {"metadata", *constants(kind)}
        if fields and not tool.input_schema.get("properties"):
            yield fail(f"the tool {tool.name} has no parameters, but {tool.action} has {', '.join(fields)}", remedy)


def _reset(running: Running) -> StepResult[Any]:
    result: StepResult[Any] = running.client.reset(seed=_SEED)
    return result


def _first_and_last_line(error: OpenEnvError) -> str:
    """Shorten an error with a log in it to its sentence and the log's last line, which mostly says why."""
    lines = str(error).splitlines()
    return lines[0] if not isinstance(error, ProviderError) or len(lines) == 1 else f"{lines[0]} {lines[-1]}"


_STARTS = Check("start", "its server starts and makes an environment", _find_in_start)
_CHECKS = (
    Check("reset", "the first observation and its class", _find_in_reset),
    Check("seed", "two resets with the same seed", _find_in_seeds),
    Check("tools", "each action is a tool with the action's fields", _find_in_tools),
)
