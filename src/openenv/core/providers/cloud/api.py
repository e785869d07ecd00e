"""Calls of a cloud service's HTTP API."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import httpx

from openenv.core.providers.cloud.errors import Service, ServiceError, repeated, retry_after, shortened
from openenv.core.wire.redaction import longest_first, without_secrets

REQUEST_TIMEOUT_S = 30.0
"""Seconds that a service may take for an answer, by default."""

_HARMLESS = frozenset({"GET", "DELETE"})


class ServiceApi:
    """A service's HTTP API, which takes and gives JSON. Calls whose failure may pass are repeated; see ``repeated``.

    Args:
        service: Whose it is.
        url: The API's address.
        headers: What every call sends.
        secrets: Texts that no error shows.
    """

    def __init__(self, service: Service, url: str, headers: Mapping[str, str], secrets: Sequence[str]) -> None:
        self._service = service
        self._url = url.rstrip("/")
        self._secrets = longest_first(secrets)
        self._headers = dict(headers)
        self._client: httpx.Client | None = None

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
        harmless: bool | None = None,
    ) -> Any:
        """Call the API.

        Args:
            method: ``GET``, ``POST`` and so on.
            path: From the API's address on; or an address of the service's own, for which its key is good too.
            body: What to send, as JSON.
            params: What to append to the address.
            timeout_s: Seconds for each try.
            harmless: Whether carrying it out twice does no harm; by default that is so for ``GET`` and ``DELETE``.

        Returns:
            The answer's JSON; ``None`` where it has no content.

        Raises:
            ServiceError: The service refused the call, or did not answer.
        """
        url = path if path.startswith(("http://", "https://")) else f"{self._url}{path}"
        if self._client is None:
            # No redirects: the key goes to no other address than the API's own.
            self._client = httpx.Client(headers=self._headers, follow_redirects=False)
        request = self._client.build_request(method, url, json=body, params=params, timeout=timeout_s)
        harmless = method in _HARMLESS if harmless is None else harmless
        return repeated(partial(self._send, self._client, request), harmless=harmless)

    def close(self) -> None:
        """Close the connections; a further call opens new ones."""
        if self._client is not None:
            self._client.close()
        self._client = None

    def _send(self, client: httpx.Client, request: httpx.Request) -> Any:
        try:
            response = client.send(request)
        except httpx.TransportError as error:
            detail = self._without_secrets(str(error)) or type(error).__name__
            raise self._service.silence(f"at {request.url.copy_with(query=None)}", detail) from error
        call = f"{request.method} {request.url.path}"
        if not response.is_success:
            wait_s = retry_after(response.headers.get("Retry-After", ""))
            raise self._service.refusal(call, response.status_code, self._without_secrets(_reason(response)), wait_s)
        try:
            return response.json() if response.content.strip() else None
        except ValueError as error:
            raise ServiceError(
                f"{self._service.name} answered {call} with something that is no JSON: "
                f"{shortened(self._without_secrets(response.text))!r}. Is {self._url} the address of its API?",
                response.status_code,
            ) from error

    def _without_secrets(self, text: str) -> str:
        return str(without_secrets(text, self._secrets))


def _reason(response: httpx.Response) -> str:
    """Return what an answer says of the error: a field of its JSON, or its text unless that is a page."""
    try:
        content = response.json()
    except ValueError:
        return "" if "html" in response.headers.get("Content-Type", "") else response.text.strip()
    if not isinstance(content, Mapping):
        return str(content or "")
    said = content.get("message") or content.get("error") or content.get("detail") or content
    if isinstance(said, Mapping):
        said = said.get("message") or said
    return str(said)
