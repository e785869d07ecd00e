"""The target of a command: read and checked before anything is started."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from openenv.adapters.targets import AdaptedEnvironment
from openenv.auto.discovery import checked, located
from openenv.auto.installing import downloaded_space
from openenv.auto.target import PLAYED, Target, TargetKind
from openenv.cli.groups import RefusalError
from openenv.core.exceptions import OpenEnvError, ServerError


def read_target(
    text: str, command: str, kinds: Collection[TargetKind] = PLAYED, *, trusted: bool = False, imports: bool = True
) -> Target:
    """Read a command's argument for an environment, and check that it is there.

    Args:
        text: The argument.
        command: Name of the command.
        kinds: Kinds of targets that it takes.
        trusted: Whether a Space's code may run here.
        imports: Whether a file is imported, to see that it has an environment.

    Returns:
        The target; for a Space the folder that it was downloaded to.

    Raises:
        RefusalError: There is no such environment or server, or the command does not take its kind.
    """
    with refusing():
        target = located(Target.of(text).required(kinds, f"`openenv {command}`"), trusted=trusted)
        if target.kind is TargetKind.ADDRESS:
            # The client, which a command that serves does without.
            client = import_module("openenv.core.client.client")
            fetch_schemas = import_module("openenv.core.client.server_api").fetch_schemas
            fetch_schemas(target.text, client.authorized_headers(None, None))
        elif target.kind is not TargetKind.IMAGE:
            checked(target, imports=imports)
    return target


def played_environment(text: str, command: str, base_url: str | None = None) -> str:
    """Return the environment of a command that plays episodes: as it was given, but for a Space its folder.

    Args:
        text: The argument.
        command: Name of the command.
        base_url: Address of the environment's server, if it was given; its package need not be here then.

    Raises:
        RefusalError: There is no such environment or server, or the command does not take its kind.
    """
    if base_url is None:
        target = read_target(text, command)
        return target.text if target.kind is TargetKind.FOLDER else text
    with refusing():
        Target.of(text).required(PLAYED, f"`openenv {command}`")
    read_target(base_url, f"{command} --base-url", {TargetKind.ADDRESS})
    return text


def dataset_environment(
    text: str, split: str | None, *, trusted: bool = False, base_url: str | None = None
) -> tuple[str, str]:
    """Return what runs a dataset's environment, as commands take it, and its tasks as ``--tasks`` takes them.

    Args:
        text: Reference of the environment.
        split: Split of its tasks; the first one if ``None``.
        trusted: Whether code that it names may run here. A Space that runs on the Hub is connected to.
        base_url: Address of the environment's server, if it was given: no code runs here then, so none is trusted.

    Raises:
        RefusalError: There is no such dataset, environment or split, or its code is not trusted.
    """
    # A command that serves does without clients and datasets.
    open_dataset = import_module("openenv.auto.dataset.opening").open_dataset
    running_space = import_module("openenv.auto.auto_env").running_space
    with refusing():
        opened = open_dataset(text)
        tasks = f"{opened.ref}?split={opened.split(split)}"
        if base_url is not None:
            return opened.declared_target, tasks
        target = Target.of(opened.target(trusted=trusted))
        if target.kind is not TargetKind.SPACE:
            return str(target) if target.kind is not TargetKind.IMAGE else f"docker:{target}", tasks
        return running_space(target.text) or str(downloaded_space(target.text, trusted=trusted)), tasks


@contextmanager
def refusing() -> Iterator[None]:
    """Have the errors of a target end the command with status 2.

    Raises:
        RefusalError: The target was refused.
    """
    try:
        yield
    except ServerError:  # the server is there, and refuses, as one that requires a token
        raise
    except (OpenEnvError, OSError) as error:
        raise RefusalError(str(error)) from error


def find_mcp_server(
    command: str, tasks: Path | None, reward: str | None, variables: Sequence[str]
) -> AdaptedEnvironment:
    """Make an environment of the MCP server that a command starts; see ``adapters.mcp_server.environment_for``.

    Raises:
        ConfigurationError: There is no such command, or its tasks or reward function can't be read.
    """
    from openenv.adapters.mcp_server.factory import environment_for  # the SDK takes long, and few need it here

    return AdaptedEnvironment("mcp-server", environment_for(command, tasks, reward, variables))
