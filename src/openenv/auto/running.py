"""Find the server that is running already for a client that is asked for by name."""

import logging

from openenv.core.addresses import is_on_this_machine
from openenv.core.exceptions import ConnectionFailedError
from openenv.core.providers.health import is_up, wait_until_healthy
from openenv.core.providers.spaces import space_url

PROBE_S = 2.0
"""Seconds within which a server at a given address must answer."""

SPACE_PROBE_S = 5.0
"""The same for a running Space."""

logger = logging.getLogger(__name__)


def answers_at(base_url: str) -> bool:
    """Ask whether a server answers at an address.

    Returns:
        Whether it does; ``False`` only for an address of this machine, where one can be started.

    Raises:
        ConfigurationError: It is no HTTP address.
        ConnectionFailedError: Nobody answers at the address of another machine.
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
    """Nobody here knows whether a server elsewhere has ended."""
