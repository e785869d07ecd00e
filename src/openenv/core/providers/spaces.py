"""Names and addresses of Spaces, which are environments on the Hugging Face Hub. Nothing here uses the network."""

import os
import re

from openenv.core.exceptions import ConfigurationError

HUB_VARIABLE = "HF_ENDPOINT"
"""Address of the Hub, by the variable that ``huggingface_hub`` reads too."""

SPACE_URL_VARIABLE = "OPENENV_SPACE_URL"
"""Address that a running Space has, with ``{subdomain}`` in the place of its name."""

SPACE_REGISTRY = "registry.hf.space"

SPACE_ID = r"\w[\w.-]*/\w[\w.-]*"
"""A Space's id as a regular expression of ASCII: ``OWNER/NAME``."""

_HUB = "https://huggingface.co"
_SPACE_URL = "https://{subdomain}.hf.space"


def hf_space_subdomain(repo_id: str) -> str:
    """Return the name by which a Space is known among addresses and images.

    Args:
        repo_id: The Space, as ``OWNER/NAME``.

    Example:
        >>> hf_space_subdomain("openenv/Echo_Env")
        'openenv-echo-env'
    """
    return re.sub(r"[^a-z0-9]", "-", repo_id.lower())


def space_url(repo_id: str) -> str:
    """Return the address of a running Space.

    ``OPENENV_SPACE_URL`` may name another place than the Hub's, as in ``http://localhost:9000/{subdomain}``.

    Args:
        repo_id: The Space, as ``OWNER/NAME``.

    Raises:
        ConfigurationError: That is no Space's id.

    Example:
        >>> space_url("openenv/echo_env")
        'https://openenv-echo-env.hf.space'
    """
    subdomain = hf_space_subdomain(_checked(repo_id))
    return (os.environ.get(SPACE_URL_VARIABLE) or _SPACE_URL).replace("{subdomain}", subdomain)


def space_image(repo_id: str, tag: str = "latest") -> str:
    """Return the name of the image that a Space runs.

    Args:
        repo_id: The Space, as ``OWNER/NAME``.
        tag: The image's tag, or its digest as ``sha256:...``.

    Raises:
        ConfigurationError: That is no Space's id.

    Example:
        >>> space_image("openenv/echo-env")
        'registry.hf.space/openenv-echo-env:latest'
    """
    separator = "@" if tag.startswith("sha256:") else ":"
    return f"{SPACE_REGISTRY}/{hf_space_subdomain(_checked(repo_id))}{separator}{tag}"


def space_repository(repo_id: str) -> str:
    """Return the address of a Space's git repository, as pip and uv take it.

    Args:
        repo_id: The Space, as ``OWNER/NAME``.

    Raises:
        ConfigurationError: That is no Space's id.

    Example:
        >>> space_repository("openenv/echo-env")
        'git+https://huggingface.co/spaces/openenv/echo-env'
    """
    hub = (os.environ.get(HUB_VARIABLE) or _HUB).rstrip("/")
    return f"git+{hub}/spaces/{_checked(repo_id)}"


def _checked(repo_id: str) -> str:
    if re.fullmatch(SPACE_ID, repo_id, re.ASCII) is None:
        raise ConfigurationError(f"Expected a Space as OWNER/NAME, as in openenv/echo-env, got {repo_id!r}.")
    return repo_id
