"""Address of a served model: the options ``--provider``, ``--llm-endpoint`` and ``--llm-port`` as one URL."""

from typing import Literal
from urllib.parse import urlsplit, urlunsplit

from openenv.core.exceptions import ConfigurationError

ProviderName = Literal["scripted", "openai", "anthropic"]

SCRIPTED: ProviderName = "scripted"
"""The public package's name of a player without a model."""

_API_PATH = "/v1"
_OF_PROVIDER = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com/v1/"}


def model_address(provider: ProviderName | None, endpoint: str | None, port: int | None) -> str | None:
    """Return the address of a model's OpenAI-compatible API; ``None`` where no option names one.

    Raises:
        ConfigurationError: The address is none of HTTP, or there is a port without an address.

    Example:
        >>> model_address(None, "http://localhost", 8000)
        'http://localhost:8000/v1'
        >>> model_address(None, "http://localhost:8000/api", None)
        'http://localhost:8000/api'
    """
    if endpoint is None:
        if port is not None:
            raise ConfigurationError(f"--llm-port {port} needs an address: give it with --llm-endpoint.")
        return None if provider is None else _OF_PROVIDER.get(provider)
    try:
        parts = urlsplit(endpoint)
        given_port, host = parts.port, parts.hostname
    except ValueError:  # as for a port of letters
        given_port, host = None, None
    if parts.scheme not in ("http", "https") or host is None:
        raise ConfigurationError(f"Expected --llm-endpoint to be an address, as http://host:8000, got {endpoint!r}.")
    netloc = parts.netloc if given_port is not None or port is None else f"{parts.netloc}:{port}"
    path = parts.path if parts.path.strip("/") else _API_PATH
    return urlunsplit((parts.scheme, netloc, path, parts.query, ""))
