"""Clients and actions by an environment's name: the public names ``AutoEnv`` and ``AutoAction``."""

import logging
from collections.abc import Mapping
from importlib.metadata import packages_distributions
from typing import Any, NoReturn
from urllib.parse import urlsplit

from pydantic import BaseModel

from openenv.auto.dataset.opening import DatasetEnvironment, open_dataset, row_cursor
from openenv.auto.discovery import checked, find_environment, list_environments
from openenv.auto.installing import install_space
from openenv.auto.making import make
from openenv.auto.manifest import DEFAULT_TASK_SET
from openenv.auto.names import environment_key
from openenv.auto.package import EnvironmentPackage
from openenv.auto.target import NAMED, PACKAGED, Target, TargetKind
from openenv.core import providers
from openenv.core.addresses import is_on_this_machine
from openenv.core.client.blocking import wait_for
from openenv.core.client.launch import make_client
from openenv.core.env_client import EnvClient
from openenv.core.exceptions import (
    ConfigurationError,
    ConnectionFailedError,
    EnvironmentNotFoundError,
    OpenEnvError,
)
from openenv.core.generic_client import GenericAction, GenericEnvClient
from openenv.core.providers.base import ContainerProvider
from openenv.core.providers.health import is_up, wait_until_healthy
from openenv.core.providers.local_process import LocalProcessProvider
from openenv.core.providers.spaces import space_image, space_url
from openenv.core.providers.undeclared import as_container_provider

PROBE_S = 2.0
"""Seconds within which a server at a given address must answer."""

SPACE_PROBE_S = 5.0
"""Seconds within which a running Space must answer."""

# Targets whose client deals in dicts.
_WITHOUT_PACKAGE = frozenset({TargetKind.ADAPTED, TargetKind.IMAGE})

logger = logging.getLogger(__name__)


class AutoEnv:
    """Makes clients by an environment's name. It has class methods only, and no instances.

    Example::

        with AutoEnv.from_env("wordle").sync() as env:
            env.reset(seed=1)
    """

    def __new__(cls) -> NoReturn:
        """Refuse: use the class methods."""
        raise TypeError("AutoEnv is not to be instantiated; call AutoEnv.from_env(name).")

    @classmethod
    def from_env(
        cls,
        name: Any,
        base_url: str | None = None,
        docker_image: str | None = None,
        container_provider: ContainerProvider | None = None,
        wait_timeout: float = 30.0,
        env_vars: Mapping[str, str] | None = None,
        trust_remote_code: bool = False,
        skip_install: bool = False,
        split: str | None = None,
        **client_kwargs: Any,
    ) -> EnvClient[Any, Any, Any]:
        """Make a client for an environment; without an address, start a server for it first. This blocks.

        Args:
            name: A target of ``openenv.make``, as the name of an installed environment (``wordle``, ``wordle-env`` and
                ``wordle_env`` are the same). A Space on the Hub (``OWNER/wordle-env``) is connected to where it runs.
                For an environment that a dataset declares (``hf://datasets/ORG/REPO/ENV@REVISION``, ``FOLDER/ENV``)
                each reset is passed the next row, and that of ``reset(index=3)`` the fourth; ``dataset``,
                ``dataset_ref``, ``dataset_index`` and ``current_row`` of the client have the rows.
            base_url: Address of a running server. Where no server answers at an address of this machine, one is
                started there.
            docker_image: Image that is started in a container, instead of a local process.
            container_provider: Starts that container, by default with this machine's Docker. Without ``docker_image``,
                the image is the Space's, or else ``NAME-env:latest``.
            wait_timeout: Seconds that a server may take to start.
            env_vars: Environment variables to set for the server that is started.
            trust_remote_code: Whether the package of a Space may be installed from there, if it is not yet, and the
                package or image that a dataset names may be run. Otherwise ``OPENENV_TRUST_REMOTE_CODE=1`` allows it,
                or the user at the terminal.
            skip_install: Whether to do without the environment's package: actions and observations are dicts then.
            split: Split of a dataset whose rows are played; its first one if ``None``. For another environment, one of
                the dataset that its ``openenv.yaml`` has as ``default`` in ``task_sets``.
            **client_kwargs: Passed to the client, such as ``message_timeout_s``.

        Returns:
            A client, not yet connected. Closing it stops a server that was started for it.

        Raises:
            EnvironmentNotFoundError: No such environment is installed. It is a ``ValueError`` too.
            ConfigurationError: The arguments contradict each other, a Space's package is not trusted, or the
                environment's manifest is not as it must be.
            ConnectionFailedError: With ``skip_install``, no server answers at ``base_url``. Without it, that is a
                ``ConfigurationError``.
            ProviderError: The server could not be started, or a Space's package not be installed.
            TimeoutError: The server was not ready in time.
            HubError: There is no such dataset or revision, or the Hub can't be reached.
        """
        target = Target.of(name).required(NAMED, "AutoEnv")
        opened = _opened(target, split)
        if opened is not None and target.kind is TargetKind.DATASET:
            plays_elsewhere = base_url is not None and skip_install  # so that nothing of it is run here
            target = Target.of(base_url if plays_elsewhere else opened.target(trusted=trust_remote_code))
            env_vars = {**opened.secrets(), **(env_vars or {})}
        image, provider, trusted = docker_image, container_provider, trust_remote_code
        client = _client_of(
            target, base_url, image, provider, wait_timeout, env_vars, trusted, skip_install, client_kwargs
        )
        return client if opened is None else _with_tasks(client, opened, split)

    from_hub = from_env

    @classmethod
    def get_env_class(cls, name: str) -> type[EnvClient[Any, Any, Any]]:
        """Return an environment's client class.

        Raises:
            EnvironmentNotFoundError: No such environment is installed.
        """
        return _find(Target.of(name)).client_class()

    @classmethod
    def get_env_info(cls, name: str) -> dict[str, Any]:
        """Return an environment's location and the names of its classes.

        Raises:
            EnvironmentNotFoundError: No such environment is installed.
        """
        package = _find(Target.of(name))
        return {
            "env_key": environment_key(package.name),
            "name": package.manifest.name,
            "package": _distribution(package),
            "version": package.version,
            "description": package.description,
            "env_class": package.client_class().__name__,
            "action_class": package.action_class().__name__,
            "observation_class": package.observation_class().__name__,
            "module": package.module,
            "default_image": _image(package.name),
            "spec_version": package.manifest.spec_version,
        }

    @classmethod
    def list_environments(cls) -> None:
        """Print the installed environments, each with its description."""
        packages = list_environments()
        lines = [f"{package.name}: {package.description}" for package in packages]
        print("\n".join(lines) or "No environments are installed.")  # noqa: T201  # what it is for


class AutoAction:
    """Finds action classes by an environment's name. It has class methods only, and no instances.

    Example::

        WordleAction = AutoAction.from_env("wordle")
        action = WordleAction(word="crane")
    """

    def __new__(cls) -> NoReturn:
        """Refuse: use the class methods."""
        raise TypeError("AutoAction is not to be instantiated; call AutoAction.from_env(name).")

    @classmethod
    def from_env(cls, name: str, skip_install: bool = False) -> type[BaseModel] | type[GenericAction]:
        """Return an environment's class of actions.

        Args:
            name: The environment's name, in any of its forms, its folder, or a Space, whose package is installed if
                ``OPENENV_TRUST_REMOTE_CODE`` or the user at the terminal allows it.
            skip_install: Whether to do without the environment's package: a dict is the action then.

        Raises:
            ConfigurationError: A Space's package is not trusted.
            EnvironmentNotFoundError: No such environment is installed.
            ProviderError: A Space's package can't be installed.
        """
        return GenericAction if skip_install else _find_or_install(Target.of(name)).action_class()

    @classmethod
    def from_hub(cls, env_name: str, skip_install: bool = False) -> type[BaseModel] | type[GenericAction]:
        """Return an environment's class of actions: ``from_env`` under its other name.

        Args:
            env_name: The environment's name, in any of its forms, its folder, or a Space.
            skip_install: Whether to do without the environment's package: a dict is the action then.
        """
        return cls.from_env(env_name, skip_install)

    @classmethod
    def get_action_info(cls, name: str) -> dict[str, Any]:
        """Return the name and the location of an environment's action, and its fields, as JSON Schema.

        Raises:
            EnvironmentNotFoundError: No such environment is installed.
        """
        package = _find(Target.of(name))
        action = package.action_class()
        return {
            "env_key": environment_key(package.name),
            "package": _distribution(package),
            "module": action.__module__,
            "action_class": action.__name__,
            "schema": action.model_json_schema(),
        }

    @classmethod
    def list_actions(cls) -> None:
        """Print the class of actions of each installed environment; of one that can't be imported, the reason."""
        lines = [f"{package.name}: {_action_name(package)}" for package in list_environments()]
        print("\n".join(lines) or "No environments are installed.")  # noqa: T201  # what it is for


def _opened(target: Target, split: str | None) -> DatasetEnvironment | None:
    """Return the environment of a dataset, with the split checked, or the dataset of an environment with a split."""
    reference = target.text if target.kind is TargetKind.DATASET else None
    if reference is None and split is not None:
        reference = _find(target).task_sets.get(DEFAULT_TASK_SET) if target.kind in PACKAGED else None
        if reference is None:
            raise ConfigurationError(
                f"Expected split with an environment of a dataset, as hf://datasets/ORG/REPO/ENV, or with one whose "
                f"openenv.yaml has `task_sets: {{{DEFAULT_TASK_SET}: ...}}`, got {target}: choose a task by "
                "reset(split=, index=)."
            )
    if reference is None:
        return None
    opened = open_dataset(reference)
    opened.split(split)
    return opened


def _with_tasks(
    client: EnvClient[Any, Any, Any], opened: DatasetEnvironment, split: str | None
) -> EnvClient[Any, Any, Any]:
    """Return a client whose resets are passed a dataset's rows; it is closed where that fails."""
    try:
        client.take_tasks(row_cursor(opened, split, client))
    except OpenEnvError:
        wait_for(client.close)
        raise
    return client


def _client_of(
    target: Target,
    base_url: str | None,
    docker_image: str | None,
    container_provider: ContainerProvider | None,
    wait_timeout: float,
    env_vars: Mapping[str, str] | None,
    trust_remote_code: bool,
    skip_install: bool,
    client_kwargs: Mapping[str, Any],
) -> EnvClient[Any, Any, Any]:
    """Make a client for a target that is no dataset's environment; see ``AutoEnv.from_env``."""
    if base_url is None and target.kind in (TargetKind.ADDRESS, TargetKind.CLASS):
        return make(target, **client_kwargs)
    base_url = base_url and Target.of(base_url).required({TargetKind.ADDRESS}, "base_url").text
    docker_image = docker_image or (target.text if target.kind is TargetKind.IMAGE else None)
    in_container = docker_image is not None or container_provider is not None
    address = _running(base_url, None if in_container else target, skip_install)
    if address is None and skip_install and not in_container:
        raise _nothing_to_run(target, base_url)
    client_class = _client_class(target, skip_install, trust_remote_code)
    if address is not None:
        return client_class(base_url=address, **client_kwargs)
    port = None if base_url is None else urlsplit(base_url).port
    if not in_container:
        return _in_process(target, client_class, port, wait_timeout, env_vars, client_kwargs)
    image = docker_image or _image_of(target)
    provider = as_container_provider(container_provider or providers.LocalDockerProvider(), image)
    url = provider.launch_image(image, timeout_s=wait_timeout, port=port, env_vars=dict(env_vars or {}))
    return make_client(client_class, provider, url, client_kwargs)


def _running(base_url: str | None, target: Target | None, skip_install: bool) -> str | None:
    """Return the address of a server, if it runs; at an address of this machine it can be started."""
    if base_url is None:
        is_space = target is not None and target.kind is TargetKind.SPACE
        return running_space(target.repo.id) if target is not None and is_space else None
    try:
        return base_url if answers_at(base_url) else None
    except ConnectionFailedError as error:
        if skip_install:
            raise
        raise ConfigurationError(f"{error} Start it, or leave base_url out to have a server started here.") from error


def answers_at(base_url: str) -> bool:
    """Return whether a server answers at an address; ``False`` only for this machine, which can start one.

    Raises:
        ConfigurationError: It is no HTTP address.
        ConnectionFailedError: No server answers at the address of another machine.
    """
    try:
        wait_until_healthy(base_url, PROBE_S, _nothing_to_check)
    except TimeoutError as error:
        if is_on_this_machine(base_url):
            return False
        raise ConnectionFailedError(f"No server answers at {base_url}: {error}") from error
    return True


def running_space(repo_id: str) -> str | None:
    """Return the address of a Space, if it runs."""
    url = space_url(repo_id)
    if is_up(url, SPACE_PROBE_S):
        return url
    logger.warning("the Space %s does not answer at %s", repo_id, url)
    return None


def _nothing_to_check() -> None:
    """Do nothing: no process here knows whether a server elsewhere has ended."""


def _nothing_to_run(target: Target, base_url: str | None) -> ConfigurationError | ConnectionFailedError:
    if base_url is not None:
        return ConnectionFailedError(f"No server answers at {base_url}, and skip_install leaves none to be started.")
    return ConfigurationError(
        f"skip_install=True leaves nothing of {target.text} to be started here: give a server's base_url, or a "
        "docker_image."
    )


def _in_process(
    target: Target,
    client_class: type[EnvClient[Any, Any, Any]],
    port: int | None,
    wait_timeout: float,
    env_vars: Mapping[str, str] | None,
    client_kwargs: Mapping[str, Any],
) -> EnvClient[Any, Any, Any]:
    served = checked(_named(target))
    provider = LocalProcessProvider(served, env_vars=env_vars)
    url = provider.launch(wait_timeout, port=port)
    return make_client(client_class, provider, url, client_kwargs)


def _client_class(target: Target, skip_install: bool, trust_remote_code: bool) -> type[EnvClient[Any, Any, Any]]:
    if skip_install or target.kind in _WITHOUT_PACKAGE:
        return GenericEnvClient
    return _find_or_install(target, trusted=trust_remote_code).client_class()


def _find_or_install(target: Target, *, trusted: bool = False) -> EnvironmentPackage:
    """Find an environment's package; that of a Space may be installed from there."""
    try:
        return _find(target)
    except EnvironmentNotFoundError:
        if target.kind is not TargetKind.SPACE:
            raise
    install_space(target.repo.id, trusted=trusted)
    return _find(target)


def _find(target: Target) -> EnvironmentPackage:
    return find_environment(_named(target))


def _named(target: Target) -> Target:
    """Return a Space's package by its name, as it is once installed; any other target as it is."""
    return Target(TargetKind.NAME, target.repo.own_name) if target.kind is TargetKind.SPACE else target


def _action_name(package: EnvironmentPackage) -> str:
    try:
        return package.action_class().__name__
    except Exception as error:  # noqa: BLE001  # an author's module may raise anything
        return f"can't be imported: {type(error).__name__}: {error!s:.500}"


def _distribution(package: EnvironmentPackage) -> str:
    """Return the distribution of a package; its module where it was not installed."""
    top = package.module.partition(".")[0]
    return next(iter(packages_distributions().get(top, ())), top)


def _image_of(target: Target) -> str:
    return space_image(target.repo.id) if target.kind is TargetKind.SPACE else _image(target.text)


def _image(name: str) -> str:
    return f"{environment_key(name).replace('_', '-')}-env:latest"
