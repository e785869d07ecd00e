"""Checks of an environment of another library, which run it: schemas, first observation, and repeatability."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from openenv.adapters.targets import AdaptedEnvironment, find_adapted
from openenv.adapters.text import hidden_text_warning
from openenv.core.env_server.execution.executors import executor_for
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.execution.local_runner import LocalRunner
from openenv.core.env_server.execution.runner import finished
from openenv.core.environment_types import EnvironmentTypes
from openenv.core.exceptions import RequestError
from openenv.core.wire.answers import outcome_json
from openenv.core.wire.results import Outcome, outcome_of
from openenv.validation.findings import Check, Finding, fail, run_check, warn
from openenv.validation.own_policy import report_of_run
from openenv.validation.report import ValidationReport

_SEED = 1


def validate_adapted(target: str) -> ValidationReport:
    """Check an environment of another library. It is made in this process, and reset some times.

    Raises:
        EnvironmentNotFoundError: There is no environment of that name.
        ConfigurationError: It can't be made, or what it needs is not installed.
    """
    environment = find_adapted(target)
    return report_of_run(target, [result for check in ADAPTED_CHECKS for result in run_check(check, environment)])


def _find_in_schemas(environment: AdaptedEnvironment) -> Iterable[Finding]:
    types = environment.types()
    for role, model in (("action", types.action), ("observation", types.observation)):
        for name, field in model.model_json_schema().get("properties", {}).items():
            if name not in ("metadata", "done", "reward") and "description" not in field:
                yield warn(
                    f"the {role}'s field {name} has no description",
                    "Language models read descriptions; give the field one where the environment is defined.",
                )


def _find_in_reset(environment: AdaptedEnvironment) -> Iterable[Finding]:
    return asyncio.run(_with_runner(environment, _check_reset))


def _find_in_seeds(environment: AdaptedEnvironment) -> Iterable[Finding]:
    return asyncio.run(_with_runner(environment, _check_seeds))


ADAPTED_CHECKS = (
    Check("runtime.schemas", "JSON Schemas of action and observation", _find_in_schemas, "runtime.schemas"),
    Check("runtime.reset", "the first observation and its class", _find_in_reset),
    Check("runtime.seed_control", "two resets with the same seed", _find_in_seeds, "runtime.seed_control"),
)


async def _with_runner(
    environment: AdaptedEnvironment, check: Callable[[LocalRunner, EnvironmentTypes], Awaitable[list[Finding]]]
) -> list[Finding]:
    factory = EnvironmentFactory(environment.source)
    remedy = "Correct the cause of its error; `openenv serve` would send it to its clients."
    try:
        runner = await LocalRunner.make(factory, executor_for(environment.environment_class, factory.name))
        try:
            return await check(runner, environment.types())
        finally:
            await runner.close()
    except RequestError as error:
        cause = "" if error.__cause__ is None else f" ({error.__cause__})"
        return [fail(f"{error.message}{cause}", remedy)]


async def _check_reset(runner: LocalRunner, types: EnvironmentTypes) -> list[Finding]:
    outcome = await _reset(runner)
    remedy = "Have the environment return what its types promise."
    if not isinstance(outcome.observation, types.observation):
        came = type(outcome.observation).__name__
        return [fail(f"reset gave {came}, not {types.observation.__name__}", remedy)]
    try:
        types.observation.model_validate_json(outcome.observation.model_dump_json())
    except ValueError as error:
        return [fail(f"the first observation does not fit its schema: {error}", remedy)]
    hidden = hidden_text_warning(outcome.observation)
    return [] if hidden is None else [warn(hidden, "Agents see an observation's fields; metadata is for trainers.")]


async def _check_seeds(runner: LocalRunner, types: EnvironmentTypes) -> list[Finding]:
    first, second = [outcome_json(await _reset(runner)) for _ in range(2)]
    if first == second:
        return []
    remedy = "Episodes that can't be repeated can't be replayed either; use the seed for all that is random."
    return [warn(f"two resets with seed {_SEED} gave different observations", remedy)]


async def _reset(runner: LocalRunner) -> Outcome:
    answer: Any = await finished(runner.reset({"seed": _SEED}))
    return outcome_of(answer)
