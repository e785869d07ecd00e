"""Clients that are ready to use, from an environment's name."""

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv.auto.discovery import checked, find_environment, located
from openenv.auto.in_process import InProcessProvider
from openenv.auto.package import EnvironmentPackage, derived_client_class
from openenv.auto.serving import app_for
from openenv.auto.target import MADE, Target, TargetKind
from openenv.core import providers
from openenv.core.client.launch import make_client
from openenv.core.env_client import EnvClient
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.settings import SETTINGS
from openenv.core.exceptions import ConfigurationError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.providers.base import Provider
from openenv.core.providers.local_process import LocalProcessProvider

if TYPE_CHECKING:
    from fastapi import FastAPI

_WITHOUT_PACKAGE = frozenset({TargetKind.ADAPTED, TargetKind.IMAGE})

# A debugger may stop a server in this process for as long as it likes.
IN_PROCESS_OPTIONS: Mapping[str, Any] = {"message_timeout_s": None, "websocket_ping_interval_s": None}


def make(
    name_or_path_or_url: Any,
    *,
    environment: str | Path | None = None,
    max_sessions: int | None = None,
    env_vars: Mapping[str, str] | None = None,
    venv: bool = False,
    in_process: bool | None = None,
    traces: str | Path | None = None,
    **client_kwargs: Any,
) -> EnvClient[Any, Any, Any]:
    """Make a client for an environment, with a separate server unless a URL is given.

    The server starts when the client first connects, and ends when the client is closed: in a separate process, or in
    this one, where breakpoints work.

    Args:
        name_or_path_or_url: Name of an installed environment (``wordle``), an environment's folder or file
            (``guess.py``, ``guess.py:GuessEnvironment``), the address of a running server (``http://host:8000``), an
            environment of another library (``gymnasium:CartPole-v1``), whose actions and observations are dicts, a
            Space whose code may run here (``OWNER/NAME``), or an image (``docker:IMAGE``). Or an environment's class, a
            function that makes an environment, or an instance, which are served in this process.
        environment: For an address: name or folder of the environment that is served there, for the types of its
            client. Without it actions and observations are dicts.
        max_sessions: Sessions that the started server may hold at once; the environment's own default if ``None``.
        env_vars: Environment variables to set for the started server.
        venv: Whether to run it in a separate Python environment, with the requirements of the environment's folder; it
            is built on the first start, and kept.
        in_process: Whether the server runs in a thread of this process: by default for a class, a function and an
            instance. Then an answer may take as long as it likes, unless ``message_timeout_s`` is given.
        traces: File in which the started server keeps every episode, or the address of a database, as for ``openenv
            serve --traces``; that of ``OPENENV_TRACES`` if ``None``.
        **client_kwargs: Passed to the client, such as ``message_timeout_s``.

    Returns:
        A client, not yet connected.

    Raises:
        EnvironmentNotFoundError: No such environment.
        ConfigurationError: The environment's manifest is not as it must be, its class can't be made, or the arguments
            contradict each other.

    Examples::

        with openenv.make("wordle").sync() as client:
            print(client.reset(seed=1).observation)

        with openenv.make(GuessEnvironment).sync() as client:
            client.reset()  # a breakpoint() in GuessEnvironment.reset stops here

        with openenv.make("wordle", traces="traces.db").sync() as client:
            client.reset(seed=1)  # see openenv traces list traces.db
    """
    target = Target.of(name_or_path_or_url).required(MADE, "make")
    if in_process or target.kind is TargetKind.CLASS:
        if in_process is False or venv or env_vars or environment is not None:
            raise ConfigurationError(
                "A class, a function or an instance is served in this process, as all else is with in_process=True. "
                "Leave out in_process=False, venv, env_vars and environment. A server in a separate process needs a "
                "name, a folder or a file, as in make('guess.py')."
            )
        provider: Provider = in_process_provider(target, max_sessions, traces)
        return _in_process_client_class(target)(provider=provider, **{**IN_PROCESS_OPTIONS, **client_kwargs})
    if traces is not None and target.kind in (TargetKind.ADDRESS, TargetKind.IMAGE):
        raise ConfigurationError(
            f"traces is for a server that make starts on this machine. The one at {target.text} keeps its episodes "
            "in the file of its option --traces."
        )
    if target.kind is TargetKind.ADDRESS:
        client_class = GenericEnvClient if environment is None else find_environment(environment).client_class()
        return client_class(base_url=target.text, **client_kwargs)
    target = located(target)
    env_vars = dict(env_vars or {})
    if traces is not None:
        env_vars[SETTINGS["traces"].variable] = str(traces)
    provider = server_of(target, max_sessions=max_sessions, env_vars=env_vars, venv=venv)
    own_class: type[Any] = (
        GenericEnvClient if target.kind in _WITHOUT_PACKAGE else find_environment(target).client_class()
    )
    if not issubclass(own_class, EnvClient):
        return make_client(own_class, provider, provider.launch(), client_kwargs)
    client: EnvClient[Any, Any, Any] = own_class(provider=provider, **client_kwargs)
    return client


def server_of(
    target: Target, *, max_sessions: int | None = None, env_vars: Mapping[str, str] | None = None, venv: bool = False
) -> Provider:
    """Return a provider that serves a target in a separate process or a container. Nothing is started here.

    Args:
        target: What is to be served, no address.
        max_sessions: Sessions that the server may hold at once; the environment's own default if ``None``.
        env_vars: Environment variables to set for the server.
        venv: Whether it runs in a separate Python environment.

    Raises:
        EnvironmentNotFoundError: There is no such environment.
        ConfigurationError: The environment is not as it must be.
        ProviderError: There is no Docker for an image.
    """
    if venv and target.kind in _WITHOUT_PACKAGE:
        raise ConfigurationError(f"venv needs an environment's folder, and {target.text} has none.")
    if target.kind is not TargetKind.IMAGE:
        served = checked(target, imports=not (venv or env_vars))  # the server may import more by its variables
        return LocalProcessProvider(served, max_sessions=max_sessions, env_vars=env_vars, venv=venv)
    sessions = {} if max_sessions is None else {SETTINGS["max_sessions"].variable: str(max_sessions)}
    return providers.LocalDockerProvider(target.text, env_vars={**sessions, **(env_vars or {})})


def in_process_provider(
    target: Any, max_sessions: int | None = None, traces: str | Path | None = None
) -> InProcessProvider:
    """Return a provider that serves an environment in this process.

    Args:
        target: The environment: a class, a function that makes an environment, an instance, or any other target.
        max_sessions: Sessions that the server may hold at once; the environment's own default if ``None``.
        traces: File in which the server keeps every episode, or the address of a database.

    Raises:
        EnvironmentNotFoundError: No such environment.
        ConfigurationError: It is not as it must be, or is a server elsewhere.
    """
    found = located(Target.of(target))
    if found.kind is TargetKind.CLASS:
        make_app = partial(app_for, found.source, found.text, max_sessions=max_sessions, debug=True, traces=traces)
        return InProcessProvider(make_app)
    if found.kind in (TargetKind.ADDRESS, TargetKind.IMAGE):
        raise ConfigurationError(f"in_process=True needs an environment that can be served here, and got {found.text}.")
    if found.kind is TargetKind.ADAPTED:
        adapted = import_module("openenv.adapters.targets").find_adapted(found)
        return InProcessProvider(partial(adapted.app, traces))
    return InProcessProvider(partial(_app_of, find_environment(found), max_sessions, traces))


def _in_process_client_class(target: Target) -> type[EnvClient[Any, Any, Any]]:
    if target.kind is TargetKind.CLASS:
        return derived_client_class(EnvironmentFactory(target.source).learn_class())
    return GenericEnvClient if target.kind is TargetKind.ADAPTED else find_environment(target).client_class()


def _app_of(package: EnvironmentPackage, max_sessions: int | None, traces: str | Path | None) -> "FastAPI":
    if max_sessions is not None or traces is not None:  # which an application that was made before does not learn
        return app_for(package.environment_class(), package.name, max_sessions=max_sessions, debug=True, traces=traces)
    app = package.app()
    server = getattr(app.state, "openenv_server", None)
    if isinstance(server, import_module("openenv.core.env_server.app").HTTPEnvServer):
        server.show_errors()
    return app
