"""Copy of a Space in another account."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from openenv.core.exceptions import HubError
from openenv.hub.client import Hub, as_items

DEFAULT_HARDWARE = "cpu-basic"


@dataclass(frozen=True)
class Fork:
    """New repository, and its source.

    Attributes:
        source: ``OWNER/NAME`` of the Space to start from.
        repo_id: ``OWNER/NAME`` of the new Space.
        private: Whether the new one is for its owner only; as the source is, if not.
        hardware: Hardware that it runs on.
        variables: Environment variables, beside the source's.
        secrets: Variables that no visitor can read; the source's are not copied.
    """

    source: str
    repo_id: str
    private: bool = False
    hardware: str = DEFAULT_HARDWARE
    variables: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


def fork_space(fork: Fork, hub: Hub) -> str:
    """Copy a Space into another account, with its files, history and variables.

    Args:
        fork: The new Space.
        hub: The Hub.

    Returns:
        The address of the new Space's page.

    Raises:
        HubError: There is a Space of that name already; or the Hub refuses, or can't be reached.
    """
    look = partial(hub.api.repo_exists, fork.repo_id, repo_type="space")
    if hub.request(f"look for {fork.repo_id}", look):
        raise HubError(f"There is a Space {fork.repo_id} already; choose another name with --repo-id.")
    hardware: Any = fork.hardware  # the Hub has more than the library lists
    call = partial(
        hub.api.duplicate_repo,
        fork.source,
        fork.repo_id,
        repo_type="space",
        private=fork.private or None,
        space_hardware=hardware,
        space_variables=as_items(fork.variables),
        space_secrets=as_items(fork.secrets),
        exist_ok=True,  # there was none: where the Hub knows it, an earlier attempt has made it
    )
    return str(hub.request(f"fork {fork.source} to {fork.repo_id}", call))
