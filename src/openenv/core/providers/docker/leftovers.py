"""Containers whose process has ended."""

import logging
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


def remove_containers_of(client: DockerClient, owner: Owner) -> int:
    """Remove every container that a process started, and return how many there were.

    One that the engine can't remove keeps no other from it; a warning in the log names it.

    Raises:
        ProviderError: The engine does not say which there are.
    """
    found = [container["Id"] for container in _labelled(client, f"{OWNER}={owner}")]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(partial(_try_to_remove, client), found))
    return len(found)


def remove_leftovers(client: DockerClient) -> None:
    """Remove the containers of processes that have ended.

    A process's reaper does this when it ends; this is for those whose reaper was killed too, and after a power cut.

    Raises:
        ProviderError: The engine does not say which there are.
    """
    owners = {(container.get("Labels") or {}).get(OWNER, "") for container in _labelled(client, OWNER)}
    for owner in map(Owner.parse, owners):
        if owner is not None and owner.is_gone():
            remove_containers_of(client, owner)


def _labelled(client: DockerClient, label: str) -> list[dict[str, Any]]:
    with engine_failing("Docker does not list its containers"):
        found: list[dict[str, Any]] = client.api.containers(all=True, filters={"label": label})
    return found


def _try_to_remove(client: DockerClient, container_id: str) -> None:
    try:
        remove_container(client, container_id)
    except ENGINE_ERRORS as error:
        logger.warning("the container %s, whose process has ended, can't be removed: %s", container_id, reason(error))
