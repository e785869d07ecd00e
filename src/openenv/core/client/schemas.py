"""The JSON Schemas that a server publishes of its environment's types."""

from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request

from openenv.core.client.transport.connection import failure_text, server_sentence, unauthorized
from openenv.core.documents import MAX_JSON_BYTES, parse_json
from openenv.core.exceptions import ConfigurationError, ConnectionFailedError, OpenEnvError
from openenv.core.providers.health import opener_for

TIMEOUT_S = 10.0
_UNAUTHORIZED = 401
_HTTP_SCHEMES = {"ws": "http", "wss": "https"}
_PARTS = frozenset({"action", "observation", "state"})


def fetch_schemas(
    base_url: str, headers: Mapping[str, str] | None = None, timeout_s: float | None = TIMEOUT_S
) -> dict[str, dict[str, Any]]:
    """Ask a server for its schemas. This blocks.

    Args:
        base_url: The server's address: ``http://``, ``https://``, ``ws://``, ``wss://`` or a bare host.
        headers: Further headers of the request.
        timeout_s: Seconds that connecting and each part of the answer may take; ``None`` for no limit.

    Returns:
        The schemas of ``action``, ``observation`` and ``state``.

    Raises:
        ConfigurationError: The address is none.
        ConnectionFailedError: There is no server, or it has no schemas.
        ServerUnauthorizedError: It asks for a token, or for another one.
    """
    address = f"{http_address(base_url)}/schema"
    request = Request(address)  # noqa: S310  # the scheme was checked above
    for name, value in (headers or {}).items():
        request.add_unredirected_header(name, value)  # they may hold secrets, which are for this server alone
    try:
        with opener_for(address).open(request, timeout=timeout_s) as answer:
            document = parse_json(answer.read(MAX_JSON_BYTES))
    except HTTPError as error:
        raise _refusal(address, error) from error
    except (OSError, HTTPException, ValueError) as error:
        said = failure_text(error)
        raise ConnectionFailedError(f"Expected the environment's schemas at {address}, but: {said}") from None
    if not isinstance(document, dict) or not document.keys() >= _PARTS:
        raise ConnectionFailedError(
            f"Expected the environment's schemas at {address}, got {document!r:.200}. Is it an OpenEnv server?"
        )
    return {part: schema for part, schema in document.items() if isinstance(schema, dict)}


def _refusal(address: str, error: HTTPError) -> OpenEnvError:
    with error:
        said = server_sentence(error.read())
    if error.code == _UNAUTHORIZED:
        return unauthorized(address, said)
    return ConnectionFailedError(f"Expected the environment's schemas at {address}, but: {said or repr(error)}.")


def http_address(base_url: str) -> str:
    """Return where a server answers over HTTP, without a slash at the end.

    Args:
        base_url: The server's address: ``http://``, ``https://``, ``ws://``, ``wss://`` or a bare host.

    Raises:
        ConfigurationError: It is no address.
    """
    scheme, separator, rest = base_url.rstrip("/").partition("://")
    if not separator:
        return f"http://{scheme}"
    scheme = scheme.lower()
    scheme = _HTTP_SCHEMES.get(scheme, scheme)
    if scheme not in ("http", "https"):
        raise ConfigurationError(f"A server's address looks like http://host:port, but got {base_url!r}.")
    return f"{scheme}://{rest}"
