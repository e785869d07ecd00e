"""Containers and services of a swarm whose process has ended."""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from openenv.core.providers.docker.engine import (
    ENGINE_ERRORS,
    APIError,
    DockerClient,
    NotFound,
    engine_failing,
    reason,
)
from openenv.core.providers.docker.labels import OWNER
from openenv.core.providers.docker.owner import Owner

logger = logging.getLogger(__name__)

_AT_ONCE = 8
_BEING_REMOVED = 409
_MANAGES_NO_SWARM = 503


def remove_container(client: DockerClient, container_id: str, *, grace_s: float = 0.0) -> None:
    """Stop and remove a container with its volumes; one that is gone already is fine.

    Args:
        client: The engine.
        container_id: The container.
        grace_s: Seconds for its server to end by itself; with 0 it gets no signal.
    """
    try:
        if grace_s > 0:
            client.api.stop(container_id, timeout=round(grace_s))
        client.api.remove_container(container_id, v=True, force=True)
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != _BEING_REMOVED:
            raise


def remove_all_of(client: DockerClient, owner: Owner) -> int:
    """Remove every service and container that a process started, and return how many there were.

    What the engine can't remove keeps nothing else from it; a warning in the log names it.

    Raises:
        ProviderError: The engine does not say what there is.
    """
    label = f"{OWNER}={owner}"
    services = [each["ID"] for each in _services(client, label)]
    containers = [each["Id"] for each in _containers(client, label)]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        # Services first: a swarm replaces their containers.
        list(threads.map(partial(_try_to_remove, "service", client.api.remove_service), services))
        list(threads.map(partial(_try_to_remove, "container", partial(remove_container, client)), containers))
    return len(services) + len(containers)


def remove_leftovers(client: DockerClient) -> None:
    """Remove the services and containers of processes that have ended.

    A process's reaper does this when it ends; this is for those whose reaper was killed too, and after a power cut.

    Raises:
        ProviderError: The engine does not say what there is.
    """
    labels = [each.get("Labels") or {} for each in _containers(client, OWNER)]
    labels += [each["Spec"].get("Labels") or {} for each in _services(client, OWNER)]
    for owner in map(Owner.parse, {each.get(OWNER, "") for each in labels}):
        if owner is not None and owner.is_gone():
            remove_all_of(client, owner)


def _containers(client: DockerClient, label: str) -> list[dict[str, Any]]:
    with engine_failing("Docker does not list its containers"):
        found: list[dict[str, Any]] = client.api.containers(all=True, filters={"label": label})
    return found


def _services(client: DockerClient, label: str) -> list[dict[str, Any]]:
    with engine_failing("Docker does not list the services of its swarm"):
        try:
            found: list[dict[str, Any]] = client.api.services(filters={"label": label})  # type: ignore[no-untyped-call]
        except APIError as error:
            if error.status_code != _MANAGES_NO_SWARM:
                raise
            return []
    return found


def _try_to_remove(kind: str, remove: Callable[[str], object], name: str) -> None:
    try:
        remove(name)
    except NotFound:
        pass
    except ENGINE_ERRORS as error:
        logger.warning("the %s %s, whose process has ended, can't be removed: %s", kind, name, reason(error))
