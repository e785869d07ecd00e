"""Examination of an environment's package: its servers, its player, and what it declares about its rewards."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from openenv.auto.making import in_process_provider
from openenv.auto.package import EnvironmentPackage
from openenv.auto.target import Target
from openenv.core.exceptions import ConfigurationError, OpenEnvError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.providers.base import Provider, RuntimeProvider
from openenv.core.providers.local_process import LocalProcessProvider
from openenv.validation.manifest import ManifestError
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
from openenv.validation.report import CheckResult
from openenv.validation.run_checks import StartedServer
from openenv.validation.semantic.checks import each_semantic_results
from openenv.validation.semantic.episodes import Action, Player
from openenv.validation.semantic.graded import DeclaredRewards, GradedEnvironment
from openenv.validation.trials import Client, FaultError, RunLimits, within

CAPACITY_WAIT_S = 10.0


def each_package_results(package: EnvironmentPackage, limits: RunLimits) -> Iterator[list[CheckResult]]:
    """Iterate over the results of each semantic check of a package, as soon as they are known."""
    with graded_package(package, limits) as graded:
        yield from each_semantic_results(graded)


@contextmanager
def graded_package(
    package: EnvironmentPackage, limits: RunLimits, provider: RuntimeProvider | None = None
) -> Iterator[GradedEnvironment]:
    """Serve a package, in a separate process by default, and examine its grading; all servers end with the context.

    Args:
        package: The package.
        limits: Seconds that answers may take.
        provider: Provider of its server; by default a process of this machine.
    """
    with ExitStack() as exits:
        served = provider or LocalProcessProvider(package.target)
        client = _client(served, limits, exits)
        client.connect()
        own: Client | None = None
        with suppress(ConfigurationError):  # then the player is called with dicts
            cls: Any = within(limits.answer_s, package.client_class)
            own = cls(provider=StartedServer(served), message_timeout_s=limits.answer_s).sync()
            exits.callback(cast("Client", own).close)
        yield GradedEnvironment(
            client,
            _player_maker(package, limits),
            player_client=own,
            declared=replace(declaration_of(package.folder), artifacts=_artifacts_of(package, limits)),
            limits=limits,
            elsewhere=lambda: _client(
                LocalProcessProvider(package.target, env_vars={"PYTHONHASHSEED": "7"}), limits, exits
            ),
            beside=lambda: _client(StartedServer(served), limits, exits),
            serve_here=lambda: _client(in_process_provider(Target.of(package.target)), limits, exits),
            code=(str(package.folder),),
        )


def _client(provider: Provider, limits: RunLimits, exits: ExitStack) -> Client:
    client = GenericEnvClient(
        provider=provider, message_timeout_s=limits.answer_s, capacity_wait_s=CAPACITY_WAIT_S
    ).sync()
    exits.callback(client.close)
    return client


def _player_maker(package: EnvironmentPackage, limits: RunLimits) -> Callable[[int], Player] | None:
    """Return the function that makes players; ``None`` where there is none. One that raises is a fault of each task."""
    with suppress(Exception):
        if within(limits.answer_s, package.make_player, 1) is None:
            return None
    return lambda seed: cast("Player", package.make_player(seed))


def _artifacts_of(package: EnvironmentPackage, limits: RunLimits) -> tuple[str, ...]:
    """Return the artifacts that the environment's class declares; none where it can't be imported."""
    with suppress(OpenEnvError, FaultError, TimeoutError):
        cls: Any = within(limits.answer_s, package.environment_class)
        return tuple(cls.GRADED_FROM)
    return ()


def declaration_of(folder: Path) -> DeclaredRewards:
    """Return what ``openenv.yaml`` declares about rewards under ``validation:``; the defaults where it has nothing."""
    try:
        manifest = OpenEnvYamlParser().parse(folder)
    except ManifestError:
        return DeclaredRewards()
    reward, canaries = manifest.reward, manifest.capabilities.canaries
    return DeclaredRewards(
        highest=reward.range[1],
        margin=reward.floor_margin,
        tolerance=max(reward.oracle_tolerance, 1e-6),
        canaries={} if canaries is None else read_canaries(folder / canaries),
    )


def read_canaries(path: Path) -> dict[str, Sequence[Action]]:
    """Read a file of canaries: an object with the actions of a bad episode by its name.

    Raises:
        ConfigurationError: There is no such file, or it is no such object.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"Expected canaries as JSON in {path}: {error}") from error
    if not isinstance(content, dict) or not all(isinstance(each, list) for each in content.values()):
        raise ConfigurationError(f'Expected canaries as {{"name": [action, ...]}} in {path}.')
    return content
