"""From an environment's name to a client that is ready to use."""

from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv.auto.discovery import find_environment
from openenv.auto.in_process import InProcessProvider
from openenv.auto.names import check_no_image, is_adapted, is_url
from openenv.auto.package import EnvironmentPackage, made_client_class
from openenv.auto.serving import app_for
from openenv.core.client.launch import make_client
from openenv.core.env_client import EnvClient
from openenv.core.env_server.execution.introspection import EnvironmentFactory
from openenv.core.env_server.settings import SETTINGS
from openenv.core.exceptions import ConfigurationError
from openenv.core.generic_client import GenericEnvClient
from openenv.core.providers.base import RuntimeProvider
from openenv.core.providers.local_process import LocalProcessProvider

if TYPE_CHECKING:
    from fastapi import FastAPI

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
    """Make a client for an environment, with a server of its own unless a URL is given.

    The server starts when the client first connects, and ends when the client is closed: in a process of its own, or in
    this one, where breakpoints work.

    Args:
        name_or_path_or_url: Name of an installed environment (``wordle``), an environment's folder or file
            (``guess.py``, ``guess.py:GuessEnvironment``), the address of a running server (``http://host:8000``), or
            another world's environment (``gymnasium:CartPole-v1``), whose actions and observations are dicts. Or an
            environment's class, a function that makes one, or an instance, which are served in this process.
        environment: For an address: name or folder of the environment that is served there, for the types of its
            client. Without it actions and observations are dicts.
        max_sessions: Sessions that the started server may hold at once; the environment's own default if ``None``.
        env_vars: Environment variables to set for the started server.
        venv: Whether to run it in a Python environment of its own, with what the environment's folder asks for; it is
            built on the first start, and kept.
        in_process: Whether the server runs in a thread of this process: by default for a class, a function and an
            instance. Then an answer may take as long as it likes, unless ``message_timeout_s`` is given.
        traces: File in which the started server keeps every episode, or the address of a database, as for ``openenv
            serve --traces``; what ``OPENENV_TRACES`` says if ``None``.
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
    target = name_or_path_or_url
    if in_process or not isinstance(target, str | Path):
        if in_process is False or venv or env_vars or environment is not None:
            raise ConfigurationError(
                "A class, a function or an instance is served in this process, as all else is with in_process=True. "
                "Leave out in_process=False, venv, env_vars and environment. A server in a process of its own needs a "
                "name, a folder or a file, as in make('guess.py')."
            )
        provider: RuntimeProvider = in_process_provider(target, max_sessions, traces)
        return _in_process_client_class(target)(provider=provider, **{**IN_PROCESS_OPTIONS, **client_kwargs})
    if is_url(target):
        if traces is not None:
            raise ConfigurationError(
                f"traces is for a server that make starts. The one at {target} keeps its episodes where its own option "
                "--traces says."
            )
        client_class = GenericEnvClient if environment is None else find_environment(environment).client_class()
        return client_class(base_url=str(target), **client_kwargs)
    if traces is not None:
        env_vars = {**(env_vars or {}), SETTINGS["traces"].variable: str(traces)}
    check_no_image(target)
    if is_adapted(target):
        if venv:
            raise ConfigurationError(f"venv needs an environment's folder, and {target} has none.")
        provider = LocalProcessProvider(target, max_sessions=max_sessions, env_vars=env_vars)
        return GenericEnvClient(provider=provider, **client_kwargs)
    package = find_environment(target)
    provider = LocalProcessProvider(package.target, max_sessions=max_sessions, env_vars=env_vars, venv=venv)
    own_class: type[Any] = package.client_class()
    if not issubclass(own_class, EnvClient):
        return make_client(own_class, provider, provider.launch(), client_kwargs)
    client: EnvClient[Any, Any, Any] = own_class(provider=provider, **client_kwargs)
    return client


def in_process_provider(
    target: Any, max_sessions: int | None = None, traces: str | Path | None = None
) -> InProcessProvider:
    """Make what serves an environment in this process.

    Args:
        target: A class, a function that makes an environment, an instance, or what such is found by.
        max_sessions: Sessions that the server may hold at once; the environment's own default if ``None``.
        traces: As for ``make``.

    Raises:
        EnvironmentNotFoundError: No such environment.
        ConfigurationError: It is not as it must be, or is a server elsewhere.
    """
    if not isinstance(target, str | Path):
        name = EnvironmentFactory(target).name
        return InProcessProvider(partial(app_for, target, name, max_sessions=max_sessions, debug=True, traces=traces))
    if is_url(target):
        raise ConfigurationError(f"in_process=True needs an environment that can be served here, and got {target}.")
    if is_adapted(target):
        found = import_module("openenv.adapters.targets").find_adapted(target)
        return InProcessProvider(partial(found.app, traces))
    return InProcessProvider(partial(_app_of, find_environment(target), max_sessions, traces))


def _in_process_client_class(target: Any) -> type[EnvClient[Any, Any, Any]]:
    if not isinstance(target, str | Path):
        return made_client_class(EnvironmentFactory(target).learn_class())
    return GenericEnvClient if is_adapted(target) else find_environment(target).client_class()


def _app_of(package: EnvironmentPackage, max_sessions: int | None, traces: str | Path | None) -> "FastAPI":
    if max_sessions is not None or traces is not None:  # which an application that was made before does not learn
        return app_for(package.environment_class(), package.name, max_sessions=max_sessions, debug=True, traces=traces)
    app = package.app()
    server = getattr(app.state, "openenv_server", None)
    if isinstance(server, import_module("openenv.core.env_server.app").HTTPEnvServer):
        server.show_errors()
    return app
