"""``EndpointReward``: a service over HTTP that scores, as a rubric."""

import asyncio
import json
import os
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cache
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from openenv.core.rewards.samples import ReadSample, SampleRubric

__all__ = ["EndpointReward"]

_LONGEST_ANSWER = 1_000_000
_NAMES = ("reward", "score")
# A thread that waits for an answer costs little; many that go on at the same time keep the event loop from running.
_AT_ONCE = 32


class EndpointReward(SampleRubric):
    """Score of an HTTP endpoint that is posted ``{"prompt", "completion", "target", "columns"}``; ``async``.

    It answers a number, or an object with the number as ``reward`` or ``score``. Redirects are not followed. A process
    has at most 32 requests under way, whatever their endpoints; others wait, before the time for their answer begins.

    Args:
        url: Address of the endpoint, ``http`` or ``https``.
        headers: Headers of the request, such as one with a token.
        timeout_s: Seconds that an answer may take.
        sample: Reads what is scored; by default `sample_of`.

    Raises:
        ValueError: The address is of another kind.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
        sample: ReadSample | None = None,
    ) -> None:
        super().__init__(sample)
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"Expected an address that begins with http:// or https://, got {url!r}.")
        self._url = url
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._timeout_s = timeout_s
        self._answer: Any = None

    async def forward(self, action: Any, observation: Any) -> Any:
        """Post the sample and read the score.

        Raises:
            ConnectionError: The endpoint can't be reached, refuses, or does not answer in time.
            ValueError: The answer has no score.
        """
        body = json.dumps(asdict(self._sample(action, observation)), default=str).encode()
        text = await asyncio.get_running_loop().run_in_executor(_threads(os.getpid()), self._post, body)
        try:
            self._answer = json.loads(text)
        except ValueError:
            raise ValueError(f"Expected JSON from {self._url}, got {text[:200]!r}.") from None
        return self._score(self._answer)

    def evidence(self) -> Any:
        """Return the last answer."""
        return self._answer

    def _post(self, body: bytes) -> bytes:
        request = Request(self._url, body, self._headers, method="POST")  # noqa: S310  # checked above
        try:
            with _opener().open(request, timeout=self._timeout_s) as response:
                text: bytes = response.read(_LONGEST_ANSWER)
                return text
        except HTTPError as error:
            with error:
                said = error.read(200).decode(errors="replace")
            raise ConnectionError(f"{self._url} answered with status {error.code}: {said}") from None
        except (URLError, TimeoutError) as error:
            reason = getattr(error, "reason", error)
            raise ConnectionError(f"Expected an answer of {self._url} within {self._timeout_s:g} s: {reason}") from None

    def _score(self, answer: Any) -> Any:
        if isinstance(answer, Mapping):
            answer = next((answer[name] for name in _NAMES if name in answer), None)
        if isinstance(answer, bool) or not isinstance(answer, int | float):
            raise ValueError(
                f"Expected a number from {self._url}, or one as reward or score; got {self._answer!r:.200}."
            )
        return answer


class _NoRedirects(HTTPRedirectHandler):
    """A redirect is an error: it could lead the headers' token elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        return None


@cache
def _opener() -> OpenerDirector:
    """Return what opens addresses; its certificates are read once, which takes longer than a request."""
    return build_opener(_NoRedirects, HTTPSHandler(context=ssl.create_default_context()))


@cache
def _threads(_process_id: int) -> ThreadPoolExecutor:
    """Return the threads of the requests. asyncio's own are a few, and other work of the process needs them.

    Args:
        _process_id: The process, since one that was forked has none of them.
    """
    return ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="openenv-endpoint")
