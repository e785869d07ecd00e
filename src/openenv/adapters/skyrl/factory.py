"""Maker of an environment of SkyRL-Gym by its id, as in ``openenv serve skyrl:gsm8k?tasks=train.jsonl``."""

from functools import partial
from pathlib import Path

from skyrl_gym import registry

from openenv.adapters.ids import did_you_mean, import_registering, read_id
from openenv.adapters.skyrl.environment import SkyRLEnvironment
from openenv.adapters.skyrl.tasks import check_task
from openenv.core.exceptions import ConfigurationError, EnvironmentNotFoundError
from openenv.core.tasks import read_tasks

_RUNS = {"lcb": "Python", "searchcode": "Python", "text2sql": "SQL"}
"""Languages in which environments of SkyRL-Gym run texts of a model, on the machine itself."""


def environment_for(env_id: str) -> partial[SkyRLEnvironment]:
    """Return a maker of an environment of SkyRL-Gym, to be served or used in this process.

    Args:
        env_id: SkyRL-Gym's id; ``module:id`` imports a module first that registers it. Parameters may follow, as in
            ``gsm8k_multi_turn?tasks=train.parquet&max_turns=3``: ``tasks`` is the file that lists the tasks,
            ``max_turns`` the number for tasks whose extras have none, ``sandbox=none`` declares this machine a
            sandbox, which environments need that run what a model writes. Others are its configuration.

    Raises:
        EnvironmentNotFoundError: There is no such environment; the message lists those with a similar id.
        ConfigurationError: The tasks can't be read, or it runs what a model writes outside of a sandbox.
    """
    name, settings = read_id(env_id)
    name = _registered(name)
    _check_sandbox(name, settings.pop("sandbox", None))
    tasks = settings.pop("tasks", None)
    path = None if tasks is None else Path(str(tasks)).absolute()
    if path is not None:
        read_tasks(path, check_task)
    extras = _extras(name, settings.pop("max_turns", None))
    return partial(make_environment, env_id.partition("?")[0], settings, extras, path)


def make_environment(
    env_id: str, settings: dict[str, object], extras: dict[str, object], tasks: Path | None
) -> SkyRLEnvironment:
    """Make an environment, in whatever process: its module registers it there."""
    return SkyRLEnvironment(_registered(env_id), settings, extras, tasks)


def _registered(env_id: str) -> str:
    """Return SkyRL-Gym's id, after the import of the module that registers it."""
    name = import_registering(env_id)
    if name not in registry:
        raise EnvironmentNotFoundError(
            f"SkyRL-Gym has no environment {name!r}.{did_you_mean(name, registry)} It knows those that are registered; "
            "to import the module that registers one, write skyrl:MODULE:ID."
        )
    return name


def _extras(name: str, max_turns: object) -> dict[str, object]:
    if max_turns is None:
        return {}
    if type(max_turns) is not int or max_turns < 1:
        raise ConfigurationError(f"Expected max_turns of skyrl:{name} to be a whole number from 1, got {max_turns!r}.")
    return {"max_turns": max_turns}


def _check_sandbox(name: str, sandbox: object) -> None:
    if sandbox not in (None, "none"):
        raise ConfigurationError(f"Expected sandbox=none behind skyrl:{name}?, got {sandbox!r}.")
    if name in _RUNS and sandbox is None:
        raise ConfigurationError(
            f"skyrl:{name} runs {_RUNS[name]} that a model writes, on this machine. Where the machine is itself a "
            "sandbox, give the parameter sandbox=none."
        )
